//! The events that prove the findings of a report, as transcripts: for the page and for Markdown.
//!
//! A store gives single events; a recording has to be read once more, which is only done while it is short.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use super::judging::Subject;
use super::open::{self, Reader};
use crate::error::Result;
use crate::event::{Bodies, Event, Micros, Session, SessionKey, transcript};
use crate::report::{Report, Told};
use crate::store::Store;

/// A recording with more events than this is not read a second time.
const MOST_TO_READ_AGAIN: u64 = 300_000;
/// Findings of one session that get their transcript.
const MOST_FINDINGS: usize = 40;
/// A line of a transcript is cut here.
const LONGEST_LINE: usize = 240;

impl Subject {
    pub fn add_transcripts(&self, report: &mut Report) -> Result<()> {
        if report.is_store {
            let path = match self.paths.first() {
                Some(path) => path.clone(),
                None => self.place.path()?,
            };
            let store = Store::open_readonly(&path)?;
            for told in &mut report.sessions {
                let lines = from_store(&store, told)?;
                told.transcripts = transcripts(told, &lines);
            }
            return Ok(());
        }
        let events: u64 = report.sessions.iter().map(|told| told.judged.counts.events).sum();
        // What came in through a pipe is gone.
        let again = self.paths.iter().all(|path| path.is_file() || path.is_dir());
        if events > MOST_TO_READ_AGAIN || !again {
            return Ok(());
        }
        let mut lines = Lines {
            wanted: report.sessions.iter().map(|told| (told.place, (origin(told), wanted(told)))).collect(),
            places: HashMap::new(),
            begun: 0,
            lines: HashMap::new(),
        };
        open::read(&self.paths, None, &self.import_options(), &mut lines)?;
        for told in &mut report.sessions {
            let found = lines.lines.remove(&told.place).unwrap_or_default();
            told.transcripts = transcripts(told, &found);
        }
        Ok(())
    }
}

fn origin(told: &Told) -> Micros {
    told.judged.first_at.unwrap_or(told.judged.session.started_at)
}

fn wanted(told: &Told) -> BTreeSet<u64> {
    told.judged.findings.iter().take(MOST_FINDINGS).flat_map(|finding| finding.events.iter().copied()).collect()
}

fn line(event: &Event, origin: Micros, bodies: &mut dyn Bodies) -> String {
    crate::report::safe::clip(&transcript::print(event, origin, bodies), LONGEST_LINE)
}

fn from_store(store: &Store, told: &Told) -> Result<BTreeMap<u64, String>> {
    let mut bodies = store.bodies();
    let mut lines = BTreeMap::new();
    for seq in wanted(told) {
        store.for_each_event_after(told.judged.session.key, seq.saturating_sub(1), &mut |event| {
            lines.insert(event.seq, line(&event, origin(told), &mut bodies));
            ControlFlow::Break(())
        })?;
    }
    Ok(lines)
}

fn transcripts(told: &Told, lines: &BTreeMap<u64, String>) -> Vec<String> {
    let of = |events: &[u64]| {
        events.iter().filter_map(|seq| lines.get(seq)).fold(String::new(), |text, line| text + line + "\n")
    };
    told.judged.findings.iter().take(MOST_FINDINGS).map(|finding| of(&finding.events)).collect()
}

/// Picks lines out of a second reading.
struct Lines {
    wanted: HashMap<usize, (Micros, BTreeSet<u64>)>,
    places: HashMap<SessionKey, usize>,
    begun: usize,
    lines: HashMap<usize, BTreeMap<u64, String>>,
}

impl Reader for Lines {
    fn session(&mut self, session: &Session) {
        self.places.insert(session.key, self.begun);
        self.begun += 1;
    }

    fn event(&mut self, event: &Event, bodies: &mut dyn Bodies) {
        let Some(place) = self.places.get(&event.session) else { return };
        let Some((origin, wanted)) = self.wanted.get(place) else { return };
        if wanted.contains(&event.seq) {
            self.lines.entry(*place).or_default().insert(event.seq, line(event, *origin, bodies));
        }
    }
}
