use flate2::{Compress, Compression, FlushCompress};

use super::*;

fn read_pieces(deflate: bool, pieces: &[&[u8]]) -> Vec<String> {
    let (mut told, mut data) = (Vec::new(), Vec::new());
    let mut hear = |one: Told<'_>| match one {
        Told::Data(part) => data.extend_from_slice(part),
        Told::Message { kind, len, readable } => {
            assert_eq!(len, data.len() as u64);
            told.push(format!("{kind:?} {readable} {}", String::from_utf8_lossy(&data)));
            data.clear();
        }
        other => told.push(format!("{other:?}")),
    };
    let mut socket = WebSocket::new(deflate);
    for piece in pieces {
        socket.feed(piece, &mut hear);
    }
    socket.finish(&mut hear);
    told
}

fn read_with(deflate: bool, bytes: &[u8]) -> Vec<String> {
    let whole = read_pieces(deflate, &[bytes]);
    for at in 0..=bytes.len() {
        assert_eq!(read_pieces(deflate, &[&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read_pieces(deflate, &single), whole);
    whole
}

fn read(frames: &[Vec<u8>]) -> Vec<String> {
    read_with(false, &frames.concat())
}

fn frame(first: u8, mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let flag = if mask.is_some() { 0x80 } else { 0 };
    match payload.len() {
        short @ 0..=125 => bytes.push(flag | short as u8),
        middle @ 126..=0xffff => {
            bytes.push(flag | 126);
            bytes.extend((middle as u16).to_be_bytes());
        }
        long => {
            bytes.push(flag | 127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    bytes.extend(mask.iter().flatten());
    bytes.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask.map_or(0, |mask| mask[at % 4])));
    bytes
}

#[test]
fn messages_are_unmasked_and_put_together() {
    let mask = Some([1, 2, 3, 250]);
    let told = read(&[
        frame(0x81, mask, b"{\"id\":1}"),
        frame(0x01, mask, b"{\"a\""),
        frame(0x89, None, b"are you there"),
        frame(0x00, Some([9, 9, 9, 9]), b":"),
        frame(0x8a, None, b""),
        frame(0x80, mask, b"2}"),
        frame(0x82, None, b""),
        frame(0x88, None, b"\x03\xe8bye"),
    ]);
    assert_eq!(
        told,
        [
            "Text true {\"id\":1}",
            "Ping",
            "Pong",
            "Text true {\"a\":2}",
            "Binary true ",
            "Close { code: Some(1000), reason: [98, 121, 101] }"
        ]
    );
}

#[test]
fn all_three_lengths_are_read() {
    for length in [125, 126, 300] {
        assert_eq!(
            read(&[frame(0x81, Some([7; 4]), &vec![b'x'; length])]),
            [format!("Text true {}", "x".repeat(length))]
        );
    }
    let long = vec![b'y'; 70_000];
    let bytes = frame(0x81, Some([1, 2, 3, 4]), &long);
    let pieces: Vec<&[u8]> = bytes.chunks(999).collect();
    assert_eq!(read_pieces(false, &pieces), [format!("Text true {}", "y".repeat(70_000))]);
}

#[test]
fn frames_that_break_the_rules_are_passed_over() {
    let good = || frame(0x81, None, b"ok");
    for (bad, fault) in [
        (frame(0xc1, None, b"compressed?"), Fault::Reserved),
        (frame(0x83, None, b"what"), Fault::Reserved),
        (frame(0x80, None, b"of what"), Fault::OutOfOrder),
        (frame(0x09, None, b"half a ping"), Fault::BadControl),
        (frame(0x89, None, &[0; 200]), Fault::BadControl),
    ] {
        assert_eq!(read(&[bad, good()]), [format!("Fault({fault:?})"), "Text true ok".to_string()]);
    }
    assert_eq!(read(&[frame(0x01, None, b"half"), good()]), ["Text false half", "Fault(OutOfOrder)", "Text true ok"]);
    let lost = [&[0x81, 127][..], &[0xff; 8], b"anything"].concat();
    assert_eq!(read(&[lost, good()]), ["Fault(BadLength)"]);
}

#[test]
fn an_end_within_a_message_is_told() {
    assert_eq!(read(&[vec![0x81, 5, b'a']]), ["Text false a", "Fault(CutShort)"]);
    assert_eq!(read(&[vec![0x81]]), ["Fault(CutShort)"]);
    assert_eq!(read(&[frame(0x01, None, b"a")]), ["Text false a", "Fault(CutShort)"]);
    assert_eq!(read(&[]), Vec::<String>::new());
}

fn deflated(compress: &mut Compress, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 100);
    compress.compress_vec(text, &mut out, FlushCompress::Sync).unwrap();
    assert_eq!(out.split_off(out.len() - 4), [0, 0, 255, 255]);
    out
}

#[test]
fn compressed_messages_are_inflated_with_their_history() {
    let mut compress = Compress::new(Compression::default(), false);
    let text = b"{\"jsonrpc\":\"2.0\",\"method\":\"hello hello hello\"}";
    let first = deflated(&mut compress, text);
    let second = deflated(&mut compress, text);
    assert!(second.len() < first.len(), "the second leans on the first");
    let bytes = [
        frame(0x41, Some([5, 6, 7, 8]), &first[..3]),
        frame(0x80, Some([5, 6, 7, 8]), &first[3..]),
        frame(0xc1, None, &second),
        frame(0x81, None, b"plain"),
    ]
    .concat();
    let wanted = format!("Text true {}", String::from_utf8_lossy(text));
    assert_eq!(read_with(true, &bytes), [wanted.clone(), wanted, "Text true plain".to_string()]);
}

#[test]
fn what_will_not_inflate_is_told_and_given_as_it_came() {
    let bytes = [frame(0xc1, None, &[0xff; 9]), frame(0xc1, None, b"zip"), frame(0x81, None, b"plain")].concat();
    let told = read_pieces(true, &[&bytes]);
    assert_eq!(told, ["Fault(NotInflated)", "Text false ", "Text false zip", "Text true plain"]);
}

#[test]
fn a_gap_within_a_payload_keeps_the_place() {
    let bytes = [frame(0x81, Some([1, 2, 3, 4]), b"0123456789"), frame(0x81, None, b"next")].concat();
    let mut told = Vec::new();
    let mut hear = |one: Told<'_>| told.push(format!("{one:?}"));
    let mut socket = WebSocket::new(false);
    socket.feed(&bytes[..9], &mut hear);
    socket.gap(4, &mut hear);
    socket.feed(&bytes[13..], &mut hear);
    assert!(told.contains(&"Data([55, 56, 57])".to_string()), "{told:?}");
    assert!(told.contains(&"Message { kind: Text, len: 6, readable: false }".to_string()), "{told:?}");
    assert!(told.contains(&"Message { kind: Text, len: 4, readable: true }".to_string()), "{told:?}");
}

#[test]
fn behind_a_gap_the_next_frame_is_found() {
    let mask = Some([9, 2, 3, 4]);
    let frames = [frame(0x81, mask, b"{\"a\":1}"), frame(0x81, mask, b"{\"b\":2}"), frame(0x81, mask, b"{\"c\":3}")];
    for rest in [frames[2].clone(), [frames[2].clone(), frames[0][..3].to_vec()].concat()] {
        let mut told = Vec::new();
        let mut hear = |one: Told<'_>| told.push(format!("{one:?}"));
        let mut socket = WebSocket::new(false);
        socket.feed(&frames[0], &mut hear);
        socket.gap(20, &mut hear);
        socket.feed(b"the rest of one", &mut hear);
        socket.feed(&rest, &mut hear);
        assert_eq!(told.iter().filter(|one| one.contains("readable: true")).count(), 2, "{told:?}");
        assert!(told.contains(&"PassedOver(15)".to_string()), "{told:?}");
    }
}

#[test]
fn the_extension_is_read_from_the_head() {
    for (header, deflates) in [
        (None, false),
        (Some("permessage-deflate; client_no_context_takeover"), true),
        (Some("x-other, Permessage-Deflate"), true),
        (Some("x-permessage-deflate"), false),
    ] {
        assert_eq!(WebSocket::agreed(header).inflater.is_some(), deflates, "{header:?}");
    }
}
