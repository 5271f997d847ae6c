//! Faults put on top of a recording when we are the server: `METHOD: delay=2s, error=-32000`.

use std::str::FromStr;
use std::time::Duration;

use crate::event::Line;
use crate::rpc::Mark;

/// What happens to the answer of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The method, or `*`.
    pub method: String,
    /// The tool, from `tools/call(search)`.
    pub tool: Option<String>,
    pub delay: Duration,
    pub end: FaultEnd,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultEnd {
    /// As recorded, only later.
    AsRecorded,
    /// Never answered.
    Drop,
    Error(i64),
    /// The connection is closed instead.
    Disconnect,
}

impl Fault {
    pub fn hits(&self, line: &Line) -> bool {
        let method = self.method == "*" || self.method == line.message.method();
        let tool = self.tool.as_deref().is_none_or(|tool| line.message.marks.text(Mark::Tool) == Some(tool));
        method && tool
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let wrong = || format!("{text} is no fault: write METHOD: delay=2s, drop, error=-32000 or disconnect");
        let (name, actions) = text.rsplit_once(':').ok_or_else(wrong)?;
        let (method, tool) = match name.trim().split_once('(') {
            Some((method, tool)) => (method.trim(), Some(tool.trim().trim_end_matches(')').to_string())),
            None => (name.trim(), None),
        };
        if method.is_empty() || actions.trim().is_empty() {
            return Err(wrong());
        }
        let mut fault = Fault { method: method.to_string(), tool, delay: Duration::ZERO, end: FaultEnd::AsRecorded };
        for action in actions.split(['|', ',']).map(str::trim) {
            match action.split_once('=').map_or((action, ""), |(name, value)| (name.trim(), value.trim())) {
                ("delay", time) => fault.delay = delay(time).ok_or_else(wrong)?,
                ("drop", "") => fault.end = FaultEnd::Drop,
                ("disconnect", "") => fault.end = FaultEnd::Disconnect,
                ("error", code) => fault.end = FaultEnd::Error(code.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        Ok(fault)
    }
}

fn delay(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..split].parse().ok()?;
    let seconds = match &text[split..] {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_nonsense_is_refused() {
        let fault: Fault = "tools/call(search): delay=2s, error=-32000".parse().unwrap();
        assert_eq!(fault.method, "tools/call");
        assert_eq!(fault.tool.as_deref(), Some("search"));
        assert_eq!(fault.delay, Duration::from_secs(2));
        assert_eq!(fault.end, FaultEnd::Error(-32000));
        assert_eq!("*: drop".parse::<Fault>().unwrap().end, FaultEnd::Drop);
        for text in ["", "x", "x:", "x: explode", "x: delay=2", "x: error=a", ": drop"] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
