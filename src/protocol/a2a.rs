//! Agent2Agent, 0.3 and 1.0: JSON-RPC over HTTP, from the client to the agent only.
//!
//! A streaming method is answered many times under one id. Work lives on as a task, whatever becomes of a stream;
//! it is cancelled by a request that names the task.

use crate::rpc::{Mark, Message};

use super::{Dialect, Heard, Protocol, Role, by_name};

pub struct A2a;

impl Protocol for A2a {
    fn name(&self) -> &'static str {
        "a2a"
    }

    fn role(&self, method: &str) -> Role {
        match method {
            "message/send" | "SendMessage" => Role::Send,
            "message/stream" | "SendStreamingMessage" | "tasks/resubscribe" | "SubscribeToTask" => Role::StreamCall,
            "tasks/get" | "GetTask" => Role::TaskGet(Mark::ParamId),
            "tasks/cancel" | "CancelTask" => Role::CancelTask(Mark::ParamId),
            _ => Role::Ordinary,
        }
    }

    fn hears(&self, message: &Message) -> Option<Heard> {
        let method = message.method();
        match method {
            "message/send" | "message/stream" | "tasks/resubscribe" | "agent/getAuthenticatedExtendedCard" => {
                by_name(Dialect::A2a03, method)
            }
            "tasks/get" | "tasks/cancel"
                if message.marks.has(Mark::ParamId) && !message.marks.has(Mark::ParamTaskId) =>
            {
                by_name(Dialect::A2a03, method)
            }
            "SendMessage" | "SendStreamingMessage" | "GetTask" | "CancelTask" | "SubscribeToTask" | "ListTasks" => {
                by_name(Dialect::A2a10, method)
            }
            _ if method.starts_with("tasks/pushNotificationConfig/") => by_name(Dialect::A2a03, method),
            _ => None,
        }
    }
}
