#![no_main]

use libfuzzer_sys::fuzz_target;
use rpctap::rpc::{Kind, Marks, Message, Scanner, Unreadable};

fn scan(bytes: &[u8], size: usize) -> Vec<Message> {
    let (mut scanner, mut messages) = (Scanner::new(), Vec::new());
    for piece in bytes.chunks(size) {
        scanner.push(piece);
    }
    scanner.finish(&mut messages);
    messages
}

fuzz_target!(|input: &[u8]| {
    let Some((size, bytes)) = input.split_first() else { return };
    let messages = scan(bytes, bytes.len().max(1));
    assert_eq!(messages, scan(bytes, *size as usize + 1));
    assert!(!messages.is_empty());
    for message in &messages {
        assert_eq!(Marks::from_json(message.marks.as_json()), message.marks);
    }
    if std::str::from_utf8(bytes).is_ok() {
        let broken =
            matches!(messages[0].kind, Kind::Unreadable(Unreadable::StrayText | Unreadable::BadJson));
        // serde_json counts depth; beyond its limit only we go on.
        match serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
            Ok(_) => assert!(!broken),
            Err(error) if error.to_string().contains("recursion") => {}
            Err(_) => assert!(broken),
        }
    }
});
