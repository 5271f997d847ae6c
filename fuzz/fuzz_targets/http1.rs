#![no_main]

use libfuzzer_sys::fuzz_target;
use rpctap::wire::http1::{Http1, Told};

fn read(mut http: Http1, bytes: &[u8], size: usize) -> Vec<String> {
    let (mut told, mut body) = (Vec::new(), Vec::new());
    let mut hear = |one: Told<'_>| match one {
        Told::Body(part) | Told::Raw(part) => body.extend_from_slice(part),
        other => {
            told.push(format!("{body:?} {other:?}"));
            body.clear();
        }
    };
    for piece in bytes.chunks(size) {
        http.feed(piece, &mut hear);
    }
    http.finish(&mut hear);
    told.push(format!("{body:?}"));
    told
}

fuzz_target!(|input: &[u8]| {
    let Some((size, bytes)) = input.split_first() else { return };
    let size = *size as usize + 1;
    let responses = || {
        let mut http = Http1::responses();
        for method in ["GET", "HEAD", "POST", "CONNECT"] {
            http.asked(method);
        }
        http
    };
    assert_eq!(read(Http1::requests(), bytes, bytes.len().max(1)), read(Http1::requests(), bytes, size));
    assert_eq!(read(responses(), bytes, bytes.len().max(1)), read(responses(), bytes, size));
    // With a hole after each piece.
    let mut http = responses();
    for piece in bytes.chunks(size) {
        http.feed(piece, &mut |_| {});
        http.gap(size as u64 / 2, &mut |_| {});
    }
});
