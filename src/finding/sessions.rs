//! The HTTP sessions of one server side by side: do they pile up, and do clients leave one after another?
//!
//! Comes in: sessions that were judged, each by itself. Goes out: a count for each target, with the trend of what was
//! opened and never ended; and a graver word for sessions that are left again and again.

use std::collections::HashMap;

use crate::event::Micros;
use crate::exchange::{HttpSession, Leak, LeakKind, Series, SessionEnd, Track, Trend, trend};

use super::rules::session_never_ended;
use super::{Judged, Severity};

/// The sessions with an id that one server gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    pub target: String,
    pub opened: u64,
    pub ended: u64,
    pub never_ended: u64,
    pub in_use: u64,
    /// Of those that were never ended.
    pub trend: Trend,
}

/// One for each target, in the order they come.
pub fn kept<'a>(sessions: impl Iterator<Item = &'a Judged>) -> Vec<Kept> {
    let mut targets: Vec<(&str, Vec<HttpSession>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for judged in sessions {
        let Some(session) = judged.http_session else { continue };
        let target = judged.session.target.as_str();
        let place = *places.entry(target).or_insert_with(|| {
            targets.push((target, Vec::new()));
            targets.len() - 1
        });
        targets[place].1.push(session);
    }
    targets.into_iter().map(|(target, sessions)| count(target, &sessions)).collect()
}

fn count(target: &str, sessions: &[HttpSession]) -> Kept {
    let number = |end: SessionEnd| sessions.iter().filter(|session| session.end == end).count() as u64;
    Kept {
        target: target.to_string(),
        opened: sessions.len() as u64,
        ended: number(SessionEnd::Ended),
        never_ended: number(SessionEnd::NeverEnded),
        in_use: number(SessionEnd::InUse),
        trend: trend::judge(&over_time(sessions), true),
    }
}

/// A session is open like a request is: from when its id was given until it ends. The last use is the end of it all: a
/// recording that goes on without traffic says nothing of what the next client would leave.
fn over_time(sessions: &[HttpSession]) -> Series {
    let mut turns: Vec<(Micros, bool, &HttpSession)> = Vec::new();
    for session in sessions {
        turns.push((session.opened_at, false, session));
        if session.end == SessionEnd::Ended {
            turns.push((session.used_at.max(session.opened_at), true, session));
        }
    }
    turns.sort_by_key(|(at, closes, _)| (*at, *closes));
    let mut series = Series::default();
    for (at, closes, session) in turns {
        match closes {
            false => series.opened(Track::ClientRequests, at),
            true => series.closed(Track::ClientRequests, session.opened_at, at),
        }
    }
    series.reached(sessions.iter().map(|session| session.used_at).max().unwrap_or(0));
    for session in sessions.iter().filter(|session| session.end == SessionEnd::NeverEnded) {
        series.leaked(Leak {
            kind: LeakKind::Stream,
            opened_at: session.opened_at,
            certain_at: session.used_at,
            still_open: Some(Track::ClientRequests),
            method: "initialize",
            tool: None,
        });
    }
    series
}

/// A client that left one session went; where new ones are opened after others were left, it is a habit.
pub fn mark_habits(sessions: &mut [&mut Judged]) {
    // Of each target: when its last session was opened, and how many had been left by then.
    let mut targets: HashMap<String, (Micros, u64)> = HashMap::new();
    for judged in sessions.iter() {
        if let Some(session) = judged.http_session {
            let (last, _) = targets.entry(judged.session.target.clone()).or_insert((Micros::MIN, 0));
            *last = session.opened_at.max(*last);
        }
    }
    for judged in sessions.iter() {
        if let Some(session) = judged.http_session.filter(|session| session.end == SessionEnd::NeverEnded)
            && let Some((last, left)) = targets.get_mut(&judged.session.target)
        {
            *left += u64::from(session.used_at < *last);
        }
    }
    for judged in sessions {
        let left = targets.get(&judged.session.target).map_or(0, |(_, left)| *left);
        if left < u64::from(judged.limits.give_ups_in_a_row) {
            continue;
        }
        // They keep their place: `show --finding` counts the findings of the session alone.
        for finding in judged.findings.iter_mut().filter(|finding| *finding.rule == session_never_ended::RULE) {
            finding.severity = Severity::Suspect;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::transcript;
    use crate::exchange::Growth;
    use crate::finding::{Options, judge_talk};

    const SECOND: Micros = 1_000_000;

    /// A session that begins at a second, and whether it is given back. All are recorded until the tenth minute.
    fn session(begins: u64, given_back: bool) -> Judged {
        let end = begins + 1;
        let delete =
            format!("{end}s #2 |opened DELETE /mcp Mcp-Session-Id: a|\n #2 |head 200|\n #2 |closed by server|");
        let talk = format!(
            "protocol mcp-2025-06-18\n {begins}s #1 |opened POST /mcp Mcp-Session-Id: a|\n #1 -> 1 tools/list\n \
             #1 |head 200|\n #1 <- 1 result\n #1 |closed by server|\n {}\n 10m |tap closed|",
            if given_back { delete.as_str() } else { "" }
        );
        judge_talk(&transcript::parse(&talk).expect("a conversation"), &Options::default()).0
    }

    #[test]
    fn sessions_that_nobody_ends_pile_up() {
        let mut left: Vec<Judged> = (0..50).map(|n| session(n * 10, n % 10 == 0)).collect();
        let told = kept(left.iter());
        let Kept { opened, ended, never_ended, in_use, trend, .. } = &told[0];
        assert_eq!((told.len(), *opened, *ended, *never_ended, *in_use), (1, 50, 5, 45, 0));
        assert_eq!(trend.growth, Growth::Growing, "{trend:?}");
        assert!(trend.per_hour.is_some_and(|slope| (300.0..350.0).contains(&slope)), "{trend:?}");
        mark_habits(&mut left.iter_mut().collect::<Vec<_>>());
        assert!(left[1].findings.iter().all(|finding| finding.severity == Severity::Suspect));
    }

    #[test]
    fn sessions_that_end_do_not_and_a_few_that_stay_are_no_habit() {
        let ended: Vec<Judged> = (0..50).map(|n| session(n * 10, true)).collect();
        assert_eq!(kept(ended.iter())[0].trend.growth, Growth::None);
        // Three clients at once, that say nothing for a while.
        let mut quiet: Vec<Judged> = (0..3).map(|_| session(0, false)).collect();
        mark_habits(&mut quiet.iter_mut().collect::<Vec<_>>());
        assert!(quiet.iter().flat_map(|judged| &judged.findings).all(|finding| finding.severity == Severity::Info));
        assert_eq!(quiet[0].http_session.map(|session| session.idle), Some(600 * SECOND));
    }
}
