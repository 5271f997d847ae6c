//! Reads one body of a carrier: JSON, an event stream, or the frames of a WebSocket.
//!
//! What is JSON-RPC goes to the scribe, whole when it is short and in parts as it comes when it is long. What is not
//! (pages, uploads, the forms and tokens of a login) is counted and not kept.

use crate::event::scribe::{OpenBody, Scribe};
use crate::event::{Happening, Micros, Side, Sink};

use super::content::{Content, Trouble};
use super::events::Events;
use super::head::BodyKind;
use super::held::{LONGEST_HELD_BYTES, looks_like_rpc, unmarked};
use super::refusal::is_rpc_refusal;
use super::socket::Socket;

/// So much of a refusal's text goes into a note.
const LONGEST_REFUSAL_CHARS: usize = 200;

/// Writes for one carrier at one moment.
pub(super) struct Pen<'a> {
    pub(super) scribe: &'a mut Scribe,
    pub(super) carrier: u64,
    pub(super) at: Micros,
    pub(super) sink: &'a mut dyn Sink,
    /// Where an event stream said that requests go.
    pub(super) endpoint: Option<String>,
}

impl Pen<'_> {
    pub(super) fn happening(&mut self, what: Happening) {
        self.scribe.happening(self.at, Some(self.carrier), what, self.sink);
    }

    pub(super) fn note(&mut self, text: String) {
        self.happening(Happening::Note { text });
    }

    pub(super) fn body(&mut self, from: Side, body: &[u8]) {
        self.scribe.body(from, self.at, Some(self.carrier), body, self.sink);
    }

    pub(super) fn begin(&mut self, from: Side) -> OpenBody {
        self.scribe.begin_body(from, Some(self.carrier))
    }

    pub(super) fn part(&mut self, open: OpenBody, part: &[u8]) {
        self.scribe.body_part(open, part, self.sink);
    }

    pub(super) fn end(&mut self, open: OpenBody) {
        self.scribe.end_body(open, self.at, self.sink);
    }

    /// The body broke off, or we stopped reading it: what it lacks is no fault of its sender.
    pub(super) fn end_cut(&mut self, open: OpenBody) {
        self.scribe.end_cut_body(open, self.at, self.sink);
    }
}

pub(super) struct Body {
    from: Side,
    kind: BodyKind,
    /// As they travelled.
    pub(super) bytes: u64,
    /// Of a response with a status that refuses.
    pub(super) refused: bool,
    content: Content,
    reader: Reader,
    /// The other side of the exchange is JSON-RPC, so this one should be.
    expects_rpc: bool,
    had_rpc: bool,
}

enum Reader {
    /// A body of one message or batch, short so far.
    Short(Vec<u8>),
    Long(OpenBody),
    Events(Events),
    Socket(Box<Socket>),
    /// Counted only.
    Skip,
    /// A stream that cannot be read on behind a gap: all that comes is lost.
    Torn,
    Done,
}

impl Body {
    pub(super) fn new(from: Side, kind: BodyKind, coding: Option<&str>) -> Body {
        let reader = match kind {
            BodyKind::EventStream => Reader::Events(Events::default()),
            BodyKind::Other if from == Side::Client => Reader::Skip,
            _ => Reader::Short(Vec::new()),
        };
        Body {
            from,
            kind,
            bytes: 0,
            refused: false,
            content: Content::new(coding),
            reader,
            expects_rpc: from == Side::Client,
            had_rpc: false,
        }
    }

    pub(super) fn becomes_socket(&mut self, extensions: Option<&str>) {
        self.content = Content::new(None);
        self.reader = Reader::Socket(Box::new(Socket::new(extensions)));
    }

    pub(super) fn expect_rpc(&mut self, expects: bool) {
        self.expects_rpc |= expects;
    }

    pub(super) fn had_rpc(&self) -> bool {
        self.had_rpc
    }

    pub(super) fn feed(&mut self, bytes: &[u8], pen: &mut Pen<'_>) {
        self.bytes += bytes.len() as u64;
        let Body { from, kind, content, reader, expects_rpc, had_rpc, refused, .. } = self;
        match reader {
            Reader::Skip | Reader::Done => return,
            Reader::Torn => {
                let why = "what follows a gap in a coded stream could not be read".to_string();
                let lost = Happening::Lost { from: Some(*from), events: 0, bytes: bytes.len() as u64, why };
                return pen.happening(lost);
            }
            _ => {}
        }
        // Below a status that refuses anything may stand.
        let expects_rpc = *expects_rpc && !*refused;
        let trouble = content.feed(bytes, &mut |piece| {
            reader.feed(*from, *kind, expects_rpc, had_rpc, piece, pen);
        });
        if let Some(trouble) = trouble {
            self.give_up(trouble, pen);
        }
    }

    /// Bytes of it are missing here. Streams are read on from their next event or frame; what is left of a single
    /// message was cut, which is no fault of its sender.
    pub(super) fn gap(&mut self, missing: u64, pen: &mut Pen<'_>) {
        let plain = self.content.is_plain();
        match &mut self.reader {
            Reader::Events(events) if plain => return events.gap(pen),
            Reader::Socket(socket) => return socket.gap(self.from, missing, pen),
            Reader::Skip | Reader::Torn | Reader::Done => return,
            _ => {}
        }
        let streams = matches!(self.reader, Reader::Events(_));
        self.cut(pen);
        if streams {
            self.reader = Reader::Torn;
        }
    }

    /// Nothing more of it is read.
    fn cut(&mut self, pen: &mut Pen<'_>) {
        match std::mem::replace(&mut self.reader, Reader::Skip) {
            Reader::Long(open) => pen.end_cut(open),
            Reader::Short(text) if looks_like_rpc(&text) => {
                self.had_rpc = true;
                pen.scribe.cut_body(self.from, pen.at, Some(pen.carrier), &text, pen.sink);
            }
            Reader::Events(mut events) => events.end(pen),
            _ => {}
        }
    }

    fn give_up(&mut self, trouble: Trouble, pen: &mut Pen<'_>) {
        let why = trouble.told(self.content.name());
        pen.happening(Happening::Lost { from: Some(self.from), events: 1, bytes: 0, why });
        self.cut(pen);
    }

    /// The body is over, whole or not.
    pub(super) fn end(&mut self, pen: &mut Pen<'_>) {
        let Body { from, kind, content, reader, expects_rpc, had_rpc, refused, .. } = self;
        if matches!(reader, Reader::Skip | Reader::Torn) {
            return;
        }
        let expects_rpc = *expects_rpc && !*refused;
        let broken = content.finish(&mut |piece| reader.feed(*from, *kind, expects_rpc, had_rpc, piece, pen));
        if let Some(trouble) = broken {
            return self.give_up(trouble, pen);
        }
        match std::mem::replace(&mut self.reader, Reader::Done) {
            Reader::Short(text) => self.end_short(&text, pen),
            Reader::Long(open) => pen.end(open),
            Reader::Events(mut events) => events.end(pen),
            Reader::Socket(mut socket) => socket.end(self.from, pen),
            Reader::Skip | Reader::Torn | Reader::Done => {}
        }
    }

    fn end_short(&mut self, text: &[u8], pen: &mut Pen<'_>) {
        if self.content.is_mislabelled() {
            pen.note(format!("a body that says it is {} is not, and was read as it came", self.content.name()));
        }
        let said = unmarked(text);
        if said.len() < text.len() {
            pen.note("a body begins with a byte order mark, which was passed over".to_string());
        }
        let text = said.trim_ascii();
        if text.is_empty() {
            return;
        }
        if is_wide(text) && (self.expects_rpc || self.kind == BodyKind::Json) {
            return tell_wide(self.from, self.bytes, pen);
        }
        if self.refused && self.expects_rpc && !is_rpc_refusal(text) {
            let words: String = String::from_utf8_lossy(text).chars().take(LONGEST_REFUSAL_CHARS).collect();
            return pen.note(format!("the refusal says: {words}"));
        }
        let is_json = matches!(text[0], b'{' | b'[');
        // What calls itself JSON and is none is evidence; an object without any key of JSON-RPC is somebody else's.
        let is_broken = self.kind == BodyKind::Json && !is_json;
        let is_answer = is_json && self.from == Side::Server;
        if looks_like_rpc(text) || (self.expects_rpc && (is_broken || is_answer)) {
            self.had_rpc = true;
            pen.body(self.from, text);
        } else {
            pen.note(format!("a body of {} bytes is no JSON-RPC and was not kept", self.bytes));
        }
    }
}

/// Text in UTF-16 or UTF-32, with a byte order mark or without.
fn is_wide(text: &[u8]) -> bool {
    match text {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'{' | b'[', 0, ..] | [0, 0, ..] => true,
        [0, second, ..] => matches!(second, b'{' | b'['),
        _ => false,
    }
}

/// JSON-RPC is written in UTF-8. What this says may be the answer, so that none can be said to be missing.
fn tell_wide(from: Side, bytes: u64, pen: &mut Pen<'_>) {
    let why = "a body in UTF-16 or UTF-32 cannot be read".to_string();
    pen.happening(Happening::Lost { from: Some(from), events: 1, bytes, why });
}

impl Reader {
    fn feed(
        &mut self,
        from: Side,
        kind: BodyKind,
        expects_rpc: bool,
        had_rpc: &mut bool,
        piece: &[u8],
        pen: &mut Pen<'_>,
    ) {
        match self {
            Reader::Short(text) if text.len() + piece.len() <= LONGEST_HELD_BYTES => text.extend_from_slice(piece),
            Reader::Short(text) => {
                text.extend_from_slice(&piece[..piece.len().min(LONGEST_HELD_BYTES)]);
                let kept = looks_like_rpc(text) || (kind == BodyKind::Json && expects_rpc);
                let held = text.len() - piece.len().min(LONGEST_HELD_BYTES);
                if is_wide(text) && (kept || expects_rpc) {
                    tell_wide(from, 0, pen);
                    *self = Reader::Skip;
                    return;
                }
                if !kept {
                    pen.note("a long body is no JSON-RPC and was not kept".to_string());
                    *self = Reader::Skip;
                    return;
                }
                *had_rpc = true;
                let open = pen.begin(from);
                // A first piece that is longer than all that is held comes with nothing before it.
                let (before, piece) = match held {
                    0 => (&[][..], unmarked(piece)),
                    _ => (unmarked(&text[..held]), piece),
                };
                pen.part(open, before);
                pen.part(open, piece);
                *self = Reader::Long(open);
            }
            Reader::Long(open) => pen.part(*open, piece),
            Reader::Events(events) => events.feed(expects_rpc, had_rpc, piece, pen),
            Reader::Socket(socket) => {
                *had_rpc = true;
                socket.feed(from, piece, pen);
            }
            Reader::Skip | Reader::Torn | Reader::Done => {}
        }
    }
}
