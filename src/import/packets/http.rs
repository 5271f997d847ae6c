//! One TCP connection that speaks HTTP/1.1 → the carriers on it.
//!
//! Requests and responses are paired in order, as the protocol says. A client that goes away before its answer is whole
//! closes the carrier, by FIN or by RST; a connection upgraded to WebSocket is one long carrier.

use std::collections::{HashMap, VecDeque};

use super::talk;
use crate::event::http::{CarrierKey, HttpHappening, HttpScribe};
use crate::event::{How, Micros, Party, Side, Sink};
use crate::wire::http_head::{Head, Start};
use crate::wire::http1::{Fault, Http1, Told};

/// Where the carriers of all connections go.
pub struct Carriers<'a> {
    pub scribe: &'a mut HttpScribe,
    pub next_carrier: &'a mut CarrierKey,
    pub clients: &'a mut Clients,
    pub sink: &'a mut dyn Sink,
}

impl Carriers<'_> {
    fn take(&mut self, carrier: CarrierKey, at: Micros, what: HttpHappening<'_>) {
        self.scribe.take(carrier, at, what, self.sink);
    }
}

/// What the requests of each client said about whose they are, for streams whose own request was not seen.
#[derive(Default)]
pub struct Clients(HashMap<String, Whose>);

enum Whose {
    One(Vec<(String, String)>),
    /// Which of them cannot be said.
    Several,
}

/// Clients that are remembered.
const MOST_CLIENTS: usize = 10_000;

const MIDWAY: &str = "the connection began before the capture, or packets were left out of it";

/// Stands for the target of a request from before the capture.
const UNSEEN: &str = "(unseen)";

const WHOSE: [&str; 3] = ["user-agent", "authorization", "mcp-session-id"];

impl Clients {
    fn hear(&mut self, client: &str, fields: &[(String, String)]) {
        let field = |name: &str| fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let said = || WHOSE.into_iter().filter_map(field).cloned().collect();
        let room = self.0.len() < MOST_CLIENTS;
        match self.0.get_mut(client) {
            None if room => {
                self.0.insert(client.to_string(), Whose::One(said()));
            }
            None | Some(Whose::Several) => {}
            Some(known) => {
                let Whose::One(before) = &*known else { return };
                let same = |name: &str, unless_unsaid: bool| {
                    let before = before.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                    let (before, now) = (before.map(|(_, value)| value), field(name).map(|(_, value)| value));
                    before == now || (unless_unsaid && (before.is_none() || now.is_none()))
                };
                // The id of a session is given only after its first request.
                if !(same(WHOSE[0], false) && same(WHOSE[1], false) && same(WHOSE[2], true)) {
                    *known = Whose::Several;
                } else if field(WHOSE[2]).is_some() {
                    *known = Whose::One(said());
                }
            }
        }
    }
}

fn events_head(chunked: bool) -> String {
    let coding = if chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{coding}\r\n")
}

pub struct HttpTalk {
    client: String,
    connection: u64,
    requests: Http1,
    responses: Http1,
    /// Carriers whose response is not whole, oldest first.
    open: VecDeque<CarrierKey>,
    /// Whose request body is coming.
    asking: Option<CarrierKey>,
    upgraded: bool,
    /// Bytes are missing from the responses since the last one that began.
    torn: bool,
    /// The head of a response may be among what is missing.
    headless: bool,
    /// Where messages of this side begin is known.
    synced: [bool; 2],
    /// It began before the capture, and no request was seen since.
    midway: bool,
    /// Responses to requests from before the capture.
    pub unasked: u64,
}

impl HttpTalk {
    pub fn new(client: String, connection: u64, synced: [bool; 2]) -> HttpTalk {
        HttpTalk {
            client,
            connection,
            requests: Http1::requests(),
            responses: Http1::responses(),
            open: VecDeque::new(),
            asking: None,
            upgraded: false,
            torn: false,
            headless: false,
            synced,
            midway: synced != [true, true],
            unasked: 0,
        }
    }

    pub fn bytes(&mut self, from: Side, at: Micros, bytes: &[u8], into: &mut Carriers<'_>) {
        let Some(bytes) = self.synchronise(from, at, bytes, into) else { return };
        match from {
            Side::Client => self.read_requests(at, into, |http, tell| http.feed(bytes, tell)),
            Side::Server => {
                self.make_up_head(at, bytes, into);
                self.read_responses(at, into, |http, tell| http.feed(bytes, tell));
            }
        }
    }

    /// Where the head of an event stream is missing, what follows says that it is one: it is read all the same, for it
    /// holds the answers to requests of other connections. The same where its request is missing.
    fn make_up_head(&mut self, at: Micros, bytes: &[u8], into: &mut Carriers<'_>) {
        if let (true, Some(chunked)) = (self.headless, talk::begins_events(bytes)) {
            self.headless = false;
            if !self.open.is_empty() {
                let head = events_head(chunked);
                self.read_responses(at, into, |http, tell| http.feed(head.as_bytes(), tell));
            }
        }
        let is_stream = || {
            let end = memchr::memmem::find(bytes, b"\r\n\r\n")?;
            let head = Head::read(&bytes[..end + 4])?;
            Some(head.field("content-type")?.starts_with("text/event-stream"))
        };
        if self.open.is_empty()
            && !self.responses.within_message()
            && bytes.starts_with(b"HTTP/1.1 200")
            && is_stream() == Some(true)
        {
            self.make_up_request(at, into);
        }
    }

    fn make_up_request(&mut self, at: Micros, into: &mut Carriers<'_>) {
        let fields: String = match into.clients.0.get(&self.client) {
            Some(Whose::One(fields)) => fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect(),
            _ => String::new(),
        };
        let request = format!("GET {UNSEEN} HTTP/1.1\r\nAccept: text/event-stream\r\n{fields}\r\n");
        self.read_requests(at, into, |http, tell| http.feed(request.as_bytes(), tell));
    }

    /// What of these bytes belongs to messages whose beginning was seen.
    fn synchronise<'b>(
        &mut self,
        from: Side,
        at: Micros,
        bytes: &'b [u8],
        into: &mut Carriers<'_>,
    ) -> Option<&'b [u8]> {
        if self.synced[from as usize] {
            return Some(bytes);
        }
        let start = match from {
            Side::Client => talk::begins_http(bytes).then_some(0),
            Side::Server => talk::next_response(bytes),
        };
        let events = talk::begins_events(bytes).filter(|_| from == Side::Server && self.open.is_empty());
        let start = match (start, events) {
            (Some(start), _) => start,
            (None, Some(chunked)) => self.join_stream(at, chunked, bytes.len() as u64, into).then_some(0)?,
            (None, None) => return None,
        };
        self.synced[from as usize] = true;
        Some(&bytes[start..])
    }

    /// An event stream that began before the capture: it is read as far as it can be said whose it is.
    fn join_stream(&mut self, at: Micros, chunked: bool, bytes: u64, into: &mut Carriers<'_>) -> bool {
        match into.clients.0.get(&self.client) {
            None => return false,
            Some(Whose::Several) => {
                into.scribe.lost(at, 0, bytes, "an event stream began before the capture", into.sink);
                return false;
            }
            Some(Whose::One(_)) => {}
        }
        let response = events_head(chunked);
        self.make_up_request(at, into);
        self.read_responses(at, into, |http, tell| http.feed(response.as_bytes(), tell));
        if let Some(carrier) = self.open.back().copied() {
            let text =
                "the event stream began before the capture; whose it is is told from its client's other requests";
            into.take(carrier, at, HttpHappening::Note(text));
        }
        true
    }

    pub fn gap(&mut self, from: Side, at: Micros, bytes: u64, why: &str, into: &mut Carriers<'_>) {
        let carrier = match from {
            Side::Client if !self.upgraded => self.asking,
            _ => self.open.front().copied(),
        };
        if let Some(carrier) = carrier {
            into.take(carrier, at, HttpHappening::Lost { from, bytes, why });
            self.torn |= from == Side::Server;
        }
        if bytes > 0 && !carrier.is_some_and(|carrier| into.scribe.is_placed(carrier)) {
            into.scribe.lost_from(at, from, if carrier.is_some() { 0 } else { bytes }, why, into.sink);
        }
        match from {
            Side::Client => self.read_requests(at, into, |http, tell| http.gap(bytes, tell)),
            Side::Server => {
                self.headless = !self.responses.within_message() && !self.upgraded;
                self.read_responses(at, into, |http, tell| http.gap(bytes, tell));
            }
        }
    }

    /// One side has ended what it sends.
    pub fn fin(&mut self, from: Side, at: Micros, into: &mut Carriers<'_>) {
        match from {
            // An HTTP client that still wanted its answer would not have closed.
            Side::Client => {
                self.read_requests(at, into, |http, tell| http.finish(tell));
                self.close_all(at, Party::Client, How::Eof, into);
            }
            Side::Server => {
                let within = self.responses.within_message();
                let open = self.open.len();
                self.read_responses(at, into, |http, tell| http.finish(tell));
                // A body that lasts until the end is whole now; any other was torn.
                let torn = within && self.open.len() == open;
                self.close_all(at, Party::Server, if torn { How::Reset } else { How::Eof }, into);
            }
        }
    }

    pub fn rst(&mut self, from: Side, at: Micros, into: &mut Carriers<'_>) {
        let by = if from == Side::Client { Party::Client } else { Party::Server };
        self.close_all(at, by, How::Reset, into);
    }

    /// Nothing more is heard of this connection, and whatever is open on it may have ended in what is not.
    pub fn let_go(&mut self, at: Micros, into: &mut Carriers<'_>) {
        self.close_all(at, Party::Unknown, How::Eof, into);
    }

    fn close_all(&mut self, at: Micros, by: Party, how: How, into: &mut Carriers<'_>) {
        for carrier in self.open.drain(..) {
            into.take(carrier, at, HttpHappening::Closed { by, how });
        }
        self.asking = None;
    }

    fn read_requests(
        &mut self,
        at: Micros,
        into: &mut Carriers<'_>,
        read: impl FnOnce(&mut Http1, &mut dyn FnMut(Told<'_>)),
    ) {
        let HttpTalk { client, connection, requests, responses, open, asking, upgraded, torn, midway, .. } = self;
        read(requests, &mut |told| match told {
            Told::Head(head) => {
                let Start::Request { method, target } = &head.start else { return };
                // A client that asks again has its answer, in what is missing.
                if std::mem::take(torn) {
                    for carrier in open.drain(..) {
                        into.take(carrier, at, HttpHappening::Closed { by: Party::Unknown, how: How::Eof });
                    }
                }
                let carrier = *into.next_carrier;
                *into.next_carrier += 1;
                let fields: Vec<(&str, &str)> = head.fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                let what = HttpHappening::Request { client, connection: *connection, method, target, fields: &fields };
                into.take(carrier, at, what);
                if std::mem::take(midway) {
                    for from in [Side::Client, Side::Server] {
                        into.take(carrier, at, HttpHappening::Lost { from, bytes: 0, why: MIDWAY });
                    }
                }
                into.clients.hear(client, &head.fields);
                responses.asked(method);
                open.push_back(carrier);
                *asking = Some(carrier);
            }
            Told::Body(part) | Told::Raw(part) => {
                let carrier = if *upgraded { open.front().copied() } else { *asking };
                if let Some(carrier) = carrier {
                    into.take(carrier, at, HttpHappening::RequestBody(part));
                }
            }
            Told::Trailers(fields) => {
                let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                if let Some(carrier) = *asking {
                    into.take(carrier, at, HttpHappening::Trailers { from: Side::Client, fields: &fields });
                }
            }
            Told::End { whole } => {
                if let Some(carrier) = asking.take()
                    && whole
                {
                    into.take(carrier, at, HttpHappening::RequestEnd);
                }
            }
            Told::Upgraded => {}
            Told::Fault(fault) => {
                // A gap was told as a loss.
                if let Some(carrier) = asking.or(open.back().copied()).filter(|_| fault != Fault::Gap) {
                    into.take(carrier, at, HttpHappening::Note(fault.sentence()));
                }
            }
        });
    }

    fn read_responses(
        &mut self,
        at: Micros,
        into: &mut Carriers<'_>,
        read: impl FnOnce(&mut Http1, &mut dyn FnMut(Told<'_>)),
    ) {
        let HttpTalk { responses, open, upgraded, unasked, torn, .. } = self;
        let mut change = false;
        read(responses, &mut |told| {
            // That something is missing may show only after the client has asked again: what comes answers its last.
            if matches!(told, Told::Head(_)) && std::mem::take(torn) {
                while open.len() > 1
                    && let Some(carrier) = open.pop_front()
                {
                    into.take(carrier, at, HttpHappening::Closed { by: Party::Unknown, how: How::Eof });
                }
            }
            let Some(carrier) = open.front().copied() else {
                *unasked += u64::from(matches!(told, Told::Head(_)));
                return;
            };
            match told {
                Told::Head(head) => {
                    let Start::Response { status, .. } = head.start else { return };
                    let fields: Vec<(&str, &str)> = head.fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                    into.take(carrier, at, HttpHappening::Response { status, fields: &fields });
                }
                Told::Body(part) | Told::Raw(part) => into.take(carrier, at, HttpHappening::ResponseBody(part)),
                Told::Trailers(fields) => {
                    let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                    into.take(carrier, at, HttpHappening::Trailers { from: Side::Server, fields: &fields });
                }
                Told::End { whole } => {
                    if whole {
                        into.take(carrier, at, HttpHappening::ResponseEnd);
                        into.take(carrier, at, HttpHappening::Closed { by: Party::Server, how: How::Eof });
                        open.pop_front();
                    } else if std::mem::take(torn) {
                        into.take(carrier, at, HttpHappening::Closed { by: Party::Unknown, how: How::Eof });
                        open.pop_front();
                    }
                }
                Told::Upgraded => change = true,
                Told::Fault(Fault::Gap) => {}
                Told::Fault(fault) => into.take(carrier, at, HttpHappening::Note(fault.sentence())),
            }
        });
        if change {
            *upgraded = true;
            self.read_requests(at, into, |http, tell| http.upgrade(tell));
        }
    }
}
