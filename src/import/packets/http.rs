//! One TCP connection that speaks HTTP/1.1 → the carriers on it.
//!
//! Requests and responses are paired in order, as the protocol says. A client that goes away before its answer is whole
//! closes the carrier, by FIN or by RST; a connection upgraded to WebSocket is one long carrier.

use std::collections::VecDeque;

use crate::event::http::{CarrierKey, HttpHappening, HttpScribe};
use crate::event::{How, Micros, Party, Side, Sink};
use crate::wire::http_head::Start;
use crate::wire::http1::{Http1, Told};

/// Where the carriers of all connections go.
pub struct Carriers<'a> {
    pub scribe: &'a mut HttpScribe,
    pub next_carrier: &'a mut CarrierKey,
    pub sink: &'a mut dyn Sink,
}

impl Carriers<'_> {
    fn take(&mut self, carrier: CarrierKey, at: Micros, what: HttpHappening<'_>) {
        self.scribe.take(carrier, at, what, self.sink);
    }
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
    /// Responses to requests from before the capture.
    pub unasked: u64,
}

impl HttpTalk {
    pub fn new(client: String, connection: u64) -> HttpTalk {
        HttpTalk {
            client,
            connection,
            requests: Http1::requests(),
            responses: Http1::responses(),
            open: VecDeque::new(),
            asking: None,
            upgraded: false,
            unasked: 0,
        }
    }

    pub fn bytes(&mut self, from: Side, at: Micros, bytes: &[u8], into: &mut Carriers<'_>) {
        match from {
            Side::Client => self.read_requests(at, into, |http, tell| http.feed(bytes, tell)),
            Side::Server => self.read_responses(at, into, |http, tell| http.feed(bytes, tell)),
        }
    }

    pub fn gap(&mut self, from: Side, at: Micros, bytes: u64, into: &mut Carriers<'_>) {
        let carrier = match from {
            Side::Client => self.asking,
            Side::Server => self.open.front().copied(),
        };
        if let Some(carrier) = carrier {
            let why = "packets are missing from the capture";
            into.take(carrier, at, HttpHappening::Lost { from, bytes, why });
        } else {
            into.scribe.lost(at, 0, bytes, "packets are missing from the capture", into.sink);
        }
        match from {
            Side::Client => self.read_requests(at, into, |http, tell| http.gap(bytes, tell)),
            Side::Server => self.read_responses(at, into, |http, tell| http.gap(bytes, tell)),
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
        let HttpTalk { client, connection, requests, responses, open, asking, upgraded, .. } = self;
        read(requests, &mut |told| match told {
            Told::Head(head) => {
                let Start::Request { method, target } = &head.start else { return };
                let carrier = *into.next_carrier;
                *into.next_carrier += 1;
                let fields: Vec<(&str, &str)> = head.fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                let what = HttpHappening::Request { client, connection: *connection, method, target, fields: &fields };
                into.take(carrier, at, what);
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
                if let Some(carrier) = asking.or(open.back().copied()) {
                    into.take(carrier, at, HttpHappening::Note(fault.name()));
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
        let HttpTalk { responses, open, upgraded, unasked, .. } = self;
        let mut change = false;
        read(responses, &mut |told| {
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
                    }
                }
                Told::Upgraded => change = true,
                Told::Fault(fault) => into.take(carrier, at, HttpHappening::Note(fault.name())),
            }
        });
        if change {
            *upgraded = true;
            self.read_requests(at, into, |http, tell| http.upgrade(tell));
        }
    }
}
