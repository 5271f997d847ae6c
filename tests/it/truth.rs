//! Random conversations with known truth: the analyzer must get every outcome right, in any order of equal times.
//!
//! The generator plays both ends: it decides what becomes of each request, writes the events that make it so, and
//! remembers the outcome. Requests are spaced so that what it decided is the only reading of the wire.

use std::collections::{BTreeMap, HashSet};

use rpctap::event::{Collected, Happening, How, Knows, Micros, NoBodies, Party, Scribe, Session, Side, Sink, Source};
use rpctap::exchange::{Fact, Outcome};
use rpctap::finding::{Analyzer, Judged, Options, Severity};
use rpctap::protocol::{Batches, Dialect};

/// SplitMix64: small, seeded, the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    fn one_in(&mut self, chance: u64) -> bool {
        self.below(chance) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

const START: Micros = 1_700_000_000_000_000;
const SECOND: Micros = 1_000_000;

#[derive(Debug, Clone)]
enum Deed {
    Say { from: Side, body: String },
    Happen(Happening),
}

/// What is to happen, when: sorted by time, then by `order`.
#[derive(Debug, Clone)]
struct Plan {
    at: Micros,
    order: u64,
    deed: Deed,
}

struct Play {
    dialect: Dialect,
    plans: Vec<Plan>,
    /// By who asked, the id as written and its generation.
    truth: BTreeMap<(Side, String, u32), Outcome>,
}

fn cancel(dialect: Dialect, id: &str) -> String {
    match dialect.name() {
        "mcp" => format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#),
        "acp" => format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#),
        _ => format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#),
    }
}

fn answer(id: &str, failed: bool) -> String {
    match failed {
        false => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#),
        true => format!(r#"{{"error":{{"code":-32603,"message":"x"}},"id":{id},"jsonrpc":"2.0"}}"#),
    }
}

impl Play {
    fn say(&mut self, at: Micros, from: Side, body: String) {
        let order = self.plans.len() as u64;
        self.plans.push(Plan { at, order, deed: Deed::Say { from, body } });
    }

    fn happen(&mut self, at: Micros, happening: Happening) {
        let order = self.plans.len() as u64;
        self.plans.push(Plan { at, order, deed: Deed::Happen(happening) });
    }

    fn write(seed: u64) -> Play {
        let mut dice = Dice(seed);
        let dialects = [
            Dialect::Plain,
            Dialect::Mcp20241105,
            Dialect::Mcp20250326,
            Dialect::Mcp20251125,
            Dialect::Lsp,
            Dialect::Bsp,
            Dialect::Acp1,
        ];
        let dialect = dice.pick(&dialects);
        let late_start = dice.one_in(5);
        let mut play = Play { dialect, plans: Vec::new(), truth: BTreeMap::new() };
        if late_start {
            // Answers and cancels of what was asked before the recording began.
            play.say(START, Side::Server, answer("777001", false));
            play.say(START + 1000, Side::Client, answer("\"before\"", true));
            play.say(START + 2000, Side::Client, cancel(dialect, "777002"));
        } else {
            play.happen(START, Happening::Opened { pid: None });
        }
        // Who ends the session, if anybody does. The end is far behind everything that is settled.
        let end_at = START + 4000 * SECOND;
        let ended = dice.below(3);
        let gap_at = dice.one_in(4).then_some(START + 1500 * SECOND);
        if let Some(gap_at) = gap_at {
            let why = "test".to_string();
            play.happen(gap_at, Happening::Lost { from: None, events: 1, bytes: 0, why });
        }
        match ended {
            1 => {
                let closed = |from, by| Happening::Closed { from, by, how: How::Eof };
                play.happen(end_at, closed(Side::Client, Party::Client));
                play.happen(end_at + 10 * SECOND, closed(Side::Server, Party::Server));
            }
            2 => play.happen(end_at, Happening::Exited { code: Some(1), signal: None }),
            _ => play.say(end_at, Side::Client, r#"{"jsonrpc":"2.0","method":"alive"}"#.to_string()),
        }
        play.tail(&mut dice, ended, end_at);
        if dice.one_in(3) {
            play.row_of_give_ups(START + 3600 * SECOND);
        }
        let mut uses: BTreeMap<(Side, String), (u32, Micros)> = BTreeMap::new();
        let mut taken = HashSet::new();
        let requests = 3 + dice.below(40);
        for number in 0..requests {
            let side = if dice.one_in(3) { Side::Server } else { Side::Client };
            // Ids of both kinds, the same in both directions, reused once they are answered.
            let id = match dice.below(4) {
                0 => format!("{}", dice.below(6)),
                1 => format!("\"{}\"", dice.below(6)),
                2 => format!("\"call-{number}\""),
                _ => format!("{}", 1000 + number),
            };
            let mut at = START + SECOND + dice.below(3000) as Micros * SECOND + dice.below(300_000) as Micros;
            let known = uses.get(&(side, id.clone())).copied();
            let loose = if id.starts_with('"') { id.trim_matches('"').to_string() } else { format!("\"{id}\"") };
            // A number and its text would meet as loose matches while one is open: that is another test.
            let mixed = uses.contains_key(&(side, loose));
            let generation = match known {
                // In use until the end of time, or mixed up: ask under a fresh id.
                Some((_, Micros::MAX)) => continue,
                _ if mixed => continue,
                Some((generation, free_at)) => {
                    at = at.max(free_at + SECOND);
                    generation + 1
                }
                None => 1,
            };
            // One request a second at most: closer ones could pass for second tries.
            if at > START + 3500 * SECOND || !taken.insert((at - START) / SECOND) {
                continue;
            }
            let free_at = play.request(&mut dice, side, &id, generation, at, number, ended, end_at, gap_at);
            uses.insert((side, id), (generation, free_at));
        }
        play.plans.sort_by_key(|plan| (plan.at, plan.order));
        play
    }

    /// A request shortly before the end.
    fn tail(&mut self, dice: &mut Dice, ended: u64, end_at: Micros) {
        let id = "\"tail\"";
        let ask = |at: Micros, side: Side, play: &mut Play| {
            play.say(at, side, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tail"}}"#));
        };
        let side = dice.pick(&[Side::Client, Side::Server]);
        let outcome = match (ended, dice.below(4)) {
            (0, _) => {
                ask(end_at - 5 * SECOND, side, self);
                Outcome::InFlight
            }
            (1, 0) if side == Side::Client => {
                ask(end_at - 400 * SECOND, side, self);
                self.say(end_at + SECOND, side.other(), answer(id, dice.one_in(2)));
                Outcome::AnsweredAfterClose
            }
            (1, 1) if side == Side::Client => {
                // Written, closed, answered: in order.
                ask(end_at - 1000, side, self);
                self.say(end_at + SECOND, side.other(), answer(id, false));
                Outcome::Answered
            }
            (2, _) if side == Side::Client => {
                ask(end_at - 5 * SECOND, side, self);
                Outcome::PeerDied
            }
            _ => {
                ask(end_at - 5 * SECOND, side, self);
                Outcome::LostInShutdown
            }
        };
        self.truth.insert((side, id.to_string(), 1), outcome);
    }

    /// The same call again and again, given up after 200 ms each, and something else that is answered.
    fn row_of_give_ups(&mut self, at: Micros) {
        // Enough quick answers that 200 ms are long in this session, whatever else is in it.
        for number in 0..45 {
            let (id, asked) = (format!("\"warm-{number}\""), at - (50 - number) * SECOND);
            self.say(asked, Side::Client, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"warm"}}"#));
            self.say(asked + 1000, Side::Server, answer(&id, false));
            self.truth.insert((Side::Client, id, 1), Outcome::Answered);
        }
        for number in 0..4 {
            let id = format!("\"row-{number}\"");
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"row","params":{{"x":1}}}}"#);
            self.say(at + number * 200_000 + number % 3 * 4_000, Side::Client, body);
            self.truth.insert((Side::Client, id, 1), Outcome::Abandoned);
        }
        self.say(at + 800_000, Side::Client, r#"{"jsonrpc":"2.0","id":"row-end","method":"after"}"#.to_string());
        self.say(at + 801_000, Side::Server, answer("\"row-end\"", false));
        self.truth.insert((Side::Client, "\"row-end\"".to_string(), 1), Outcome::Answered);
    }

    /// Writes one request and what becomes of it; gives when its id is free again.
    #[allow(clippy::too_many_arguments)]
    fn request(
        &mut self,
        dice: &mut Dice,
        side: Side,
        id: &str,
        generation: u32,
        at: Micros,
        number: u64,
        ended: u64,
        end_at: Micros,
        gap_at: Option<Micros>,
    ) -> Micros {
        let peer = side.other();
        let params = format!(r#"{{"n":{number}}}"#);
        self.say(at, side, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m/{number}","params":{params}}}"#));
        let soon = at + 1000 + dice.below(20_000) as Micros;
        let late = at + 40 * SECOND + dice.below(20_000_000) as Micros;
        let gapped = |from: Micros, to: Micros| gap_at.is_some_and(|gap| from <= gap && gap <= to);
        let key = (side, id.to_string(), generation);
        let (outcome, free_at) = match dice.below(9) {
            0..=1 => {
                self.say(soon, peer, answer(id, false));
                (Outcome::Answered, soon)
            }
            2 => {
                // The cancel comes after the answer, with or without having crossed it.
                let after = soon + dice.pick(&[100, 20_000_000]);
                self.say(soon, peer, answer(id, false));
                self.say(after, side, cancel(self.dialect, id));
                (Outcome::Answered, after)
            }
            3 => {
                self.say(soon, peer, answer(id, true));
                (Outcome::Failed, soon)
            }
            4 => {
                // Long after any deadline is late, and an answer all the same.
                self.say(late, peer, answer(id, false));
                (Outcome::Answered, late)
            }
            5 => {
                self.say(soon, side, cancel(self.dialect, id));
                self.say(soon + 500_000, peer, answer(id, true));
                (Outcome::CancelledAcknowledged, soon + 500_000)
            }
            6 => {
                self.say(soon, side, cancel(self.dialect, id));
                if dice.one_in(2) {
                    self.say(soon + 900_000, peer, answer(id, false));
                    (Outcome::CancelledRaced, soon + 900_000)
                } else {
                    // Longer than twice any median round trip of this generator.
                    self.say(soon + 300 * SECOND, peer, answer(id, false));
                    (Outcome::CancelledIgnored, soon + 300 * SECOND)
                }
            }
            7 => {
                self.say(soon, side, cancel(self.dialect, id));
                (Outcome::CancelledSilent, Micros::MAX)
            }
            _ => {
                let outcome = match ended {
                    // What was lost may have been the answer.
                    _ if gapped(at, end_at) => Outcome::InFlight,
                    0 => Outcome::Overdue,
                    _ => Outcome::Orphaned,
                };
                (outcome, Micros::MAX)
            }
        };
        self.truth.insert(key, outcome);
        free_at
    }

    /// All within one tick of a coarse clock becomes one moment.
    fn coarsen(&mut self, tick: Micros) {
        for plan in &mut self.plans {
            plan.at -= plan.at % tick;
        }
        self.plans.sort_by_key(|plan| (plan.at, plan.order));
    }

    /// The events of the play. `shuffle` deals what happens at equal times anew, but keeps each sender's own order,
    /// and a cancel where it stands among the messages about its id.
    fn record(&self, shuffle: Option<u64>) -> Collected {
        let mut plans = self.plans.clone();
        if let Some(seed) = shuffle {
            let mut dice = Dice(seed);
            for moment in plans.chunk_by_mut(|one, next| one.at == next.at) {
                if moment.iter().all(|plan| matches!(&plan.deed, Deed::Say { body, .. } if !body.contains("ancel"))) {
                    let client_first = dice.one_in(2);
                    moment.sort_by_key(|plan| match &plan.deed {
                        Deed::Say { from, .. } => (*from == Side::Client) != client_first,
                        Deed::Happen(_) => false,
                    });
                }
            }
        }
        let session = Session {
            key: 0,
            name: "play".to_string(),
            source: Source::Stdio,
            target: String::new(),
            started_at: START,
            knows: Knows::ALL,
        };
        let mut collected = Collected::default();
        collected.session(&session);
        let mut scribe = Scribe::new(0);
        let batches = self.dialect.batches() == Batches::Allowed;
        let mut batch: Option<(Side, Micros, Vec<String>)> = None;
        let flush = |batch: &mut Option<(Side, Micros, Vec<String>)>, scribe: &mut Scribe, to: &mut Collected| {
            if let Some((from, at, bodies)) = batch.take() {
                let body = if bodies.len() == 1 { bodies[0].clone() } else { format!("[{}]", bodies.join(",")) };
                scribe.body(from, at, None, body.as_bytes(), to);
            }
        };
        for plan in plans {
            match plan.deed {
                Deed::Say { from, body } => match &mut batch {
                    Some((side, at, bodies)) if batches && *side == from && *at == plan.at => bodies.push(body),
                    _ => {
                        flush(&mut batch, &mut scribe, &mut collected);
                        batch = Some((from, plan.at, vec![body]));
                    }
                },
                Deed::Happen(happening) => {
                    flush(&mut batch, &mut scribe, &mut collected);
                    scribe.happening(plan.at, None, happening, &mut collected);
                }
            }
        }
        flush(&mut batch, &mut scribe, &mut collected);
        collected
    }
}

fn judge(collected: &Collected, dialect: Dialect) -> (Judged, Vec<Fact>) {
    let options = Options { protocol: Some(dialect), ..Options::default() };
    let mut analyzer = Analyzer::new(&collected.sessions[0], &options);
    let mut facts = Vec::new();
    for event in &collected.events {
        analyzer.feed(event, |fact| facts.push(fact.clone()));
    }
    let judged = analyzer.finish_telling(None, |fact| facts.push(fact.clone()));
    (judged, facts)
}

fn outcomes(facts: &[Fact]) -> BTreeMap<(Side, String, u32), Outcome> {
    facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Exchange(exchange) => {
                Some(((exchange.asked_by, exchange.id.to_string(), exchange.generation), exchange.outcome))
            }
            _ => None,
        })
        .collect()
}

fn plays() -> u64 {
    if std::env::var_os("RPCTAP_FULL").is_some() { 200_000 } else { 2_000 }
}

#[test]
fn every_outcome_is_right_over_thousands_of_conversations() {
    let mut requests = 0;
    for seed in 0..plays() {
        let play = Play::write(seed);
        let (judged, facts) = judge(&play.record(None), play.dialect);
        let found = outcomes(&facts);
        for (key, outcome) in &play.truth {
            let told = found.get(key);
            assert_eq!(told, Some(outcome), "seed {seed}, {:?}, {key:?}", play.dialect);
        }
        assert_eq!(found.len(), play.truth.len(), "seed {seed}: one outcome for each request");
        assert_eq!(judged.requests(), play.truth.len() as u64, "seed {seed}");
        // Nobody is accused of answering nothing, or of cancelling it, in conversations where nobody did.
        let rules =
            ["response-unknown-id", "duplicate-response", "id-type-mismatch", "cancel-unknown", "id-reuse-in-flight"];
        for finding in &judged.findings {
            let accuses = rules.contains(&finding.rule.name) && finding.severity > Severity::Info;
            assert!(!accuses, "seed {seed}: {}", finding.sentence());
        }
        requests += play.truth.len();
    }
    assert!(requests > 10 * plays() as usize, "the generator made only {requests} requests");
}

#[test]
fn the_order_of_equal_times_changes_no_outcome() {
    let mut moved = 0;
    for seed in 0..plays() / 4 {
        let mut play = Play::write(seed);
        // A clock that ticks every ten milliseconds: requests and their answers share a moment.
        play.coarsen(10_000);
        let (straight_events, shuffled_events) = (play.record(None), play.record(Some(seed)));
        moved += u64::from(straight_events.events != shuffled_events.events);
        let (straight, shuffled) = (judge(&straight_events, play.dialect), judge(&shuffled_events, play.dialect));
        assert_eq!(outcomes(&straight.1), outcomes(&shuffled.1), "seed {seed}");
        let told = |judged: &Judged| -> Vec<(&str, Severity, u64)> {
            judged.findings.iter().map(|finding| (finding.rule.name, finding.severity, finding.count)).collect()
        };
        assert_eq!(told(&straight.0), told(&shuffled.0), "seed {seed}");
    }
    assert!(moved > plays() / 16, "only {moved} plays were shuffled at all");
}

#[test]
fn a_recording_cut_anywhere_accuses_nobody_of_what_came_later() {
    for seed in 0..plays() / 8 {
        let play = Play::write(seed);
        let mut collected = play.record(None);
        let mut dice = Dice(seed ^ 0xC07);
        let keep = dice.below(collected.events.len() as u64) as usize;
        collected.events.truncate(keep);
        let until = collected.events.last().map_or(START, |event| event.at);
        let (_, facts) = judge(&collected, play.dialect);
        for fact in &facts {
            let Fact::Exchange(exchange) = fact else { continue };
            if exchange.outcome == Outcome::Orphaned || exchange.outcome == Outcome::Overdue {
                let age = exchange.end.map_or(until, |end| end.at.min(until)) - exchange.opened_at;
                assert!(age >= 30 * SECOND, "seed {seed}: {exchange:?}");
            }
            // Only the row of tries that were given up one after another is told without an end.
            let given_up = exchange.outcome == Outcome::Abandoned;
            assert!(!given_up || &*exchange.method == "row", "seed {seed}: {exchange:?}");
        }
    }
}

#[test]
fn a_live_fold_and_a_finished_one_find_the_same() {
    for seed in 0..plays() / 16 {
        let play = Play::write(seed);
        let collected = play.record(None);
        let options = Options { protocol: Some(play.dialect), ..Options::default() };
        let mut live = Analyzer::new(&collected.sessions[0], &options);
        for event in &collected.events {
            live.event(event, &mut NoBodies);
        }
        let live = live.finish(None);
        let mut bodies = collected.clone();
        let mut stored = Analyzer::new(&collected.sessions[0], &options);
        for event in &collected.events {
            stored.event(event, &mut bodies);
        }
        let stored = stored.finish(Some(stored_end(&collected)));
        assert_eq!(live.findings, stored.findings, "seed {seed}");
        assert_eq!(live.outcomes, stored.outcomes, "seed {seed}");
    }
}

fn stored_end(collected: &Collected) -> Micros {
    collected.events.last().map_or(START, |event| event.at)
}
