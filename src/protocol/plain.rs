//! Plain JSON-RPC 2.0: a request is owed a reply, and there is nothing else to know.
//!
//! Also what an unknown protocol is judged as. There is no cancel in JSON-RPC; the names that other protocols use
//! are understood all the same, because a conversation that has them means them.

use crate::rpc::{Mark, Message};

use super::{Heard, Protocol, Role};

pub struct Plain;

impl Protocol for Plain {
    fn name(&self) -> &'static str {
        "json-rpc"
    }

    fn role(&self, method: &str) -> Role {
        match method {
            "$/cancelRequest" => Role::CancelRequest(Mark::ParamId),
            "$/cancel_request" | "notifications/cancelled" => Role::CancelRequest(Mark::ParamRequestId),
            _ => Role::Ordinary,
        }
    }

    fn hears(&self, _: &Message) -> Option<Heard> {
        None
    }
}
