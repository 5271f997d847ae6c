//! Writes down a conversation: bytes and happenings in, numbered events out.
//!
//! Comes in: the raw bytes of each direction in any pieces, or bodies that something else has already cut, and all
//! that happens around them. Goes out to a [`Sink`]: the bytes first, then the events that point at them. No body
//! is held whole: each stream keeps a framer and a scanner, both bounded. The scribe does not read the clock.

use super::{
    Event, FIRST_CARRIER_STREAM, Happening, How, Micros, Party, SERVER_STREAM, STDERR_STREAM, SessionKey, Side, Sink,
    Span, StreamId, What, stream_of,
};
use crate::rpc::{Message, Oddity, Scanner, Unreadable};
use crate::wire::lines::Lines;
use crate::wire::sniff::Sniff;
use crate::wire::{Framing, Piece};

/// A body that comes in parts is held up to here, to lie among the others when it turns out to be short; a longer
/// one gets a stream of its own.
pub const LONGEST_HELD_BODY_BYTES: usize = 16 * 1024;

/// One direction of the conversation.
struct Lane {
    /// What cuts it into messages; a side that gives whole bodies needs none.
    reader: Option<Box<Reader>>,
    /// How long its stream is.
    length: u64,
}

struct Reader {
    framer: Sniff,
    scanner: Scanner,
}

impl Lane {
    fn starting_at(offset: u64) -> Lane {
        Lane { reader: None, length: offset }
    }

    fn reader(&mut self) -> &mut Reader {
        let start = self.length;
        self.reader
            .get_or_insert_with(|| Box::new(Reader { framer: Sniff::starting_at(start), scanner: Scanner::new() }))
    }
}

/// A body that comes in parts, between [`Scribe::begin_body`] and [`Scribe::end_body`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenBody(usize);

struct Coming {
    from: Side,
    carrier: Option<u64>,
    scanner: Box<Scanner>,
    held: Vec<u8>,
    /// Its own stream and how much lies there, once it is too long to hold.
    stream: Option<(StreamId, u64)>,
}

pub struct Scribe {
    numbers: Numbers,
    client: Lane,
    server: Lane,
    stderr: Lines,
    coming: Vec<Option<Coming>>,
    next_stream: StreamId,
    /// For bodies that come whole, and for the next one that comes in parts.
    spare: Option<Box<Scanner>>,
    messages: Vec<Message>,
    /// Bodies that end now do so because they were torn.
    torn: bool,
}

/// Gives each event its number.
struct Numbers {
    session: SessionKey,
    last: u64,
}

impl Numbers {
    fn emit(&mut self, at: Micros, carrier: Option<u64>, what: What, sink: &mut (impl Sink + ?Sized)) {
        self.last += 1;
        sink.event(Event { session: self.session, seq: self.last, at, carrier, what });
    }
}

impl Scribe {
    pub fn new(session: SessionKey) -> Scribe {
        Scribe::resume(session, 0)
    }

    /// Goes on with a session whose last event had the number `last_seq`. Where each stream stands is told by
    /// [`Scribe::resume_stream`].
    pub fn resume(session: SessionKey, last_seq: u64) -> Scribe {
        Scribe {
            numbers: Numbers { session, last: last_seq },
            client: Lane::starting_at(0),
            server: Lane::starting_at(0),
            stderr: Lines::default(),
            coming: Vec::new(),
            next_stream: FIRST_CARRIER_STREAM,
            spare: None,
            messages: Vec::new(),
            torn: false,
        }
    }

    /// The stored stream has been cut into events up to `offset`; what lies behind it is told by
    /// [`Scribe::recall`], and then the stream goes on.
    pub fn resume_stream(&mut self, stream: StreamId, offset: u64) {
        match stream {
            STDERR_STREAM => self.stderr = Lines::starting_at(offset),
            SERVER_STREAM => self.server = Lane::starting_at(offset),
            stream if stream >= FIRST_CARRIER_STREAM => self.next_stream = self.next_stream.max(stream + 1),
            _ => self.client = Lane::starting_at(offset),
        }
    }

    /// Bytes that lie in the stored stream already, but have not become events. They are not stored again.
    pub fn recall(&mut self, stream: StreamId, at: Micros, bytes: &[u8], sink: &mut (impl Sink + ?Sized)) {
        match stream {
            STDERR_STREAM => self.read_stderr(at, bytes, sink),
            SERVER_STREAM => self.read(Side::Server, at, bytes, sink),
            stream if stream >= FIRST_CARRIER_STREAM => {}
            _ => self.read(Side::Client, at, bytes, sink),
        }
    }

    pub fn session(&self) -> SessionKey {
        self.numbers.session
    }

    /// The number of the last event.
    pub fn last_seq(&self) -> u64 {
        self.numbers.last
    }

    /// How this side frames its messages, once that has shown.
    pub fn framing(&self, from: Side) -> Option<Framing> {
        let lane = if from == Side::Client { &self.client } else { &self.server };
        lane.reader.as_ref()?.framer.framing()
    }

    /// Raw bytes of one direction, in any pieces. A side gives either these or whole bodies, never both.
    pub fn bytes(&mut self, from: Side, at: Micros, bytes: &[u8], sink: &mut (impl Sink + ?Sized)) {
        sink.bytes(self.numbers.session, stream_of(from), bytes);
        self.read(from, at, bytes, sink);
    }

    fn lane(&mut self, from: Side) -> &mut Lane {
        match from {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn read(&mut self, from: Side, at: Micros, bytes: &[u8], sink: &mut (impl Sink + ?Sized)) {
        let Scribe { numbers, client, server, messages, .. } = self;
        let lane = if from == Side::Client { client } else { server };
        let Reader { framer, scanner } = lane.reader();
        framer.feed(bytes, &mut |piece: Piece<'_>| hear(piece, from, at, numbers, scanner, messages, sink));
        lane.length += bytes.len() as u64;
    }

    /// Bytes of the server's stderr.
    pub fn stderr(&mut self, at: Micros, bytes: &[u8], sink: &mut (impl Sink + ?Sized)) {
        sink.bytes(self.numbers.session, STDERR_STREAM, bytes);
        self.read_stderr(at, bytes, sink);
    }

    fn read_stderr(&mut self, at: Micros, bytes: &[u8], sink: &mut (impl Sink + ?Sized)) {
        let Scribe { numbers, stderr, .. } = self;
        stderr.feed(bytes, &mut |piece: Piece<'_>| hear_stderr(piece, at, numbers, sink));
    }

    /// stderr is over: its last line may have had no end.
    pub fn end_stderr(&mut self, at: Micros, sink: &mut (impl Sink + ?Sized)) {
        let Scribe { numbers, stderr, .. } = self;
        stderr.finish(&mut |piece: Piece<'_>| hear_stderr(piece, at, numbers, sink));
    }

    /// One direction is over: gives what is left of it, then tells that it closed.
    pub fn end(&mut self, from: Side, at: Micros, by: Party, how: How, sink: &mut (impl Sink + ?Sized)) {
        self.flush(from, at, sink);
        self.happening(at, None, Happening::Closed { from, by, how }, sink);
    }

    /// Gives what is left of one direction, as [`Scribe::end`] does, without telling that it closed.
    pub fn flush(&mut self, from: Side, at: Micros, sink: &mut (impl Sink + ?Sized)) {
        let Scribe { numbers, client, server, messages, .. } = self;
        let lane = if from == Side::Client { client } else { server };
        let Some(reader) = &mut lane.reader else { return };
        let Reader { framer, scanner } = &mut **reader;
        framer.finish(&mut |piece: Piece<'_>| hear(piece, from, at, numbers, scanner, messages, sink));
    }

    /// The capture lost `missing` bytes of this direction here. The message they fall into is given as far as it came;
    /// what follows is cut anew.
    pub fn cut(&mut self, from: Side, at: Micros, missing: u64, why: &str, sink: &mut (impl Sink + ?Sized)) {
        let Scribe { numbers, client, server, messages, .. } = self;
        let lane = if from == Side::Client { client } else { server };
        let Reader { framer, scanner } = lane.reader();
        framer.finish(&mut |piece: Piece<'_>| match piece {
            Piece::Body(part) => scanner.push(part),
            Piece::End { body_start, body_len, .. } => {
                scanner.finish_cut(messages);
                let body = Span { stream: stream_of(from), start: body_start, len: body_len };
                for message in messages.drain(..) {
                    numbers.emit(at, None, What::Message { from, message, body }, sink);
                }
            }
            // That the frame does not end is the loss told below, no fault of the traffic.
            Piece::Fault { .. } => {}
        });
        let lost = Happening::Lost { from: Some(from), events: 0, bytes: missing, why: why.to_string() };
        self.happening(at, None, lost, sink);
    }

    pub fn happening(&mut self, at: Micros, carrier: Option<u64>, what: Happening, sink: &mut (impl Sink + ?Sized)) {
        self.numbers.emit(at, carrier, What::Happening(what), sink);
    }

    /// A whole message that something else has cut: a JSON body, the data of a server-sent event, a line of a log.
    pub fn body(&mut self, from: Side, at: Micros, carrier: Option<u64>, body: &[u8], sink: &mut (impl Sink + ?Sized)) {
        if self.torn {
            return self.cut_body(from, at, carrier, body, sink);
        }
        let scanner = self.spare.get_or_insert_default();
        scanner.push(body);
        scanner.finish(&mut self.messages);
        self.keep_body(from, at, carrier, body, sink);
    }

    /// What carried the bodies broke: until this is taken back, those that end are not badly written, but half a
    /// message reached nobody, so it is none, whatever it began to say.
    pub fn tear(&mut self, torn: bool) {
        self.torn = torn;
    }

    /// Like [`Scribe::body`], of a message that was cut off by the log, or on its way.
    pub fn cut_body(
        &mut self,
        from: Side,
        at: Micros,
        carrier: Option<u64>,
        body: &[u8],
        sink: &mut (impl Sink + ?Sized),
    ) {
        let scanner = self.spare.get_or_insert_default();
        scanner.push(body);
        scanner.finish_cut(&mut self.messages);
        self.keep_body(from, at, carrier, body, sink);
    }

    fn keep_body(
        &mut self,
        from: Side,
        at: Micros,
        carrier: Option<u64>,
        body: &[u8],
        sink: &mut (impl Sink + ?Sized),
    ) {
        self.forget_torn();
        let stream = stream_of(from);
        sink.bytes(self.numbers.session, stream, body);
        let lane = self.lane(from);
        let span = Span { stream, start: lane.length, len: body.len() as u64 };
        lane.length += span.len;
        for message in self.messages.drain(..) {
            self.numbers.emit(at, carrier, What::Message { from, message, body: span }, sink);
        }
    }

    fn forget_torn(&mut self) {
        let torn = self.torn;
        for message in self.messages.iter_mut().filter(|message| torn && message.oddities.has(Oddity::PayloadCut)) {
            *message = Message::unreadable(Unreadable::Truncated);
        }
    }

    /// Gives back what memory reading takes: nothing may come for long.
    pub fn rest(&mut self) {
        self.spare = None;
        self.messages = Vec::new();
    }

    /// A body begins that comes in parts. To be ended by [`Scribe::end_body`], however it ends.
    pub fn begin_body(&mut self, from: Side, carrier: Option<u64>) -> OpenBody {
        let scanner = self.spare.take().unwrap_or_default();
        let coming = Coming { from, carrier, scanner, held: Vec::new(), stream: None };
        match self.coming.iter().position(Option::is_none) {
            Some(free) => {
                self.coming[free] = Some(coming);
                OpenBody(free)
            }
            None => {
                self.coming.push(Some(coming));
                OpenBody(self.coming.len() - 1)
            }
        }
    }

    pub fn body_part(&mut self, body: OpenBody, part: &[u8], sink: &mut (impl Sink + ?Sized)) {
        let Some(Some(coming)) = self.coming.get_mut(body.0) else { return };
        coming.scanner.push(part);
        let session = self.numbers.session;
        if coming.stream.is_none() && coming.held.len() + part.len() > LONGEST_HELD_BODY_BYTES {
            let stream = self.next_stream;
            self.next_stream += 1;
            if !coming.held.is_empty() {
                sink.bytes(session, stream, &coming.held);
            }
            coming.stream = Some((stream, coming.held.len() as u64));
            coming.held = Vec::new();
        }
        match &mut coming.stream {
            Some((stream, length)) => {
                sink.bytes(session, *stream, part);
                *length += part.len() as u64;
            }
            None => coming.held.extend_from_slice(part),
        }
    }

    /// The body is whole.
    pub fn end_body(&mut self, body: OpenBody, at: Micros, sink: &mut (impl Sink + ?Sized)) {
        self.close_body(body, at, self.torn, sink);
    }

    /// The body was cut off, by the log that held it or on its way.
    pub fn end_cut_body(&mut self, body: OpenBody, at: Micros, sink: &mut (impl Sink + ?Sized)) {
        self.close_body(body, at, true, sink);
    }

    fn close_body(&mut self, body: OpenBody, at: Micros, cut: bool, sink: &mut (impl Sink + ?Sized)) {
        let Some(mut coming) = self.coming.get_mut(body.0).and_then(Option::take) else { return };
        while self.coming.last().is_some_and(Option::is_none) {
            self.coming.pop();
        }
        match cut {
            true => coming.scanner.finish_cut(&mut self.messages),
            false => coming.scanner.finish(&mut self.messages),
        }
        let Coming { from, carrier, scanner, held, stream } = coming;
        self.spare = Some(scanner);
        let Some((stream, len)) = stream else { return self.keep_body(from, at, carrier, &held, sink) };
        self.forget_torn();
        let span = Span { stream, start: 0, len };
        for message in self.messages.drain(..) {
            self.numbers.emit(at, carrier, What::Message { from, message, body: span }, sink);
        }
    }
}

/// One piece of a framed direction.
#[inline]
fn hear(
    piece: Piece<'_>,
    from: Side,
    at: Micros,
    numbers: &mut Numbers,
    scanner: &mut Scanner,
    messages: &mut Vec<Message>,
    sink: &mut (impl Sink + ?Sized),
) {
    match piece {
        Piece::Body(part) => scanner.push(part),
        Piece::End { body_start, body_len, .. } => {
            scanner.finish(messages);
            let body = Span { stream: stream_of(from), start: body_start, len: body_len };
            for message in messages.drain(..) {
                numbers.emit(at, None, What::Message { from, message, body }, sink);
            }
        }
        Piece::Fault { fault, start, len } => {
            let bytes = Span { stream: stream_of(from), start, len };
            numbers.emit(at, None, What::Fault { from, fault, bytes }, sink);
        }
    }
}

fn hear_stderr(piece: Piece<'_>, at: Micros, numbers: &mut Numbers, sink: &mut (impl Sink + ?Sized)) {
    if let Piece::End { body_start, body_len, .. } = piece {
        let bytes = Span { stream: STDERR_STREAM, start: body_start, len: body_len };
        numbers.emit(at, None, What::Stderr { bytes }, sink);
    }
}

#[cfg(test)]
#[path = "scribe_tests.rs"]
mod tests;
