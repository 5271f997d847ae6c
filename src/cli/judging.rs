//! Reads sessions through the analyzer, the gauges and the choosers of what charts show, in one pass.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::counted::{Counted, MOST_TOLD};
use super::open::{self, Place, Reader};
use super::place::StorePlace;
use super::sessions::open_with_spools;
use crate::error::{Error, Result};
use crate::event::{Bodies, Event, Happening, Session, SessionKey, Side, What};
use crate::exchange::Fact;
use crate::exchange::gauge::{Gauge, GaugeReader};
use crate::exchange::let_go::MOST_OPEN_BYTES;
use crate::finding::{Analyzer, Finding, Options, sessions};
use crate::import;
use crate::report::chart::Rows;
use crate::report::peers::Peers;
use crate::report::{Report, Told};

/// Sessions that keep their curves and rows; of older ones in a long store only the figures are kept.
const MOST_WITH_CURVES: usize = 200;

/// A log may tell of many sessions by turns. When there are more than this, those are judged that have ended and of which
/// nothing has come for a while.
const MANY_RUNNING: usize = 256;

/// With more than this, also those of which nothing has come for longest: each takes some kilobytes.
const MOST_RUNNING: usize = 1024;

/// So many events of others make that while.
const QUIET_EVENTS: u64 = 1024;

/// What to read and how: flattened into `analyze` and `chart`.
#[derive(clap::Args, Debug, Clone)]
pub struct Subject {
    /// Stores, recordings, folders of them, or `-` [default: the user's store]
    #[arg(value_name = "STORE or RECORDING")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub place: StorePlace,
    /// Only this session: its number, its name, or `last`
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Read recordings as this format (see `rpctap formats`) [default: recognised from the content]
    #[arg(long, value_name = "FORMAT")]
    pub input_format: Option<String>,
    /// Who sent the messages of a log that does not say: `client` or `server`
    #[arg(long, value_name = "SIDE", value_parser = side)]
    pub direction: Option<Side>,
    /// Read a number out of responses, as NAME=METHOD[:TOOL]#/json/pointer; may be given several times
    #[arg(long, value_name = "GAUGE", value_parser = Gauge::parse)]
    pub gauge: Vec<Gauge>,
    /// Say when the leaks use up a pool of this many connections or workers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub pool: Option<u64>,
}

fn side(word: &str) -> std::result::Result<Side, String> {
    match word {
        "client" | "c2s" => Ok(Side::Client),
        "server" | "s2c" => Ok(Side::Server),
        _ => Err("it is `client` or `server`".to_string()),
    }
}

impl Subject {
    /// Reads and judges everything named. Gives also the findings of sessions that the report only counts.
    pub fn judge(&self, options: &Options) -> Result<(Report, Vec<Finding>)> {
        let paths = if self.paths.is_empty() { vec![self.place.path()?] } else { self.paths.clone() };
        let is_store = matches!(paths.as_slice(), [path] if matches!(Place::of(path), Place::Store(_)));
        if is_store {
            // Also takes in what a dead tap has left beside it.
            drop(open_with_spools(&paths[0])?);
        } else if self.paths.is_empty() && !paths[0].exists() {
            return Err(Error::new(format!(
                "there is no store at {} yet; record something with `rpctap record -- SERVER`, or name a recording",
                paths[0].display()
            )));
        }
        let mut judging = Judging::new(options, &self.gauge, is_store, self.session.is_some(), &paths);
        let mut remarks =
            open::read(&paths, self.session.as_deref().filter(|_| is_store), &self.import_options(), &mut judging)?;
        if judging.late > 0 {
            remarks
                .push(format!("{} events came long after the rest of their session and are not judged.", judging.late));
        }
        let mut sessions = judging.finish();
        let counted = judging.counted.take().unwrap_or_default();
        remarks.extend(counted.words());
        if let (Some(wanted), false) = (&self.session, is_store) {
            sessions = pick(sessions, wanted)?;
        }
        let source = (!self.paths.is_empty() || self.place.store.is_some())
            .then(|| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" "));
        Ok((Report { source, is_store, sessions, pool: self.pool, remarks }, counted.findings))
    }

    pub fn import_options(&self) -> import::Options {
        import::Options { format: self.input_format.clone(), direction: self.direction, ..Default::default() }
    }
}

/// One session of a recording, by its place in it, its name, or `last`.
fn pick(mut sessions: Vec<Told>, wanted: &str) -> Result<Vec<Told>> {
    let by_number = wanted.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let place = match wanted {
        "last" => sessions.len().checked_sub(1),
        name => sessions
            .iter()
            .position(|told| told.judged.session.name == name)
            .or(by_number.filter(|place| *place < sessions.len())),
    };
    match place {
        Some(place) => Ok(vec![sessions.swap_remove(place)]),
        None => Err(Error::new(format!(
            "there is no session {wanted:?} in it: it has {} (by place 1 to {0}, or by name)",
            sessions.len()
        ))),
    }
}

/// Everything that looks at one session's events.
struct Running {
    place: usize,
    session: Session,
    analyzer: Analyzer,
    gauges: GaugeReader,
    peers: Peers,
    rows: Rows,
    events: u64,
    /// Somebody has closed or ended it.
    ended: bool,
    /// How many events had been seen when the last of it came.
    last_seen: u64,
}

struct Judging<'a> {
    options: &'a Options,
    gauges: &'a [Gauge],
    is_store: bool,
    running: HashMap<SessionKey, Box<Running>>,
    /// The session of the last event: most recordings have one at a time.
    begun: usize,
    done: Vec<(usize, Box<Told>)>,
    /// Those of `done` that were too many. Where one session is asked for, it may be any.
    counted: Option<Counted>,
    bar: ProgressBar,
    seen: u64,
    /// With so many running, the next looks for those that have ended.
    next_look: usize,
    /// Events of sessions that had been judged.
    late: u64,
}

impl<'a> Judging<'a> {
    fn new(
        options: &'a Options,
        gauges: &'a [Gauge],
        is_store: bool,
        one_session: bool,
        paths: &[PathBuf],
    ) -> Judging<'a> {
        Judging {
            options,
            gauges,
            is_store,
            running: HashMap::new(),
            begun: 0,
            done: Vec::new(),
            counted: (!one_session).then(Counted::default),
            bar: progress(paths),
            seen: 0,
            next_look: MANY_RUNNING,
            late: 0,
        }
    }

    fn settle(&mut self, key: SessionKey) {
        let Some(running) = self.running.remove(&key) else { return };
        if running.events == 0 && !self.is_store {
            return;
        }
        let mut rows = running.rows;
        let mut judged = running.analyzer.finish_telling(None, |fact| take(&mut rows, fact));
        judged.series.take_gauges(running.gauges.finish());
        let number = self.is_store.then_some(running.session.key);
        let mut told = Told::new(number, judged, rows, running.peers);
        told.place = running.place;
        self.done.push((running.place, Box::new(told)));
        if self.done.len() > MOST_WITH_CURVES {
            let place = self.done.len() - 1 - MOST_WITH_CURVES;
            self.done[place].1.forget_curves();
        }
        if self.done.len() > MOST_TOLD
            && let Some(counted) = &mut self.counted
        {
            counted.take_from(&mut self.done);
        }
    }

    fn settle_the_ended(&mut self) {
        let quiet = |running: &Running| running.ended && self.seen - running.last_seen > QUIET_EVENTS;
        let mut over: Vec<(usize, SessionKey)> = self
            .running
            .iter()
            .filter(|(_, running)| quiet(running))
            .map(|(key, running)| (running.place, *key))
            .collect();
        over.sort_unstable();
        over.into_iter().for_each(|(_, key)| self.settle(key));
        if self.running.len() >= MOST_RUNNING {
            let mut quiet: Vec<(u64, SessionKey)> =
                self.running.iter().map(|(key, running)| (running.last_seen, *key)).collect();
            quiet.sort_unstable();
            quiet.truncate(MOST_RUNNING / 2);
            quiet.into_iter().for_each(|(_, key)| self.settle(key));
        }
        // Where none had ended, a look at each new session would take longer and longer.
        self.next_look = MANY_RUNNING.max(self.running.len() * 2).min(MOST_RUNNING);
    }

    /// What is open in all sessions together is held to what one may hold.
    fn keep_within(&mut self, most: usize) {
        if self.running.len() < 2 {
            return;
        }
        let mut open: usize = self.running.values().map(|running| running.analyzer.open_bytes()).sum();
        if open <= most {
            return;
        }
        let mut largest: Vec<&mut Analyzer> = self.running.values_mut().map(|running| &mut running.analyzer).collect();
        largest.sort_by_cached_key(|analyzer| std::cmp::Reverse(analyzer.open_bytes()));
        for analyzer in largest {
            let before = analyzer.open_bytes();
            if open <= most / 4 * 3 || before == 0 {
                break;
            }
            analyzer.keep_within(before - 1);
            open -= before - analyzer.open_bytes();
        }
    }

    fn settle_all(&mut self) {
        let mut keys: Vec<SessionKey> = self.running.keys().copied().collect();
        keys.sort_by_key(|key| self.running[key].place);
        keys.into_iter().for_each(|key| self.settle(key));
    }

    fn finish(&mut self) -> Vec<Told> {
        self.settle_all();
        self.bar.finish_and_clear();
        self.done.sort_by_key(|(place, _)| *place);
        sessions::mark_habits(&mut self.done.iter_mut().map(|(_, told)| &mut told.judged).collect::<Vec<_>>());
        std::mem::take(&mut self.done).into_iter().map(|(_, told)| *told).collect()
    }
}

fn take(rows: &mut Rows, fact: &Fact) {
    if let Fact::Exchange(exchange) = fact {
        rows.take(exchange);
    }
}

impl Reader for Judging<'_> {
    fn session(&mut self, session: &Session) {
        if self.is_store {
            // A store gives one session after another.
            self.settle_all();
        }
        self.settle(session.key);
        if self.running.len() >= self.next_look {
            self.settle_the_ended();
        }
        let running = Running {
            place: self.begun,
            session: session.clone(),
            analyzer: Analyzer::new(session, self.options),
            gauges: GaugeReader::new(self.gauges),
            peers: Peers::default(),
            rows: Rows::default(),
            events: 0,
            ended: false,
            last_seen: self.seen,
        };
        self.begun += 1;
        self.running.insert(session.key, Box::new(running));
    }

    fn file_ends(&mut self) {
        self.settle_all();
    }

    fn event(&mut self, event: &Event, bodies: &mut dyn Bodies) {
        self.seen += 1;
        if self.seen.is_multiple_of(4096) {
            self.bar.inc(4096);
            self.keep_within(MOST_OPEN_BYTES);
        }
        let Some(running) = self.running.get_mut(&event.session) else {
            self.late += 1;
            return;
        };
        running.events += 1;
        running.last_seen = self.seen;
        running.ended |= matches!(
            event.what,
            What::Happening(Happening::Closed { .. } | Happening::Exited { .. } | Happening::SessionEnded { .. })
        );
        running.peers.event(event);
        running.gauges.event(event, bodies);
        let rows = &mut running.rows;
        running.analyzer.feed(event, |fact| take(rows, fact));
    }
}

/// Shown only on a terminal, and only when the work takes a while.
fn progress(paths: &[PathBuf]) -> ProgressBar {
    let events = match paths {
        [path] if matches!(Place::of(path), Place::Store(_)) => crate::store::Store::open_readonly(path)
            .and_then(|store| store.sessions())
            .map(|sessions| sessions.iter().map(|session| session.events).sum::<u64>())
            .ok(),
        _ => None,
    };
    let bar = match events {
        Some(events) => ProgressBar::new(events),
        None => ProgressBar::no_length(),
    };
    let shape = match events {
        Some(_) => "  judging {bar:30} {pos}/{len} events, {eta} left",
        None => "  judging {spinner} {pos} events, {elapsed}",
    };
    // indicatif draws on stderr, and not at all when that is no terminal.
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(8));
    if let Ok(style) = ProgressStyle::with_template(shape) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
