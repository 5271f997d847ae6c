//! The trace VS Code keeps of a language server, as text: `[Trace - 12:45:41] Sending request 'initialize - (0)'.`

use std::collections::HashMap;

use serde_json::Value;

use crate::event::{Line, Micros, Recording, Side};
use crate::report::words::clock;
use crate::rpc::{Id, Kind};

pub fn write(recording: &Recording) -> String {
    let mut out = String::new();
    let mut asked: HashMap<(Side, Id), (String, Micros)> = HashMap::new();
    for line in &recording.lines {
        let body: Value = line.body.as_ref().and_then(|body| serde_json::from_str(body).ok()).unwrap_or(Value::Null);
        let verb = if line.from == Side::Client { "Sending" } else { "Received" };
        let id = line.message.id.clone().unwrap_or(Id::Null);
        let number = match &id {
            Id::Text(text) => text.to_string(),
            other => other.to_raw(),
        };
        let head = format!("[Trace - {}] {verb}", clock(line.at));
        match line.message.kind {
            Kind::Request => {
                asked.insert((line.from, id), (line.message.method().to_string(), line.at));
                out.push_str(&format!("{head} request '{} - ({number})'.\n", line.message.method()));
                payload(&mut out, "Params", body.get("params"), "No parameters provided.");
            }
            Kind::Notification => {
                out.push_str(&format!("{head} notification '{}'.\n", line.message.method()));
                payload(&mut out, "Params", body.get("params"), "No parameters provided.");
            }
            Kind::Result | Kind::Error => {
                let known = asked.remove(&(line.from.other(), id));
                out.push_str(&response(line, &head, &number, known, &body));
            }
            Kind::Unreadable(_) => continue,
        }
        out.push_str("\n\n");
    }
    out
}

fn response(line: &Line, head: &str, number: &str, asked: Option<(String, Micros)>, body: &Value) -> String {
    let (method, at) = asked.unwrap_or_else(|| ("unknown".to_string(), line.at));
    let took = (line.at - at).max(0) / 1000;
    let took = match line.from {
        Side::Server => format!("in {took}ms."),
        Side::Client => format!("Processing request took {took}ms."),
    };
    let dot = if line.from == Side::Server { "" } else { "." };
    let mut out = format!("{head} response '{method} - ({number})'{dot} {took}");
    match body.get("error") {
        Some(error) => {
            let message = error.get("message").and_then(Value::as_str).unwrap_or("").replace(['\n', '\r'], " ");
            let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
            out.push_str(&format!(" Request failed: {message} ({code}).\n"));
            if let Some(data) = error.get("data") {
                payload(&mut out, "Error data", Some(data), "");
            }
        }
        None => {
            out.push('\n');
            payload(&mut out, "Result", body.get("result").filter(|result| !result.is_null()), "No result returned.");
        }
    }
    out
}

fn payload(out: &mut String, label: &str, value: Option<&Value>, absent: &str) {
    match value {
        Some(value) => out.push_str(&format!("{label}: {value:#}\n")),
        None => out.push_str(&format!("{absent}\n")),
    }
}
