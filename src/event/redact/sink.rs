//! The sink before the sink: lets nothing through that is not redacted.
//!
//! Comes in: sessions, bytes and events as for any sink. Goes out: the same, redacted, to the sink behind. Bytes
//! wait here until the event arrives that says where their frame lay, or until a window of them is full. As
//! placeholders keep the length, every span stays true.

use std::collections::HashMap;

use super::walk::Walk;
use super::{Redactor, Style};
use crate::event::{
    CLIENT_STREAM, Event, Happening, SERVER_STREAM, STDERR_STREAM, Session, SessionKey, Sink, StreamId, What, stream_of,
};
use crate::rpc::{Marks, Message};

/// This much of one stream may wait for its frame to end. Beyond it a body is redacted window by window, where a
/// secret longer than the overlap of two windows (a PEM key is a fifth of it) could be told only in part.
const WINDOW_BYTES: usize = 2 * 1024 * 1024;

pub struct Redacting<S> {
    inner: S,
    redactor: Redactor,
    pub(super) waiting: HashMap<(SessionKey, StreamId), Waiting>,
}

#[derive(Default)]
pub(super) struct Waiting {
    pub(super) bytes: Vec<u8>,
    /// Where `bytes` begin in the stream.
    start: u64,
    /// A body that is being redacted in windows.
    walk: Option<Walk>,
}

impl<S: Sink> Redacting<S> {
    pub fn new(inner: S) -> Redacting<S> {
        Redacting { inner, redactor: Redactor::for_recording(), waiting: HashMap::new() }
    }

    pub fn inner(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Lets out what still waits for a frame to end. Nothing more may come for these streams.
    pub fn finish(&mut self) {
        let keys: Vec<_> = self.waiting.keys().copied().collect();
        for (session, stream) in keys {
            self.flush(session, stream);
        }
    }

    pub fn into_inner(mut self) -> S {
        self.finish();
        self.inner
    }

    fn flush(&mut self, session: SessionKey, stream: StreamId) {
        if let Some(waiting) = self.waiting.get_mut(&(session, stream)) {
            let end = waiting.start + waiting.bytes.len() as u64;
            self.release(session, stream, end, end);
        }
    }

    /// Redacts and hands on everything up to `body_start` as text and from there to `end` as one body.
    fn release(&mut self, session: SessionKey, stream: StreamId, body_start: u64, end: u64) {
        let Some(waiting) = self.waiting.get_mut(&(session, stream)) else { return };
        let place = |offset: u64| (offset.saturating_sub(waiting.start) as usize).min(waiting.bytes.len());
        let (body_from, body_to) = (place(body_start), place(end));
        if body_to == 0 {
            return;
        }
        let mut out = Vec::with_capacity(body_to);
        let mut from = body_from;
        if let Some(mut walk) = waiting.walk.take() {
            walk.run(&mut self.redactor, &waiting.bytes[..body_to], true, &mut out);
            from = body_to;
        } else if body_from > 0 {
            out.extend(self.redactor.body(&waiting.bytes[..body_from]));
        }
        if from < body_to {
            out.extend(self.redactor.body(&waiting.bytes[from..body_to]));
        }
        waiting.bytes.drain(..body_to);
        waiting.start += body_to as u64;
        self.inner.bytes(session, stream, &out);
    }

    fn message(&mut self, message: &mut Message) {
        if !message.marks.is_empty() {
            let method = message.method();
            let is_progress = method.ends_with("/progress") || method.contains("workDoneProgress");
            let mut out = Vec::new();
            Walk::of_marks(is_progress).run(&mut self.redactor, message.marks.as_json().as_bytes(), true, &mut out);
            message.marks = Marks::from_json(&String::from_utf8_lossy(&out));
        }
        if message.params_print != 0
            && let Style::SameLength { key } = &self.redactor.style
        {
            // The fingerprint of what was there would let a guess be tried; equal ones stay equal.
            let letters = super::letters(key, b'p', &message.params_print.to_le_bytes());
            message.params_print = letters.iter().take(12).fold(1, |print, letter| print << 5 | u64::from(letter & 31));
        }
    }

    fn happening(&mut self, happening: &mut Happening) {
        let redactor = &mut self.redactor;
        match happening {
            Happening::CarrierOpened { target, headers, .. } => {
                *target = redactor.text(target);
                for (name, value) in headers {
                    *value = redactor.header(name, value);
                }
            }
            Happening::CarrierHead { headers, .. } | Happening::CarrierTrailers { headers, .. } => {
                for (name, value) in headers {
                    *value = redactor.header(name, value);
                }
            }
            Happening::Lost { why: text, .. }
            | Happening::SessionEnded { how: text, .. }
            | Happening::Note { text } => {
                *text = redactor.text(text);
            }
            Happening::Opened { .. }
            | Happening::Closed { .. }
            | Happening::Exited { .. }
            | Happening::CarrierStreaming { .. }
            | Happening::StreamEvent { .. }
            | Happening::CarrierClosed { .. }
            | Happening::Sample(_) => {}
        }
    }
}

impl<S: Sink> Sink for Redacting<S> {
    fn session(&mut self, session: &Session) {
        let mut session = session.clone();
        session.name = self.redactor.text(&session.name);
        session.target = self.redactor.text(&session.target);
        self.inner.session(&session);
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        let waiting = self.waiting.entry((session, stream)).or_default();
        waiting.bytes.extend_from_slice(bytes);
        while waiting.bytes.len() > WINDOW_BYTES {
            let mut out = Vec::new();
            let mut done = 0;
            let walk = waiting.walk.get_or_insert_with(|| {
                // A header may stand before the body.
                let begin = header_len(&waiting.bytes);
                out.extend_from_slice(&waiting.bytes[..begin]);
                done = begin;
                Walk::default()
            });
            done += walk.run(&mut self.redactor, &waiting.bytes[done..], false, &mut out);
            if done == 0 {
                break;
            }
            waiting.bytes.drain(..done);
            waiting.start += done as u64;
            self.inner.bytes(session, stream, &out);
        }
    }

    fn event(&mut self, mut event: Event) {
        if let Some(span) = event.span() {
            self.release(event.session, span.stream, span.start, span.start + span.len);
        }
        match &mut event.what {
            What::Message { message, .. } => self.message(message),
            What::Happening(happening) => {
                match happening {
                    Happening::Closed { from, .. } => self.flush(event.session, stream_of(*from)),
                    Happening::Exited { .. } => {
                        for stream in [CLIENT_STREAM, SERVER_STREAM, STDERR_STREAM] {
                            self.flush(event.session, stream);
                        }
                    }
                    _ => {}
                }
                self.happening(happening);
            }
            What::Fault { .. } | What::Stderr { .. } => {}
        }
        self.inner.event(event);
    }

    fn over(&mut self, session: SessionKey) {
        self.inner.over(session);
    }
}

/// How long the line ends and header lines before a long body are; only lines that are clearly header lines count.
fn header_len(bytes: &[u8]) -> usize {
    let mut at = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    while bytes[at..].len() > 8 && bytes[at..at + 8].eq_ignore_ascii_case(b"content-") {
        match memchr::memchr(b'\n', &bytes[at..bytes.len().min(at + 4096)]) {
            Some(end) => at += end + 1,
            None => break,
        }
    }
    at + bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}
