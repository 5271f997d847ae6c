use super::super::told::{self, Told};
use super::*;

fn cut(text: &[u8]) -> Vec<Told> {
    told::every_split::<ContentLength>(text)
}

fn bodies(told: &[Told]) -> Vec<&str> {
    let body = |told: &'_ Told| match told {
        Told::Frame { .. } => true,
        Told::Fault { .. } => false,
    };
    told.iter()
        .filter(|one| body(one))
        .map(|one| match one {
            Told::Frame { body, .. } => std::str::from_utf8(body).unwrap(),
            Told::Fault { .. } => unreachable!(),
        })
        .collect()
}

fn faults(told: &[Told]) -> Vec<(Fault, u64, u64)> {
    told.iter()
        .filter_map(|one| match one {
            Told::Fault { fault, start, len } => Some((*fault, *start, *len)),
            Told::Frame { .. } => None,
        })
        .collect()
}

#[test]
fn frames_follow_one_another() {
    let told = cut(b"Content-Length: 2\r\n\r\n{}Content-Length: 7\r\n\r\n{\"a\":1}");
    assert_eq!(
        told,
        [
            Told::Frame { body: b"{}".to_vec(), start: 21, end: 23 },
            Told::Frame { body: b"{\"a\":1}".to_vec(), start: 44, end: 51 },
        ]
    );
}

#[test]
fn headers_may_be_odd() {
    for head in [
        "content-length:2\r\n\r\n",
        "CONTENT-LENGTH : 2\n\n",
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        "X-Trace: a:b\r\nContent-Length:   0002  \r\nX-Content-Length: 9\r\n  folded\r\n\r\n",
        "Content-Length: 2\n\r\n",
        "\r\n\n Content-Length: 2\r\n\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n\r\n",
    ] {
        let told = cut(format!("{head}{{}}{head}[]\n").as_bytes());
        assert_eq!(bodies(&told), ["{}", "[]"], "{head:?}");
        assert_eq!(faults(&told), [], "{head:?}");
    }
}

#[test]
fn a_mark_before_a_header_is_told() {
    let told = cut(b"\xef\xbb\xbfContent-Length: 2\r\n\r\n{}");
    assert_eq!(bodies(&told), ["{}"]);
    assert_eq!(faults(&told), [(Fault::ByteOrderMark, 0, 3)]);
}

#[test]
fn bad_headers_are_told_and_passed_over() {
    for head in [
        "Content-Length: many\r\n\r\n",
        "Content-Length: -2\r\n\r\n",
        "Content-Length:\r\n\r\n",
        "Content-Length: 99999999999999999999\r\n\r\n",
        "X-Only: 1\r\n\r\n",
        "Content-Length: 2\r\nContent-Length: 3\r\n\r\n",
    ] {
        let told = cut(format!("{head}Content-Length: 2\r\n\r\n{{}}").as_bytes());
        assert_eq!(bodies(&told), ["{}"], "{head:?}");
        assert_eq!(faults(&told), [(Fault::BadHeader, 0, head.len() as u64)], "{head:?}");
    }
}

#[test]
fn stray_text_between_frames_is_garbage() {
    let told = cut(b"Starting up\nContent-Length: 2\r\n\r\n{}\nloading world...Content-Length: 2\r\n\r\n[]bye");
    assert_eq!(bodies(&told), ["{}", "[]"]);
    assert_eq!(faults(&told), [(Fault::Garbage, 0, 12), (Fault::Garbage, 36, 16), (Fault::Garbage, 75, 3)]);
}

#[test]
fn a_length_that_says_too_much_ends_at_the_next_header() {
    for extra in [1, 2, 5, 15, 17, 18, 19, 20, 21, 22, 25, 400] {
        let first = format!("Content-Length: {}\r\n\r\n{{\"a\":1}}", 7 + extra);
        let told = cut(format!("{first}Content-Length: 2\r\n\r\n{{}}Content-Length: 2\r\n\r\n[]").as_bytes());
        assert_eq!(bodies(&told), ["{\"a\":1}", "{}", "[]"], "{extra}");
        assert_eq!(faults(&told), [(Fault::WrongLength, first.len() as u64 - 7, 7)], "{extra}");
    }
    let told = cut(b"Content-Length: 50\r\n\r\n{}Content-Type: x/y\r\nContent-Length: 2\r\n\r\n[]");
    assert_eq!(bodies(&told), ["{}", "[]"]);
}

#[test]
fn a_length_that_says_too_little_leaves_a_rest() {
    let told = cut(b"Content-Length: 5\r\n\r\n{\"a\":1}Content-Length: 2\r\n\r\n{}");
    assert_eq!(bodies(&told), ["{\"a\":", "{}"]);
    assert_eq!(faults(&told), [(Fault::WrongLength, 26, 2)]);
    let told = cut(b"Content-Length: 7\r\n\r\n{\"a\":{}}\nContent-Length: 2\r\n\r\n{}");
    assert_eq!(bodies(&told), ["{\"a\":{}", "{}"]);
    assert_eq!(faults(&told), [(Fault::WrongLength, 28, 2)]);
}

#[test]
fn a_body_that_was_broken_off_ends_at_the_next_header() {
    let told = cut(b"Content-Length: 300\r\n\r\n{\"a\":\"bcContent-Length: 2\r\n\r\n{}");
    assert_eq!(bodies(&told), ["{\"a\":\"bc", "{}"]);
    assert_eq!(faults(&told), [(Fault::CutShort, 23, 8)]);
    let told = cut(b"Content-Length: 9\r\n\r\n{\"a\"");
    assert_eq!(bodies(&told), ["{\"a\""]);
    assert_eq!(faults(&told), [(Fault::CutShort, 21, 4)]);
    assert_eq!(faults(&cut(b"Content-Length: 9\r\n")), [(Fault::BadHeader, 0, 19)]);
}

#[test]
fn a_header_quoted_in_a_string_is_no_header() {
    let body = r#"{"log":"Content-Length: 12\r\n\r\n{}","cc":"Content-Length: 7"}"#;
    let frame = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let told = cut(format!("{frame}{frame}").as_bytes());
    assert_eq!(bodies(&told), [body, body]);
    assert_eq!(faults(&told), []);
}

#[test]
fn bodies_may_hold_anything() {
    for body in ["", "ccc", "Content-Length: 5", "{\n \"c\": 1\n}", "\0\r\n\r\n", "content-"] {
        let frame = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let told = cut(format!("{frame}{frame}Content-Length: 2\r\n\r\n{{}}").as_bytes());
        assert_eq!(bodies(&told), [body, body, "{}"], "{body:?}");
        assert_eq!(faults(&told), [], "{body:?}");
    }
}

#[test]
fn too_long_a_header_is_told_once_and_passed_over() {
    let mut text = b"X-Long: ".to_vec();
    text.resize(LONGEST_HEADER_BYTES + 50, b'c');
    let long = text.len() as u64;
    text.extend_from_slice(b"Content-Length: 2\r\n\r\n{}");
    let (mut framer, mut teller) = (ContentLength::default(), told::Teller::default());
    for piece in text.chunks(7) {
        framer.feed(piece, &mut |piece| teller.hear(piece));
    }
    framer.finish(&mut |piece| teller.hear(piece));
    assert_eq!(bodies(&teller.told), ["{}"]);
    assert_eq!(faults(&teller.told), [(Fault::HeaderTooLong, 0, long)]);
    assert!(framer.block.capacity() <= 2 * LONGEST_HEADER_BYTES);
}
