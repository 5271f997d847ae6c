//! One HTTP exchange within its conversation: its events, and the two bodies it carries.

use crate::event::{Happening, How, Micros, Party, SessionKey, Side, Sink};

use super::HttpHappening;
use super::conversation::Conversation;
use super::head::{BodyKind, RequestHead, coding, kept, value};
use super::held::{Held, Owned};
use super::reader::{Body, Pen};
use super::secrets::Secrets;

pub(super) struct Carrier {
    pub(super) head: RequestHead,
    pub(super) opened_at: Micros,
    pub(super) place: Place,
    /// Its request is the `initialize` of a conversation.
    pub(super) begins: bool,
    /// The event stream of the older transport: the session lasts as long as it does.
    is_session: bool,
    status: u16,
    request: Body,
    response: Body,
}

/// Where a carrier's events go.
pub(super) enum Place {
    /// Nowhere yet.
    Held(Held),
    In {
        session: SessionKey,
        number: u64,
    },
    PassedOver,
}

/// What the conversations should learn from a happening.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    Nothing,
    /// The head of the response came, with or without an id for the session (hashed).
    Answered {
        session_id: Option<String>,
    },
    /// The stream says where requests go.
    Endpoint(String),
    /// The `initialize` of a conversation is to be sent somewhere else: a path or a URL.
    Redirected(String),
    /// The session is over.
    Ended,
}

impl Carrier {
    pub(super) fn new(head: RequestHead, opened_at: Micros) -> Carrier {
        let request = Body::new(Side::Client, head.kind, head.coding.as_deref());
        let response = Body::new(Side::Server, BodyKind::Unsaid, None);
        let place = Place::Held(Held::default());
        Carrier { head, opened_at, place, begins: false, is_session: false, status: 0, request, response }
    }

    /// Goes into its conversation; gives back what was kept until now.
    pub(super) fn enter(
        &mut self,
        session: SessionKey,
        conversation: &mut Conversation,
        sink: &mut dyn Sink,
    ) -> Vec<(Micros, Owned)> {
        let number = conversation.next_carrier;
        conversation.next_carrier += 1;
        conversation.open_carriers += 1;
        let opened = Happening::CarrierOpened {
            method: self.head.method.clone(),
            target: self.head.target.clone(),
            headers: std::mem::take(&mut self.head.fields),
        };
        conversation.scribe.happening(self.opened_at, Some(number), opened, sink);
        match std::mem::replace(&mut self.place, Place::In { session, number }) {
            Place::Held(held) => held.queue,
            _ => Vec::new(),
        }
    }

    pub(super) fn take(
        &mut self,
        conversation: &mut Conversation,
        secrets: &Secrets,
        at: Micros,
        what: HttpHappening<'_>,
        sink: &mut dyn Sink,
    ) -> After {
        let Place::In { number, .. } = self.place else { return After::Nothing };
        let mut pen = Pen { scribe: &mut conversation.scribe, carrier: number, at, sink, endpoint: None };
        match what {
            HttpHappening::Request { .. } => {}
            HttpHappening::RequestBody(bytes) => self.request.feed(bytes, &mut pen),
            HttpHappening::RequestEnd => {
                self.request.end(&mut pen);
                self.response.expect_rpc(self.request.had_rpc() || self.head.asks_events);
            }
            HttpHappening::Response { status, .. } if status < 200 && status != 101 => {}
            HttpHappening::Response { status, fields } => {
                self.status = status;
                let answered = self.answer(fields, secrets, &mut pen);
                if self.ends_session(conversation, at, sink) {
                    return After::Ended;
                }
                return answered;
            }
            HttpHappening::ResponseBody(bytes) => self.response.feed(bytes, &mut pen),
            HttpHappening::ResponseEnd => self.response.end(&mut pen),
            HttpHappening::Trailers { from, fields } => {
                pen.happening(Happening::CarrierTrailers { from, headers: kept(secrets, fields) });
            }
            HttpHappening::Lost { from, bytes, why } => {
                let body = if from == Side::Client { &mut self.request } else { &mut self.response };
                if bytes > 0 {
                    body.gap(bytes, &mut pen);
                }
                pen.happening(Happening::Lost { from: Some(from), events: 0, bytes, why: why.to_string() });
            }
            HttpHappening::Note(text) => pen.happening(Happening::Note { text: text.to_string() }),
            HttpHappening::Closed { by, how } => {
                self.close(by, how, &mut pen);
                conversation.open_carriers = conversation.open_carriers.saturating_sub(1);
                return if self.ends_with_stream(conversation, at, by, how, sink) {
                    After::Ended
                } else {
                    After::Nothing
                };
            }
        }
        match pen.endpoint.take() {
            Some(endpoint) => {
                self.is_session = true;
                let text = format!("requests go to {}", secrets.target(&endpoint));
                pen.happening(Happening::Note { text });
                After::Endpoint(endpoint)
            }
            None => After::Nothing,
        }
    }

    /// The head of the response.
    fn answer(&mut self, fields: super::Fields<'_>, secrets: &Secrets, pen: &mut Pen<'_>) -> After {
        let status = self.status;
        pen.happening(Happening::CarrierHead { status, headers: kept(secrets, fields) });
        // The response may come before the request's end was told.
        let expects = self.request.had_rpc() || self.head.asks_events;
        if status == 101 {
            let extensions = value(fields, "sec-websocket-extensions");
            self.request.becomes_socket(extensions);
            self.response.becomes_socket(extensions);
            pen.happening(Happening::CarrierStreaming { resumes: None });
        } else {
            let kind = BodyKind::of(fields);
            self.response = Body::new(Side::Server, kind, coding(fields).as_deref());
            self.response.refused = status >= 400;
            self.response.expect_rpc(expects);
            if kind == BodyKind::EventStream && status < 300 {
                pen.happening(Happening::CarrierStreaming { resumes: self.head.last_event_id.clone() });
            }
        }
        if self.begins
            && (300..400).contains(&status)
            && let Some(location) = value(fields, "location")
        {
            return After::Redirected(location.to_string());
        }
        let session_id = value(fields, "mcp-session-id").filter(|id| !id.is_empty()).map(|id| secrets.hash(id));
        After::Answered { session_id }
    }

    /// DELETE that was granted, or 404 for a session that is gone: said where its requests go. A path that never was
    /// there, or a stream the server does not offer, says nothing of the session.
    fn ends_session(&self, conversation: &mut Conversation, at: Micros, sink: &mut dyn Sink) -> bool {
        let Place::In { number, .. } = self.place else { return false };
        let granted = (200..300).contains(&self.status);
        if granted && self.head.method == "POST" && (self.begins || self.head.session_id.is_some()) {
            conversation.endpoint.get_or_insert_with(|| self.head.target.clone());
        }
        if granted && conversation.missing && self.head.session_id.is_some() {
            (conversation.ended, conversation.missing) = (false, false);
        }
        if conversation.ended || self.head.session_id.is_none() {
            return false;
        }
        let at_endpoint = conversation.endpoint.as_deref().is_none_or(|endpoint| endpoint == self.head.target);
        let asks = self.head.method == "DELETE" || (self.head.method == "POST" && self.carries_rpc());
        let (by, how) = match self.status {
            200..=299 if self.head.method == "DELETE" => (Side::Client, "DELETE"),
            404 if at_endpoint && asks => (Side::Server, "404"),
            _ => return false,
        };
        conversation.ended = true;
        conversation.missing = by == Side::Server;
        let ended = Happening::SessionEnded { by, how: how.to_string() };
        conversation.scribe.happening(at, Some(number), ended, sink);
        true
    }

    /// The older transport has no DELETE: who closes the event stream has ended the session.
    fn ends_with_stream(
        &self,
        conversation: &mut Conversation,
        at: Micros,
        by: Party,
        how: How,
        sink: &mut dyn Sink,
    ) -> bool {
        let side = match by {
            Party::Client => Side::Client,
            Party::Server => Side::Server,
            Party::Tap | Party::Unknown => return false,
        };
        if !self.is_session || conversation.ended {
            return false;
        }
        conversation.ended = true;
        conversation.scribe.end(side, at, by, how, sink);
        true
    }

    fn carries_rpc(&self) -> bool {
        self.request.had_rpc() || self.head.kind == BodyKind::Json
    }

    fn close(&mut self, by: Party, how: How, pen: &mut Pen<'_>) {
        self.request.end(pen);
        self.response.expect_rpc(self.request.had_rpc() || self.head.asks_events);
        self.response.end(pen);
        pen.happening(Happening::CarrierClosed {
            by,
            how,
            request_bytes: self.request.bytes,
            response_bytes: self.response.bytes,
        });
    }
}
