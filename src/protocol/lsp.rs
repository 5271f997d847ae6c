//! The Language Server Protocol (3.14 to 3.18), and the Build Server Protocol, which stands on the same base.
//!
//! No version is on the wire. A request is owed a response also after `$/cancelRequest`. Progress tokens are made
//! by the server or come with a request; what has begun must end.

use crate::rpc::{Mark, Message};

use super::{Dialect, Heard, Protocol, Role, Strength, by_name};

pub struct Lsp;
pub struct Bsp;

impl Protocol for Lsp {
    fn name(&self) -> &'static str {
        "lsp"
    }

    fn role(&self, method: &str) -> Role {
        match method {
            "initialize" => Role::Initialize,
            "initialized" => Role::Initialized,
            "shutdown" => Role::Shutdown,
            "exit" => Role::Exit,
            "window/showMessage" | "window/logMessage" | "telemetry/event" => Role::EarlyNotice,
            "window/showMessageRequest" | "workspace/applyEdit" => Role::LongPoll,
            "$/cancelRequest" => Role::CancelRequest(Mark::ParamId),
            "$/progress" => Role::TokenProgress,
            "window/workDoneProgress/create" => Role::TokenCreate,
            "window/workDoneProgress/cancel" => Role::CancelToken,
            _ => Role::Ordinary,
        }
    }

    fn hears(&self, message: &Message) -> Option<Heard> {
        let method = message.method();
        let marks = &message.marks;
        if method == "initialize" {
            let looks = marks.has(Mark::ProcessId) || marks.has(Mark::RootUri) || marks.has(Mark::ParamCapabilities);
            return (looks && !marks.has(Mark::ParamVersion)).then(|| Heard {
                dialect: Dialect::Lsp,
                version: None,
                strength: Strength::Agreed,
                by: "initialize with processId, rootUri or capabilities".to_string(),
            });
        }
        if method == "workspace/buildTargets" {
            return None;
        }
        let rooms = ["textDocument/", "workspace/", "window/", "completionItem/", "codeLens/", "callHierarchy/"];
        let named = matches!(
            method,
            "$/cancelRequest"
                | "$/progress"
                | "$/setTrace"
                | "$/logTrace"
                | "client/registerCapability"
                | "client/unregisterCapability"
        );
        if named || rooms.iter().any(|room| method.starts_with(room)) {
            return by_name(Dialect::Lsp, method);
        }
        None
    }

    fn tool(&self, method: &str) -> Option<Mark> {
        (method == "workspace/executeCommand").then_some(Mark::Command)
    }
}

impl Protocol for Bsp {
    fn name(&self) -> &'static str {
        "bsp"
    }

    fn role(&self, method: &str) -> Role {
        match method {
            "build/initialize" => Role::Initialize,
            "build/initialized" => Role::Initialized,
            "build/shutdown" => Role::Shutdown,
            "build/exit" => Role::Exit,
            "build/showMessage" | "build/logMessage" => Role::EarlyNotice,
            "buildTarget/compile" | "buildTarget/test" | "buildTarget/run" => Role::LongPoll,
            "$/cancelRequest" => Role::CancelRequest(Mark::ParamId),
            _ => Role::Ordinary,
        }
    }

    fn hears(&self, message: &Message) -> Option<Heard> {
        let method = message.method();
        if method == "build/initialize" {
            return Some(Heard {
                dialect: Dialect::Bsp,
                version: message.marks.text(Mark::BspVersion).map(str::to_string),
                strength: Strength::Agreed,
                by: "build/initialize".to_string(),
            });
        }
        let ours = method == "workspace/buildTargets"
            || ["build/", "buildTarget/"].iter().any(|room| method.starts_with(room));
        if ours { by_name(Dialect::Bsp, method) } else { None }
    }
}
