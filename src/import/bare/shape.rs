//! Whether the beginning of a file is bare JSON-RPC, and in which form.
//!
//! Many logs are lines of JSON with an `id` or a `method`. JSON-RPC is told by its version mark in most messages, or,
//! for peers that leave it out, by several messages that have JSON-RPC's own keys and no others.

use std::io::Read;

use serde::de::IgnoredAny;

use crate::import::Sureness;
use crate::import::array::Elements;
use crate::import::input::HEAD_BYTES;
use crate::import::json::{Fields, skip_space, value_end};

/// So many messages are looked at.
const LOOKED_AT: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One message a line, or a batch.
    Lines,
    Framed,
    /// One JSON list of messages.
    List,
    /// Each message over many lines.
    Printed,
}

pub(super) fn form_of(head: &[u8]) -> Form {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    if text.len() > 15 && text[..15].eq_ignore_ascii_case(b"content-length:") {
        return Form::Framed;
    }
    let (first, rest) = match memchr::memchr(b'\n', text) {
        Some(end) => (text[..end].trim_ascii_end(), &text[end..]),
        None => (text, &b""[..]),
    };
    match first.first() {
        Some(b'[') if text.get(skip_space(text, 1)) == Some(&b'{') => {
            // One line of several is a batch as it was on the wire.
            let batch = value_end(first, 0) == Some(first.len()) && !rest.trim_ascii().is_empty();
            if batch { Form::Lines } else { Form::List }
        }
        Some(b'{') if !rest.is_empty() && matches!(first.last(), Some(b'{' | b'[' | b',')) => Form::Printed,
        _ => Form::Lines,
    }
}

pub(super) fn sureness(head: &[u8]) -> Sureness {
    let form = form_of(head);
    let mut seen = Seen::default();
    match form {
        Form::Lines => {
            let whole_head = head.len() < HEAD_BYTES;
            let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
            let mut next = lines.next();
            for _ in 0..LOOKED_AT {
                let Some(line) = next else { break };
                next = lines.next();
                // The last line of a head is often cut.
                if next.is_some() || whole_head || seen.objects == 0 {
                    seen.look(line.strip_prefix(b"[").unwrap_or(line));
                }
            }
        }
        Form::Framed => {
            let body = memchr::memchr(b'{', head).map_or(&b""[..], |at| &head[at..]);
            seen.look(value_end(body, 0).map_or(body, |end| &body[..end]));
        }
        Form::List | Form::Printed => {
            let opening = if form == Form::List { &b""[..] } else { b"[" };
            let mut elements = Elements::new(opening.chain(head), &[]);
            while let Some(element) = elements.next_element() {
                if seen.objects == 0 || value_end(element.text, 0).is_some() {
                    seen.look(element.text);
                }
                if seen.objects == LOOKED_AT {
                    break;
                }
            }
        }
    }
    let sureness = seen.sureness();
    if form == Form::Framed { sureness.max(50) } else { sureness }
}

#[derive(Debug, Default)]
struct Seen {
    objects: usize,
    /// With JSON-RPC's version mark.
    marked: usize,
    /// Without it, and with no key that JSON-RPC does not have.
    alike: usize,
    /// Among those, with more than an id and a method.
    telling: usize,
    /// What is no object.
    others: usize,
}

impl Seen {
    fn look(&mut self, text: &[u8]) {
        let Some(mut fields) = Fields::of(text) else {
            self.others += 1;
            return;
        };
        let (mut marked, mut foreign) = (false, false);
        let (mut method, mut id, mut params, mut answer) = (false, false, false, false);
        while let Some(key) = fields.next_key() {
            let own = matches!(key, b"jsonrpc" | b"id" | b"method" | b"params" | b"result" | b"error");
            foreign |= !own;
            params |= key == b"params";
            // Of a message longer than the head, this is the last that is seen.
            answer |= key == b"result";
            let Some(value) = fields.value() else { break };
            match key {
                b"jsonrpc" => marked |= value == b"\"2.0\"",
                b"method" => method |= value.starts_with(b"\""),
                b"id" => id = true,
                b"params" => foreign |= !value.starts_with(b"{") && !value.starts_with(b"["),
                b"error" => answer |= Fields::find(value, "code").is_some(),
                _ => {}
            }
        }
        self.objects += 1;
        self.marked += usize::from(marked);
        let alike = !marked && !foreign && (method != (id && answer));
        self.alike += usize::from(alike);
        self.telling += usize::from(alike && (params || answer));
    }

    fn sureness(&self) -> Sureness {
        let fitting = self.marked + self.alike;
        // A log that keeps other things beside the messages still is one of messages.
        if self.marked > 0 && fitting * 3 >= self.objects * 2 && self.objects >= self.others {
            return 80;
        }
        let all_alike = self.objects > 0 && self.alike == self.objects && self.others == 0;
        if all_alike && self.telling > 0 { 30 } else { 0 }
    }
}

/// Why a text of a log is no message; `None` for one.
pub(super) fn why_no_message(text: &[u8]) -> Option<&'static str> {
    if !matches!(text.first(), Some(b'{' | b'[')) {
        return Some("not JSON");
    }
    if serde_json::from_slice::<IgnoredAny>(text).is_err() {
        return Some("broken JSON");
    }
    let Some(mut fields) = Fields::of(text) else {
        let batch = text.get(skip_space(text, 1)) == Some(&b'{');
        return (!batch).then_some("no JSON-RPC message");
    };
    let (mut message, mut id, mut answer) = (false, false, false);
    while let Some(key) = fields.next_key() {
        message |= matches!(key, b"jsonrpc" | b"method");
        id |= key == b"id";
        answer |= matches!(key, b"result" | b"error");
        if message || fields.value().is_none() {
            break;
        }
    }
    let is_one = message || (id && answer);
    (!is_one).then_some("no JSON-RPC message")
}
