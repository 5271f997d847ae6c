#![no_main]

use libfuzzer_sys::fuzz_target;
use rpctap::wire::sse::{Said, Sse};

fn read(bytes: &[u8], size: usize) -> Vec<String> {
    let (mut sse, mut told, mut data) = (Sse::new(), Vec::new(), Vec::new());
    let mut hear = |said: Said<'_>| match said {
        Said::Data(part) => data.extend_from_slice(part),
        Said::Event { data_len, .. } | Said::Torn { data_len } => {
            assert_eq!(data_len.unwrap_or(0), data.len() as u64);
            told.push(format!("{said:?} {data:?}"));
            data.clear();
        }
        other => told.push(format!("{other:?}")),
    };
    for piece in bytes.chunks(size) {
        sse.feed(piece, &mut hear);
    }
    sse.finish(&mut hear);
    told
}

fuzz_target!(|input: &[u8]| {
    let Some((size, bytes)) = input.split_first() else { return };
    assert_eq!(read(bytes, bytes.len().max(1)), read(bytes, *size as usize + 1));
});
