#![no_main]

use libfuzzer_sys::fuzz_target;
use rpctap::wire::websocket::{Told, WebSocket};

fn read(mut socket: WebSocket, bytes: &[u8], size: usize) -> Vec<String> {
    let (mut told, mut data) = (Vec::new(), Vec::new());
    let mut hear = |one: Told<'_>| match one {
        Told::Data(part) => data.extend_from_slice(part),
        Told::Message { len, .. } => {
            assert_eq!(len, data.len() as u64);
            told.push(format!("{one:?} {data:?}"));
            data.clear();
        }
        other => told.push(format!("{other:?}")),
    };
    for piece in bytes.chunks(size) {
        socket.feed(piece, &mut hear);
    }
    socket.finish(&mut hear);
    told
}

fuzz_target!(|input: &[u8]| {
    let Some((size, bytes)) = input.split_first() else { return };
    let size = *size as usize + 1;
    let whole = bytes.len().max(1);
    assert_eq!(read(WebSocket::new(false), bytes, whole), read(WebSocket::new(false), bytes, size));
    // How far a broken deflate stream can be read hangs on how it is cut.
    read(WebSocket::new(true), bytes, size);
    let mut socket = WebSocket::new(true);
    for piece in bytes.chunks(size) {
        socket.feed(piece, &mut |_| {});
        socket.gap(size as u64 / 2, &mut |_| {});
    }
});
