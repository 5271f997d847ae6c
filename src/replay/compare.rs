//! Two runs beside each other: what became of each request first, then what was said.
//!
//! Comes in: the script and a live run of it. Goes out: [`Difference`]s and a transcript in which the lines that
//! diverge are marked: `-` only in the recording, `+` only live. The order of things that do not depend on each
//! other is no difference, nor are ids and values the server makes up anew.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::lifecycle::{Life, client_closed, lives_until};
use super::play::Run;
use super::script::Script;
use super::values::Values;
use crate::event::{Line, Micros, Side};
use crate::rpc::Kind;

/// What the user does not want compared: JSON pointers (a `*` stands for any one step), and methods.
#[derive(Debug, Clone, Default)]
pub struct Ignore {
    pointers: Vec<Vec<String>>,
    methods: HashSet<String>,
}

impl Ignore {
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Ignore {
        let mut ignore = Ignore::default();
        for text in texts {
            match text.strip_prefix('/') {
                Some(pointer) => {
                    let steps = pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
                    ignore.pointers.push(steps.collect());
                }
                None => {
                    ignore.methods.insert(text.to_string());
                }
            }
        }
        ignore
    }

    /// A pointer also covers everything below it.
    pub fn covers(&self, path: &[String]) -> bool {
        self.pointers.iter().any(|pointer| {
            pointer.len() <= path.len() && pointer.iter().zip(path).all(|(want, step)| want == "*" || want == step)
        })
    }

    pub fn covers_method(&self, method: &str) -> bool {
        self.methods.contains(method)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// A request came to another end.
    Fate { request: String, asked_by: Side, recorded: &'static str, live: &'static str },
    /// Answered more, or fewer, times.
    Answers { request: String, recorded: usize, live: usize },
    /// Asked in one run only.
    Asked { request: String, live: bool },
    /// Notifications of a method came more, or fewer, times.
    Notices { method: String, recorded: usize, live: usize },
    /// A value differs.
    Payload { message: String, pointer: String, recorded: String, live: String },
    /// How the session ended.
    Ended { recorded: String, live: String },
}

impl Difference {
    pub fn is_lifecycle(&self) -> bool {
        !matches!(self, Difference::Payload { .. } | Difference::Notices { .. })
    }

    pub fn words(&self) -> String {
        match self {
            Difference::Fate { request, asked_by: Side::Client, recorded, live } => {
                format!("{request}: was {recorded}, is {live}")
            }
            Difference::Fate { request, recorded, live, .. } => {
                format!("{request} (asked by the server): was {recorded}, is {live}")
            }
            Difference::Answers { request, recorded, live } => {
                format!("{request}: was answered {recorded} times, is answered {live} times")
            }
            Difference::Asked { request, live: true } => format!("{request}: the server asks this only now"),
            Difference::Asked { request, live: false } => format!("{request}: the server does not ask this any more"),
            Difference::Notices { method, recorded, live } => {
                format!("{method}: came {recorded} times, comes {live} times")
            }
            Difference::Payload { message, pointer, recorded, live } => {
                format!("{message} at {pointer}: was {recorded}, is {live}")
            }
            Difference::Ended { recorded, live } => format!("the session: was {recorded}, is {live}"),
        }
    }
}

/// One line of the transcript of both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// ` ` in both, `-` only recorded, `+` only live.
    pub mark: char,
    pub at: Option<Micros>,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    pub differences: Vec<Difference>,
    pub rows: Vec<Row>,
    /// Requests compared, and values that were told apart but not listed.
    pub requests: usize,
    pub unlisted: usize,
}

/// Values listed for one message, and for all.
const MOST_VALUES_OF_MESSAGE: usize = 10;
const MOST_VALUES: usize = 200;
const LONGEST_VALUE_CHARS: usize = 160;

impl Comparison {
    pub fn new(script: &Script, run: &Run, ignore: &Ignore) -> Comparison {
        let live_lives = lives_until(&run.lines, script.dialect, client_closed(&run.kept.events));
        let mut comparison = Comparison::default();
        let mut pairs: HashMap<usize, usize> = HashMap::new();
        comparison.client_requests(script, run, &live_lives, ignore, &mut pairs);
        comparison.server_requests(script, run, &live_lives, ignore, &mut pairs);
        comparison.notices(script, run, ignore, &mut pairs);
        comparison.rows = rows(script, run, &pairs, &comparison.marked(script));
        comparison
    }

    pub fn same(&self) -> bool {
        self.differences.is_empty()
    }

    pub fn lifecycle(&self) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(|difference| difference.is_lifecycle())
    }

    pub fn payload(&self) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(|difference| !difference.is_lifecycle())
    }

    fn client_requests(
        &mut self,
        script: &Script,
        run: &Run,
        live: &[Life],
        ignore: &Ignore,
        pairs: &mut HashMap<usize, usize>,
    ) {
        let by_id: HashMap<_, &Life> = live
            .iter()
            .filter(|life| life.asked_by == Side::Client)
            .map(|life| ((life.id.canonical(), life.generation), life))
            .collect();
        for recorded in script.lives.iter().filter(|life| life.asked_by == Side::Client) {
            let Some(live) = by_id.get(&(recorded.id.canonical(), recorded.generation)) else { continue };
            self.requests += 1;
            pairs.insert(recorded.asked, live.asked);
            self.life(script, run, recorded, live, ignore, pairs);
            if let (Some(a), Some(b)) = (recorded.cancel, live.cancel) {
                pairs.insert(a, b);
            }
        }
        pair_rest(script, run, pairs, Side::Client);
    }

    fn server_requests(
        &mut self,
        script: &Script,
        run: &Run,
        live: &[Life],
        ignore: &Ignore,
        pairs: &mut HashMap<usize, usize>,
    ) {
        let by_line: HashMap<usize, &Life> = live.iter().map(|life| (life.asked, life)).collect();
        for recorded in script.lives.iter().filter(|life| life.asked_by == Side::Server) {
            if ignore.covers_method(&recorded.method) {
                continue;
            }
            match run.asked_as.get(&recorded.asked).and_then(|at| by_line.get(at)) {
                Some(live) => {
                    pairs.insert(recorded.asked, live.asked);
                    self.payload_of(script, run, recorded.asked, live.asked, ignore, &recorded.words());
                    self.life(script, run, recorded, live, ignore, pairs);
                }
                None => {
                    let request = recorded.words();
                    self.differences.push(Difference::Asked { request, live: false });
                }
            }
        }
        let known: HashSet<usize> = run.asked_as.values().copied().collect();
        if run.rounds.len() > 1 {
            return;
        }
        for life in live.iter().filter(|life| life.asked_by == Side::Server && life.method != "ping") {
            if !known.contains(&life.asked) && !ignore.covers_method(&life.method) {
                self.differences.push(Difference::Asked { request: life.words(), live: true });
            }
        }
    }

    fn life(
        &mut self,
        script: &Script,
        run: &Run,
        recorded: &Life,
        live: &Life,
        ignore: &Ignore,
        pairs: &mut HashMap<usize, usize>,
    ) {
        let request = recorded.words();
        for (a, b) in recorded.answers.iter().zip(&live.answers) {
            pairs.insert(*a, *b);
        }
        if recorded.fate != live.fate {
            self.differences.push(Difference::Fate {
                request: request.clone(),
                asked_by: recorded.asked_by,
                recorded: recorded.fate.words(),
                live: live.fate.words(),
            });
        } else if recorded.answers.len() != live.answers.len() {
            let (recorded, live) = (recorded.answers.len(), live.answers.len());
            self.differences.push(Difference::Answers { request: request.clone(), recorded, live });
        }
        if recorded.asked_by == Side::Client && !ignore.covers_method(&recorded.method) {
            for (a, b) in recorded.answers.iter().zip(&live.answers) {
                self.payload_of(script, run, *a, *b, ignore, &format!("the answer to {request}"));
            }
        }
    }

    fn payload_of(&mut self, script: &Script, run: &Run, recorded: usize, live: usize, ignore: &Ignore, message: &str) {
        let (recorded, live) = (script.line(recorded), &run.lines[live]);
        let (Some(recorded), Some(live)) = (&recorded.body, &live.body) else { return };
        let mut values = Vec::new();
        match (serde_json::from_str::<Value>(recorded), serde_json::from_str::<Value>(live)) {
            (Ok(recorded), Ok(live)) => {
                let mut path = Vec::new();
                for key in ["result", "error", "params", "method"] {
                    path.push(key.to_string());
                    differ(recorded.get(key), live.get(key), &mut path, &run.values, ignore, &mut values);
                    path.pop();
                }
            }
            _ if recorded != live => values.push(("/".to_string(), clip(recorded), clip(live))),
            _ => {}
        }
        self.unlisted += values.len().saturating_sub(MOST_VALUES_OF_MESSAGE);
        for (pointer, recorded, live) in values.into_iter().take(MOST_VALUES_OF_MESSAGE) {
            if self.differences.len() >= MOST_VALUES {
                self.unlisted += 1;
                continue;
            }
            self.differences.push(Difference::Payload { message: message.to_string(), pointer, recorded, live });
        }
    }

    fn notices(&mut self, script: &Script, run: &Run, ignore: &Ignore, pairs: &mut HashMap<usize, usize>) {
        let mut live: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, line) in run.lines.iter().enumerate() {
            if line.from == Side::Server && line.message.kind == Kind::Notification {
                live.entry(line.message.method()).or_default().push(at);
            }
        }
        let repeated = run.rounds.len() > 1;
        let mut methods: Vec<&str> = script.notices.keys().map(String::as_str).chain(live.keys().copied()).collect();
        methods.sort_unstable();
        methods.dedup();
        for method in methods {
            if ignore.covers_method(method) {
                continue;
            }
            let recorded = script.notices.get(method).map(Vec::as_slice).unwrap_or_default();
            let live = live.get(method).map(Vec::as_slice).unwrap_or_default();
            for (a, b) in recorded.iter().zip(live) {
                pairs.insert(*a, *b);
                self.payload_of(script, run, *a, *b, ignore, method);
            }
            if recorded.len() != live.len() && !repeated {
                let method = method.to_string();
                self.differences.push(Difference::Notices { method, recorded: recorded.len(), live: live.len() });
            }
        }
    }

    /// Recorded lines whose counterpart says something else.
    fn marked(&self, script: &Script) -> HashSet<usize> {
        let mut marked = HashSet::new();
        for difference in &self.differences {
            let (Difference::Payload { message, .. } | Difference::Fate { request: message, .. }) = difference else {
                continue;
            };
            let request = message.strip_prefix("the answer to ").unwrap_or(message);
            for life in script.lives.iter().filter(|life| life.words() == request) {
                marked.extend(life.answers.first().copied());
            }
        }
        marked
    }
}

/// What is left of one side is paired in order, by method.
fn pair_rest(script: &Script, run: &Run, pairs: &mut HashMap<usize, usize>, side: Side) {
    let taken: HashSet<usize> = pairs.values().copied().collect();
    let mut free: HashMap<(&str, Kind), Vec<usize>> = HashMap::new();
    for (at, line) in run.lines.iter().enumerate().rev() {
        if line.from == side && !taken.contains(&at) {
            free.entry((line.message.method(), line.message.kind)).or_default().push(at);
        }
    }
    for (at, line) in script.recording.lines.iter().enumerate() {
        if line.from != side || pairs.contains_key(&at) || run.not_sent.contains(&at) {
            continue;
        }
        if let Some(live) = free.get_mut(&(line.message.method(), line.message.kind)).and_then(Vec::pop) {
            pairs.insert(at, live);
        }
    }
}

fn differ(
    recorded: Option<&Value>,
    live: Option<&Value>,
    path: &mut Vec<String>,
    values: &Values,
    ignore: &Ignore,
    out: &mut Vec<(String, String, String)>,
) {
    if ignore.covers(path) {
        return;
    }
    match (recorded, live) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))).collect();
            keys.sort_unstable();
            for key in keys {
                path.push(key.clone());
                differ(a.get(key), b.get(key), path, values, ignore, out);
                path.pop();
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                path.push(index.to_string());
                differ(a.get(index), b.get(index), path, values, ignore, out);
                path.pop();
            }
        }
        (a, b) if a == b => {}
        (Some(Value::String(a)), Some(Value::String(b)))
            if values.live(&Value::from(a.as_str()).to_string()) == Some(&Value::from(b.as_str()).to_string()) => {}
        (a, b) => {
            let words = |value: Option<&Value>| value.map_or("absent".to_string(), |value| clip(&value.to_string()));
            let pointer: String =
                path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
            out.push((pointer, words(a), words(b)));
        }
    }
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(LONGEST_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// `-> 2 tools/call {"name":"search"}`, without the time.
pub fn line_words(line: &Line) -> String {
    let message = &line.message;
    let arrow = line.from.arrow();
    let id = message.id.as_ref().map_or(String::new(), |id| format!(" {id}"));
    let part = |key: &str| {
        let value: Option<Value> = line.body.as_ref().and_then(|body| serde_json::from_str(body).ok());
        value.and_then(|value| value.get(key).map(|value| format!(" {}", clip(&value.to_string())))).unwrap_or_default()
    };
    match message.kind {
        Kind::Request | Kind::Notification => format!("{arrow}{id} {}{}", message.method(), part("params")),
        Kind::Result => format!("{arrow}{id} result{}", part("result")),
        Kind::Error => format!("{arrow}{id} error{}", part("error")),
        Kind::Unreadable(reason) => format!("{arrow} ({})", reason.name()),
    }
}

fn rows(script: &Script, run: &Run, pairs: &HashMap<usize, usize>, marked: &HashSet<usize>) -> Vec<Row> {
    let (recorded_zero, live_zero) =
        (script.recording.lines.first().map_or(0, |line| line.at), run.lines.first().map_or(0, |line| line.at));
    let paired: HashSet<usize> = pairs.values().copied().collect();
    let repeated = run.rounds.len() > 1;
    let mut rows = Vec::new();
    let mut next_live = 0;
    let live_row =
        |at: usize| Row { mark: '+', at: Some(run.lines[at].at - live_zero), text: line_words(&run.lines[at]) };
    for (at, line) in script.recording.lines.iter().enumerate() {
        let recorded = Row { mark: '-', at: Some(line.at - recorded_zero), text: line_words(line) };
        match pairs.get(&at) {
            None => rows.push(recorded),
            Some(live) => {
                while next_live < *live {
                    if !paired.contains(&next_live) && !repeated {
                        rows.push(live_row(next_live));
                    }
                    next_live += 1;
                }
                if marked.contains(&at) {
                    rows.push(recorded);
                    rows.push(live_row(*live));
                } else {
                    rows.push(Row { mark: ' ', at: Some(run.lines[*live].at - live_zero), text: line_words(line) });
                }
            }
        }
    }
    while next_live < run.lines.len() && !repeated {
        if !paired.contains(&next_live) {
            rows.push(live_row(next_live));
        }
        next_live += 1;
    }
    rows
}
