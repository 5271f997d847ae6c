//! How to judge, as flags: flattened into every command that judges.

use clap::Args;

use crate::exchange::{CancelPolicy, Limits};
use crate::finding::Options;
use crate::protocol::Dialect;

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "How to judge")]
pub struct LimitArgs {
    /// Judge by this protocol (mcp, mcp-2025-11-25, lsp, bsp, acp-1, a2a-1.0, json-rpc, …) [default: recognised from the traffic]
    #[arg(long, value_name = "PROTOCOL", value_parser = dialect)]
    pub protocol: Option<Dialect>,
    /// What a cancelled request is owed: as the protocol says, always a reply, or always silence
    #[arg(long, value_name = "spec|reply|silence", value_parser = policy)]
    pub cancel_policy: Option<CancelPolicy>,
    /// A request open for longer is overdue, as 500ms, 30s, 2m (a bare number is milliseconds) [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub deadline: Option<u64>,
    /// An answer this soon after a cancel may have crossed it on the way [default: 1s, or twice the median round trip]
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub race_window: Option<u64>,
    /// How long after the client's end of input answers may still be on their way [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub drain: Option<u64>,
    /// Requests given up in a row at the same interval that make a habit [default: 3]
    #[arg(long, value_name = "N")]
    pub give_ups: Option<u32>,
    /// How far those intervals may differ from their median, in percent [default: 20]
    #[arg(long, value_name = "PERCENT")]
    pub give_up_spread: Option<u32>,
    /// A task is forgotten after this many poll intervals without a poll [default: 10]
    #[arg(long, value_name = "N")]
    pub task_polls: Option<u32>,
    /// The poll interval of a task that names none [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub task_poll: Option<u64>,
    /// A task cancelled and still running after this long is suspect [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = millis)]
    pub task_cancel: Option<u64>,
}

impl LimitArgs {
    pub fn options(&self) -> Options {
        let usual = Limits::default();
        let limits = Limits {
            deadline_ms: self.deadline.unwrap_or(usual.deadline_ms),
            race_window_ms: self.race_window.or(usual.race_window_ms),
            drain_ms: self.drain.unwrap_or(usual.drain_ms),
            give_ups_in_a_row: self.give_ups.unwrap_or(usual.give_ups_in_a_row),
            give_up_spread_percent: self.give_up_spread.unwrap_or(usual.give_up_spread_percent),
            task_polls_missed: self.task_polls.unwrap_or(usual.task_polls_missed),
            task_poll_ms: self.task_poll.unwrap_or(usual.task_poll_ms),
            task_cancel_ms: self.task_cancel.unwrap_or(usual.task_cancel_ms),
            cancel_policy: self.cancel_policy.unwrap_or(usual.cancel_policy),
        };
        Options { limits, protocol: self.protocol }
    }
}

fn dialect(word: &str) -> Result<Dialect, String> {
    Dialect::from_flag(word).ok_or_else(|| {
        let known: Vec<String> = Dialect::ALL.iter().map(|dialect| dialect.flag()).collect();
        format!("it is one of {}", known.join(", "))
    })
}

fn policy(word: &str) -> Result<CancelPolicy, String> {
    CancelPolicy::from_name(word).ok_or_else(|| "it is spec, reply or silence".to_string())
}

/// `250ms`, `30s`, `2m`, `1h`; a bare number is milliseconds.
pub fn millis(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "ms" => 1.0,
        "s" => 1e3,
        "m" | "min" => 60e3,
        "h" => 3600e3,
        unit => return Err(format!("the unit {unit:?} is none of ms, s, m, h")),
    };
    match digits.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok((number * factor).round() as u64),
        _ => Err("it is a time like 500ms, 30s, 2m or 1h".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        assert_eq!(
            ["250ms", "30s", "1.5m", "1h", "40"].map(millis),
            [Ok(250), Ok(30_000), Ok(90_000), Ok(3_600_000), Ok(40)]
        );
        for wrong in ["", "s", "-1s", "3 weeks", "1e999s", "NaN"] {
            assert!(millis(wrong).is_err(), "{wrong}");
        }
    }
}
