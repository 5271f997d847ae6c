#![no_main]

use libfuzzer_sys::fuzz_target;
use rpctap::event::{Collected, How, Party, Scribe, Side};

fuzz_target!(|input: &[u8]| {
    let Some((size, bytes)) = input.split_first() else { return };
    let (mut scribe, mut all) = (Scribe::new(1), Collected::default());
    for (number, piece) in bytes.chunks(*size as usize + 1).enumerate() {
        match number % 3 {
            0 => scribe.bytes(Side::Client, number as i64, piece, &mut all),
            1 => scribe.bytes(Side::Server, number as i64, piece, &mut all),
            _ => scribe.stderr(number as i64, piece, &mut all),
        }
    }
    scribe.end(Side::Client, 0, Party::Client, How::Eof, &mut all);
    scribe.end(Side::Server, 0, Party::Server, How::Eof, &mut all);
    scribe.end_stderr(0, &mut all);
    for (number, event) in all.events.iter().enumerate() {
        assert_eq!(event.seq, number as u64 + 1);
        if let Some(span) = event.span() {
            let stream = all.streams.get(&(1, span.stream)).expect("bytes come before events");
            assert!(span.start + span.len <= stream.len() as u64);
        }
    }
});
