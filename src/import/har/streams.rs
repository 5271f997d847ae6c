//! The messages of an event stream, each at a time it may have had.
//!
//! A HAR holds the body of a stream as a whole and no times within it. Told at its end, an answer on a stream that stays
//! open would come long after all requests, and a request of the server after its answer. So what must have come
//! earlier is given earlier: an answer once its request is told, a request before its answer is. Their order on the
//! stream is kept. This file refuses to know entries and carriers.

use std::collections::{HashSet, VecDeque};

use crate::import::json::Fields;

/// What a message is, as far as order goes. Ids are JSON text.
#[derive(Debug, PartialEq, Eq, Hash, Clone)]
pub(super) enum Said {
    Asks(Vec<u8>),
    Answers(Vec<u8>),
    Other,
}

impl Said {
    pub(super) fn of(body: &[u8]) -> Said {
        let (mut id, mut method, mut answer) = (None, false, false);
        if let Some(mut fields) = Fields::of(body) {
            while let Some(key) = fields.next_key() {
                answer |= matches!(key, b"result" | b"error");
                method |= key == b"method";
                let is_id = key == b"id";
                let Some(value) = fields.value() else { break };
                if is_id {
                    id = Some(value.to_vec());
                }
            }
        }
        match id {
            Some(id) if method => Said::Asks(id),
            Some(id) if answer => Said::Answers(id),
            _ => Said::Other,
        }
    }
}

/// Whose requests a stream answers.
#[derive(Debug)]
pub(super) enum Serves {
    /// Those sent to this place: the older transport.
    Endpoint(String),
    /// Those of this session.
    Session(String),
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) carrier: u64,
    pub(super) serves: Serves,
    events: VecDeque<(Vec<u8>, Said)>,
    /// Answered on this stream, and not asked yet.
    awaited: HashSet<Vec<u8>>,
}

impl Stream {
    /// Cuts the body of a stream. `None` where nothing in it must come before its end.
    pub(super) fn of(carrier: u64, body: &[u8], session: Option<&str>, answers_others: bool) -> Option<Stream> {
        let mut events: VecDeque<(Vec<u8>, Said)> = VecDeque::new();
        let mut endpoint = None;
        for event in cut(body) {
            let (name, data) = fields(event);
            if name == "endpoint" {
                endpoint.get_or_insert(String::from_utf8_lossy(&data).into_owned());
            }
            events.push_back((event.to_vec(), Said::of(&data)));
        }
        let asks = events.iter().any(|(_, said)| matches!(said, Said::Asks(_)));
        if endpoint.is_none() && !answers_others && !asks {
            return None;
        }
        let serves = match (endpoint, session) {
            (Some(endpoint), _) => Serves::Endpoint(endpoint),
            (None, Some(session)) => Serves::Session(session.to_string()),
            (None, None) => return None,
        };
        let answered = events.iter().filter_map(|(_, said)| match said {
            Said::Answers(id) if answers_others => Some(id.clone()),
            _ => None,
        });
        let awaited = answered.collect();
        Some(Stream { carrier, serves, events, awaited })
    }

    /// Whether a request with this URL and session belongs to the same conversation.
    pub(super) fn serves(&self, url: &str, session: Option<&str>) -> bool {
        match &self.serves {
            Serves::Endpoint(endpoint) => !endpoint.is_empty() && url.ends_with(endpoint.as_str()),
            Serves::Session(own) => session == Some(own.as_str()),
        }
    }

    /// What comes before any message: the `endpoint` event.
    pub(super) fn opening(&mut self) -> Vec<u8> {
        let first = self.events.iter().position(|(event, _)| fields(event).0 == "endpoint");
        self.give(first.map_or(0, |at| at + 1))
    }

    /// A request was told: what may have come now that it is asked.
    pub(super) fn asked(&mut self, id: &[u8]) -> Vec<u8> {
        if !self.awaited.remove(id) {
            return Vec::new();
        }
        let mut ready = 0;
        for (at, (_, said)) in self.events.iter().enumerate() {
            match said {
                Said::Answers(id) if self.awaited.contains(id) => break,
                Said::Answers(_) => ready = at + 1,
                _ => {}
            }
        }
        self.give(ready)
    }

    /// An answer of the client is about to be told: what must have come before it.
    pub(super) fn answered(&mut self, id: &[u8]) -> Vec<u8> {
        let place = self.events.iter().position(|(_, said)| matches!(said, Said::Asks(asked) if asked == id));
        self.give(place.map_or(0, |at| at + 1))
    }

    pub(super) fn rest(&mut self) -> Vec<u8> {
        self.give(self.events.len())
    }

    fn give(&mut self, count: usize) -> Vec<u8> {
        self.events.drain(..count).flat_map(|(event, _)| event).collect()
    }
}

/// Events with the blank lines that end them, byte for byte.
fn cut(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let (mut at, mut blank) = (0, false);
        while at < rest.len() && !blank {
            let line = at;
            while at < rest.len() && !matches!(rest[at], b'\n' | b'\r') {
                at += 1;
            }
            blank = at == line;
            at += if rest[at..].starts_with(b"\r\n") { 2 } else { 1 };
        }
        let (event, left) = rest.split_at(at.min(rest.len()));
        rest = left;
        (!event.is_empty()).then_some(event)
    })
}

/// The event's name and data.
fn fields(event: &[u8]) -> (String, Vec<u8>) {
    let (mut name, mut data) = (String::new(), Vec::new());
    for line in event.split(|byte| matches!(byte, b'\n' | b'\r')) {
        if let Some(value) = line.strip_prefix(b"event:") {
            name = String::from_utf8_lossy(value.trim_ascii()).into_owned();
        } else if let Some(value) = line.strip_prefix(b"data:") {
            data.extend_from_slice(value.trim_ascii());
        }
    }
    (name, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn an_answer_waits_for_its_request_and_those_before_it() {
        let body = "event: endpoint\ndata: /m?s=1\n\ndata: {\"id\":1,\"result\":0}\r\n\r\ndata: {\"method\":\"n\"}\n\ndata: {\"id\":3,\"result\":0}\n\ndata: {\"id\":2,\"result\":0}\n\n";
        let mut stream = Stream::of(7, body.as_bytes(), None, true).expect("a stream of the older transport");
        assert!(stream.serves("http://h/m?s=1", None) && !stream.serves("http://h/m?s=2", None));
        assert_eq!(text(stream.opening()), "event: endpoint\ndata: /m?s=1\n\n");
        assert_eq!(text(stream.asked(b"1")), "data: {\"id\":1,\"result\":0}\r\n\r\n");
        assert_eq!(text(stream.asked(b"2")), "");
        assert_eq!(text(stream.asked(b"9")), "");
        let left = "data: {\"method\":\"n\"}\n\ndata: {\"id\":3,\"result\":0}\n\ndata: {\"id\":2,\"result\":0}\n\n";
        assert_eq!(text(stream.asked(b"3")), left);
    }

    #[test]
    fn a_request_of_the_server_comes_before_its_answer() {
        let body = "data: {\"id\":\"a\",\"method\":\"roots/list\"}\n\ndata: {\"id\":4,\"result\":{}}\n\n";
        assert!(Stream::of(1, b"data: {\"id\":4,\"result\":{}}\n\n", Some("s"), false).is_none());
        let mut stream = Stream::of(1, body.as_bytes(), Some("s"), false).expect("it asks");
        assert!(stream.serves("http://h/mcp", Some("s")));
        assert_eq!(text(stream.asked(b"4")), "", "its own answer keeps the time of its end");
        assert_eq!(text(stream.answered(b"\"a\"")), "data: {\"id\":\"a\",\"method\":\"roots/list\"}\n\n");
        assert_eq!(text(stream.rest()), "data: {\"id\":4,\"result\":{}}\n\n");
    }
}
