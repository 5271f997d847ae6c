//! Server-sent events: the lines of a `text/event-stream`, read as they come.
//!
//! Comes in: the (decoded) body of a response, in any pieces. Goes out: [`Said`]: the data of an event in parts,
//! then the event. Lines end with LF, CR or CRLF, also cut between two pieces. Data is passed on and never held;
//! names and ids are held up to a limit. What the data means is not known here.

use memchr::memchr2;

/// Event names and ids are tokens; of longer ones this much is kept.
pub const LONGEST_FIELD_BYTES: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said<'a> {
    /// A further part of the current event's data, several lines joined by LF.
    Data(&'a [u8]),
    /// A blank line ended the event.
    Event {
        /// The `event` field; `""` when it was not given.
        name: &'a str,
        /// The `id` field of this very event.
        id: Option<&'a str>,
        /// How much data was told; `None` when there was no data line, which a browser would not dispatch.
        data_len: Option<u64>,
    },
    /// A line that begins with a colon: most are there to keep the connection alive.
    Comment,
    /// How long to wait before reconnecting.
    Retry(u64),
    /// The stream ended within an event. Its data, as far as told, is not to be used.
    Torn { data_len: Option<u64> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Name,
    /// Behind the colon, where one space is left out.
    Space,
    Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    Other,
}

#[derive(Debug, Clone)]
pub struct Sse {
    /// How many bytes of a byte order mark have come; past it once anything else came.
    mark: usize,
    after_cr: bool,
    place: Place,
    name: Vec<u8>,
    field: Field,
    value: Vec<u8>,
    event: String,
    id: Option<String>,
    data_len: Option<u64>,
    /// Something of an event has come.
    open: bool,
    /// Bytes are missing: the next event is looked for.
    lost: Option<Lost>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// Nothing has come since.
    Before,
    /// Within the rest of an event; the line it is in is empty so far, or not.
    Within { empty: bool, after_cr: bool },
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Default for Sse {
    fn default() -> Self {
        Sse {
            mark: 0,
            after_cr: false,
            place: Place::Name,
            name: Vec::new(),
            field: Field::Other,
            value: Vec::new(),
            event: String::new(),
            id: None,
            data_len: None,
            open: false,
            lost: None,
        }
    }
}

impl Sse {
    pub fn new() -> Sse {
        Sse::default()
    }

    pub fn feed(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Said<'_>) + ?Sized)) {
        let mut at = if self.lost.is_some() { self.look_for_event(bytes) } else { 0 };
        while at < bytes.len() {
            let byte = bytes[at];
            if self.mark < BYTE_ORDER_MARK.len() {
                if byte == BYTE_ORDER_MARK[self.mark] {
                    self.mark += 1;
                    at += 1;
                    continue;
                }
                self.name.extend_from_slice(&BYTE_ORDER_MARK[..self.mark]);
                self.mark = BYTE_ORDER_MARK.len();
            }
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                at += 1;
                continue;
            }
            match self.place {
                Place::Name => {
                    at += 1;
                    match byte {
                        b'\r' | b'\n' => self.end_line(byte, tell),
                        b':' => self.place = Place::Space,
                        // No field of ours has a name of more than five letters.
                        _ if self.name.len() < 6 => self.name.push(byte),
                        _ => {}
                    }
                }
                Place::Space => {
                    self.begin_value(tell);
                    at += usize::from(byte == b' ');
                }
                Place::Value => {
                    let found = memchr2(b'\r', b'\n', &bytes[at..]);
                    let part = &bytes[at..found.map_or(bytes.len(), |length| at + length)];
                    self.take_value(part, tell);
                    at += part.len();
                    if found.is_some() {
                        self.end_line(bytes[at], tell);
                        at += 1;
                    }
                }
            }
        }
    }

    fn begin_value(&mut self, tell: &mut (impl FnMut(Said<'_>) + ?Sized)) {
        self.place = Place::Value;
        self.value.clear();
        self.field = match &self.name[..] {
            b"data" => Field::Data,
            b"event" => Field::Event,
            b"id" => Field::Id,
            b"retry" => Field::Retry,
            _ => Field::Other,
        };
        if self.field == Field::Data {
            self.open = true;
            if let Some(length) = &mut self.data_len {
                *length += 1;
                tell(Said::Data(b"\n"));
            }
            self.data_len.get_or_insert(0);
        }
    }

    fn take_value(&mut self, part: &[u8], tell: &mut (impl FnMut(Said<'_>) + ?Sized)) {
        match self.field {
            Field::Data if !part.is_empty() => {
                *self.data_len.get_or_insert(0) += part.len() as u64;
                tell(Said::Data(part));
            }
            Field::Event | Field::Id | Field::Retry => {
                let room = LONGEST_FIELD_BYTES - self.value.len();
                self.value.extend_from_slice(&part[..part.len().min(room)]);
            }
            _ => {}
        }
    }

    fn end_line(&mut self, by: u8, tell: &mut (impl FnMut(Said<'_>) + ?Sized)) {
        self.after_cr = by == b'\r';
        if self.place == Place::Name && self.name.is_empty() {
            return self.end_event(tell);
        }
        if self.place == Place::Name || self.place == Place::Space {
            self.begin_value(tell);
        }
        match self.field {
            Field::Event => {
                self.event = String::from_utf8_lossy(&self.value).into_owned();
                self.open = true;
            }
            // The standard ignores ids with a NUL in them.
            Field::Id if !self.value.contains(&0) => {
                self.id = Some(String::from_utf8_lossy(&self.value).into_owned());
                self.open = true;
            }
            Field::Retry if !self.value.is_empty() && self.value.iter().all(u8::is_ascii_digit) => {
                if let Some(wait) = std::str::from_utf8(&self.value).ok().and_then(|digits| digits.parse().ok()) {
                    tell(Said::Retry(wait));
                }
            }
            Field::Other if self.name.is_empty() => tell(Said::Comment),
            _ => {}
        }
        self.place = Place::Name;
        self.name.clear();
    }

    fn end_event(&mut self, tell: &mut (impl FnMut(Said<'_>) + ?Sized)) {
        if self.open {
            tell(Said::Event { name: &self.event, id: self.id.as_deref(), data_len: self.data_len });
        }
        self.event.clear();
        self.id = None;
        self.data_len = None;
        self.open = false;
    }

    /// Bytes are missing here. The event they fall into is given up; what follows is read from the next one on.
    pub fn gap(&mut self) {
        *self = Sse { mark: BYTE_ORDER_MARK.len(), lost: Some(Lost::Before), ..Sse::default() };
    }

    /// How much of this belongs to an event that is given up.
    fn look_for_event(&mut self, bytes: &[u8]) -> usize {
        // A server writes whole events: what begins with a field is the beginning of one.
        if self.lost == Some(Lost::Before) {
            let fields: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
            if bytes.is_empty() || fields.iter().any(|field| bytes.starts_with(field)) {
                self.lost = self.lost.filter(|_| bytes.is_empty());
                return 0;
            }
            self.lost = Some(Lost::Within { empty: false, after_cr: false });
        }
        for (at, byte) in bytes.iter().enumerate() {
            let Some(Lost::Within { empty, after_cr }) = self.lost else { return at };
            let over = matches!(byte, b'\r' | b'\n');
            self.lost = match over {
                true if *byte == b'\n' && after_cr => Some(Lost::Within { empty, after_cr: false }),
                true if empty => {
                    self.after_cr = *byte == b'\r';
                    None
                }
                true => Some(Lost::Within { empty: true, after_cr: *byte == b'\r' }),
                false => Some(Lost::Within { empty: false, after_cr: false }),
            };
        }
        bytes.len()
    }

    /// The stream is over.
    pub fn finish(&mut self, tell: &mut (impl FnMut(Said<'_>) + ?Sized)) {
        if self.open || (self.place == Place::Name && !self.name.is_empty()) {
            tell(Said::Torn { data_len: self.data_len });
        }
        *self = Sse { mark: self.mark, ..Sse::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_pieces(pieces: &[&[u8]]) -> Vec<String> {
        let (mut said, mut data) = (Vec::new(), Vec::new());
        let mut hear = |one: Said<'_>| match one {
            Said::Data(part) => data.extend_from_slice(part),
            Said::Event { name, id, data_len } => {
                assert_eq!(data_len.unwrap_or(0), data.len() as u64);
                said.push(format!("{name}|{id:?}|{:?}", data_len.map(|_| String::from_utf8_lossy(&data).into_owned())));
                data.clear();
            }
            Said::Torn { data_len } => {
                assert_eq!(data_len.unwrap_or(0), data.len() as u64);
                said.push("torn".to_string());
            }
            other => said.push(format!("{other:?}")),
        };
        let mut sse = Sse::new();
        for piece in pieces {
            sse.feed(piece, &mut hear);
        }
        sse.finish(&mut hear);
        said
    }

    fn read(text: &str) -> Vec<String> {
        let text = text.as_bytes();
        let whole = read_pieces(&[text]);
        for at in 0..=text.len() {
            assert_eq!(read_pieces(&[&text[..at], &text[at..]]), whole, "cut at {at}");
        }
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(read_pieces(&single), whole);
        whole
    }

    #[test]
    fn behind_a_gap_the_next_event_is_found() {
        for (rest, found) in [
            ("data: b\n\ndata: c\n\n", &["b", "c"][..]),
            ("rest\r\n\r\ndata: c\r\n\r\n", &["c"]),
            ("\n\ndata: c\n\n", &["c"]),
            ("rest\rdata: b\r\rdata: c\r\r", &["c"]),
        ] {
            for cut in 0..rest.len() {
                let (mut sse, mut data, mut told) = (Sse::new(), String::new(), Vec::new());
                let mut hear = |said: Said<'_>| match said {
                    Said::Data(part) => data.push_str(std::str::from_utf8(part).unwrap()),
                    Said::Event { .. } => told.push(std::mem::take(&mut data)),
                    _ => {}
                };
                sse.feed(b"event: message\ndata: ", &mut hear);
                sse.gap();
                // The beginning of a field shows only in one piece.
                let cut = if rest.starts_with("data") { cut.max(5) } else { cut };
                sse.feed(&rest.as_bytes()[..cut], &mut hear);
                sse.feed(&rest.as_bytes()[cut..], &mut hear);
                assert_eq!(told, found, "{rest:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn all_line_ends_are_line_ends() {
        for end in ["\n", "\r", "\r\n"] {
            let text = "event: message\nid: 7\ndata: {\"a\":\ndata:1}\n\ndata:  two\n\n".replace('\n', end);
            assert_eq!(read(&text), ["message|Some(\"7\")|Some(\"{\\\"a\\\":\\n1}\")", "|None|Some(\" two\")"]);
        }
    }

    #[test]
    fn odd_fields_are_what_the_standard_says() {
        assert_eq!(read("\u{feff}data\n\n"), ["|None|Some(\"\")"]);
        assert_eq!(read("data\ndata\n\n"), ["|None|Some(\"\\n\")"]);
        assert_eq!(read("id: 1\ndata:\n\n"), ["|Some(\"1\")|Some(\"\")"]);
        assert_eq!(read("id\n\n"), ["|Some(\"\")|None"]);
        assert_eq!(read("id: a\0b\ndata: x\n\n"), ["|None|Some(\"x\")"]);
        assert_eq!(read(": ping\n\n:\nretry: 3000\nretry: 3x\n"), ["Comment", "Comment", "Retry(3000)"]);
        assert_eq!(read("databases: x\nDATA: y\n data: z\n\n"), Vec::<String>::new());
        assert_eq!(read("data: a:b: c\n\n\n\n"), ["|None|Some(\"a:b: c\")"]);
        assert_eq!(read("\u{fefe}data: a\n\ndata: b\n\n"), ["|None|Some(\"b\")"]);
    }

    #[test]
    fn an_event_that_never_ended_is_torn() {
        assert_eq!(read("data: a\n\ndata: b\n"), ["|None|Some(\"a\")", "torn"]);
        assert_eq!(read("dat"), ["torn"]);
        assert_eq!(read("data: a\n\n"), ["|None|Some(\"a\")"]);
    }

    #[test]
    fn long_fields_are_bounded() {
        let mut sse = Sse::new();
        let mut longest = 0;
        sse.feed(b"id: ", &mut |_| {});
        for _ in 0..1000 {
            sse.feed(&[b'x'; 1000], &mut |_| {});
        }
        sse.feed(b"\n\n", &mut |said| {
            if let Said::Event { id: Some(id), .. } = said {
                longest = id.len();
            }
        });
        assert_eq!(longest, LONGEST_FIELD_BYTES);
    }
}
