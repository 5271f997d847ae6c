//! The response of an exchange: its head, its body and its end, as the server says them.

use std::mem::MaybeUninit;

use crate::event::Side;

use super::client::Client;
use super::exchange::{Ended, Exchange, note};
use super::framing::{Body, Form};
use super::request::{MOST_FIELDS, end_of_head};
use super::response::{Response, Then};

/// More than any server sends.
const LONGEST_RESPONSE_HEAD_BYTES: usize = 256 * 1024;

/// How far the response has come.
pub(super) enum Answer {
    Awaited,
    Comes(Body, Form),
    /// All of it has come, and perhaps not gone on.
    Whole,
}

impl Exchange {
    /// Takes what the server said.
    pub(super) fn hear(&mut self, bytes: &[u8], client: &mut Client, gathered: &mut Vec<u8>) -> Option<Ended> {
        if bytes.is_empty() {
            return self.ends(client);
        }
        match self.answer {
            Answer::Comes(..) => self.pass(bytes, client, gathered),
            // Said behind its answer, while the upload still runs.
            Answer::Whole => {
                self.server_stays = false;
                Some(Ended::Done)
            }
            Answer::Awaited if self.from_server.is_empty() => self.answers(bytes, client, gathered),
            Answer::Awaited => {
                let looked = self.from_server.len().saturating_sub(3);
                self.from_server.extend_from_slice(bytes);
                let held = std::mem::take(&mut self.from_server);
                if end_of_head(&held, looked).is_some() {
                    return self.answers(&held, client, gathered);
                }
                if held.len() > LONGEST_RESPONSE_HEAD_BYTES {
                    return Some(Ended::Unanswered("the head of its response is too long".to_string()));
                }
                self.from_server = held;
                None
            }
        }
    }

    /// Reads heads, and what lies behind the last of them.
    fn answers(&mut self, mut bytes: &[u8], client: &mut Client, gathered: &mut Vec<u8>) -> Option<Ended> {
        while !bytes.is_empty() {
            let mut room = [const { MaybeUninit::uninit() }; MOST_FIELDS];
            let response = match Response::read(bytes, &mut room) {
                Ok(Some(response)) => response,
                Ok(None) => break,
                Err(why) => return Some(Ended::Unanswered(why)),
            };
            bytes = &bytes[response.head.len()..];
            if response.is_interim() {
                // A client of HTTP/1.0 does not know them.
                if self.asked.minor > 0 {
                    response.write(Form::AsItCame, Then::Stays, &mut client.outbox.bytes);
                }
                continue;
            }
            if response.status == 101 {
                if !self.asked.websocket || !response.hop.websocket {
                    return Some(Ended::Unanswered("it changed the protocol, which nobody had asked for".to_string()));
                }
                self.carrier.response(101, response.fields);
                response.write(Form::AsItCame, Then::Upgrades, &mut client.outbox.bytes);
                return Some(Ended::Upgraded(bytes.to_vec()));
            }
            let body = match response.body(self.asked.head_only) {
                Ok(body) => body,
                Err(why) => return Some(Ended::Unanswered(why.to_string())),
            };
            self.carrier.response(response.status, response.fields);
            let form = match body {
                Body::Chunked(_) | Body::UntilClose if self.asked.minor == 0 => Form::Bare,
                Body::UntilClose => Form::Chunks,
                _ => Form::AsItCame,
            };
            self.server_stays = body != Body::UntilClose && response.hop.stays(response.minor);
            // Behind a request for a WebSocket may follow what is none of HTTP.
            self.closes =
                !self.asked.stays || self.asked.websocket || form == Form::Bare || client.pulse.is_ending_now();
            let then = match (self.closes, self.asked.minor) {
                (true, _) => Then::Closes,
                (false, 0) => Then::StaysOpenly,
                (false, _) => Then::Stays,
            };
            response.write(form, then, &mut client.outbox.bytes);
            self.answer = if body.is_whole() { Answer::Whole } else { Answer::Comes(body, form) };
            if !bytes.is_empty() {
                return self.pass(bytes, client, gathered);
            }
            return None;
        }
        self.from_server.extend_from_slice(bytes);
        None
    }

    /// Passes on a piece of the response's body.
    fn pass(&mut self, bytes: &[u8], client: &mut Client, gathered: &mut Vec<u8>) -> Option<Ended> {
        let Answer::Comes(body, form) = &mut self.answer else {
            // More than the response has.
            self.server_stays = false;
            return None;
        };
        let fed = body.feed(bytes, *form, &mut client.outbox.bytes, gathered);
        match note(&self.carrier, Side::Server, &fed).map(|()| fed.taken) {
            Ok(taken) => {
                if body.is_whole() {
                    self.answer = Answer::Whole;
                    self.server_stays &= taken == bytes.len();
                }
                None
            }
            Err(why) => Some(Ended::Torn(why)),
        }
    }

    /// The server has said all it will.
    fn ends(&mut self, client: &mut Client) -> Option<Ended> {
        self.server_stays = false;
        match &self.answer {
            Answer::Comes(Body::UntilClose, form) => {
                if *form == Form::Chunks {
                    client.outbox.bytes.extend_from_slice(b"0\r\n\r\n");
                }
                self.answer = Answer::Whole;
                None
            }
            Answer::Whole => Some(Ended::Done),
            _ => Some(self.broken(None)),
        }
    }

    pub(super) fn broken(&mut self, cause: Option<&std::io::Error>) -> Ended {
        match self.answer {
            Answer::Whole => {
                self.server_stays = false;
                Ended::Done
            }
            Answer::Comes(..) => Ended::Torn(""),
            Answer::Awaited => Ended::Unanswered(match cause {
                Some(cause) => cause.to_string(),
                None if self.from_server.is_empty() => "the connection was closed".to_string(),
                None => "the connection was closed within the head of the response".to_string(),
            }),
        }
    }
}
