//! Which recorded request is this live one?
//!
//! Comes in: the recorded client's requests, then live ones. Goes out: the recorded one it stands for: the same
//! method and the same params without what varies (`_meta`, tokens, what the user ignores). Repeats come in
//! recorded order; when they are used up the last one stands for all that follow. What matches nothing is told
//! with what is nearest.

use std::collections::HashMap;

use serde_json::Value;

use super::compare::Ignore;
use super::lifecycle::Life;
use super::script::Script;
use crate::event::{Line, Side};
use crate::protocol::{Dialect, Role, protocol};

pub struct Matching {
    ignore: Ignore,
    dialect: Dialect,
    queues: HashMap<String, Queue>,
    /// For those matched by method alone.
    by_method: HashMap<String, Queue>,
}

#[derive(Default, Clone)]
struct Queue {
    lives: Vec<usize>,
    next: usize,
}

impl Queue {
    fn take(&mut self) -> Option<(usize, bool)> {
        let again = self.next >= self.lives.len();
        let life = *self.lives.get(self.next.min(self.lives.len().checked_sub(1)?))?;
        self.next += 1;
        Some((life, again))
    }
}

/// A recorded request that stands for a live one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    pub life: usize,
    /// It has stood for one before: the recording has no more of them.
    pub again: bool,
}

impl Matching {
    pub fn new(script: &Script, ignore: Ignore) -> Matching {
        let mut matching =
            Matching { ignore, dialect: script.dialect, queues: HashMap::new(), by_method: HashMap::new() };
        for (number, life) in script.lives.iter().enumerate().filter(|(_, life)| life.asked_by == Side::Client) {
            let key = matching.key(script.line(life.asked));
            matching.queues.entry(key).or_default().lives.push(number);
            matching.by_method.entry(life.method.clone()).or_default().lives.push(number);
        }
        matching
    }

    pub fn find(&mut self, line: &Line) -> Option<Match> {
        let role = protocol(self.dialect).role(line.message.method());
        // A handshake tells who the client is; another client must be able to take part.
        let queue = if matches!(role, Role::Initialize | Role::Discover | Role::Ping | Role::Shutdown) {
            self.by_method.get_mut(line.message.method())
        } else {
            let key = self.key(line);
            self.queues.get_mut(&key)
        };
        queue.and_then(Queue::take).map(|(life, again)| Match { life, again })
    }

    fn key(&self, line: &Line) -> String {
        let params = line.body.as_ref().and_then(|body| serde_json::from_str::<Value>(body).ok());
        let params = params.as_ref().and_then(|value| value.get("params"));
        let mut key = line.message.method().to_string();
        let mut path = vec!["params".to_string()];
        canonical(params, &mut path, &self.ignore, &mut key);
        key
    }

    /// A sentence about the recorded request that comes nearest.
    pub fn nearest(&self, script: &Script, line: &Line) -> String {
        let method = line.message.method();
        let params = |line: &Line| {
            let value = line.body.as_ref().and_then(|body| serde_json::from_str::<Value>(body).ok());
            value.and_then(|mut value| value.get_mut("params").map(Value::take)).unwrap_or(Value::Null)
        };
        let live = params(line);
        let mut best: Option<(usize, &Life, String)> = None;
        let asked = script.lives.iter().filter(|life| life.asked_by == Side::Client);
        for life in asked.clone().filter(|life| life.method == method).take(MOST_COMPARED) {
            let mut pointers = Vec::new();
            let mut path = vec!["params".to_string()];
            differing(&params(script.line(life.asked)), &live, &mut path, &self.ignore, &mut pointers);
            if best.as_ref().is_none_or(|(count, ..)| pointers.len() < *count) {
                best = Some((pointers.len(), life, pointers.first().cloned().unwrap_or_default()));
            }
        }
        match best {
            Some((count, life, first)) => {
                let more = if count > 1 { format!(" and {} more places", count - 1) } else { String::new() };
                format!("nearest is {}, which differs at {first}{more}", life.words())
            }
            None => {
                let mut methods: Vec<&str> = asked.map(|life| life.method.as_str()).collect();
                methods.sort_unstable();
                methods.dedup();
                methods.sort_by_key(|known| distance(known, method));
                match methods.first() {
                    Some(known) => format!("no {method} is on record; nearest is {known}"),
                    None => "no request is on record".to_string(),
                }
            }
        }
    }
}

/// Among this many requests of a method the nearest is looked for.
const MOST_COMPARED: usize = 2_000;

/// The value in one writing only: keys sorted, what varies left out.
fn canonical(value: Option<&Value>, path: &mut Vec<String>, ignore: &Ignore, out: &mut String) {
    if varies(path) || ignore.covers(path) {
        return;
    }
    match value {
        None => {}
        Some(Value::Object(members)) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for key in keys {
                path.push(key.clone());
                if !varies(path) && !ignore.covers(path) {
                    out.push_str(key);
                    out.push('\u{1}');
                    canonical(members.get(key), path, ignore, out);
                    out.push('\u{2}');
                }
                path.pop();
            }
            out.push('}');
        }
        Some(Value::Array(items)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                canonical(Some(item), path, ignore, out);
                out.push('\u{2}');
                path.pop();
            }
            out.push(']');
        }
        Some(scalar) => out.push_str(&scalar.to_string()),
    }
}

/// Differs from run to run by its nature.
fn varies(path: &[String]) -> bool {
    path.len() == 2 && matches!(path[1].as_str(), "_meta" | "workDoneToken" | "partialResultToken")
}

fn differing(recorded: &Value, live: &Value, path: &mut Vec<String>, ignore: &Ignore, out: &mut Vec<String>) {
    if varies(path) || ignore.covers(path) || recorded == live {
        return;
    }
    match (recorded, live) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            for key in keys {
                path.push(key.clone());
                differing(a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null), path, ignore, out);
                path.pop();
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for index in 0..a.len().max(b.len()) {
                path.push(index.to_string());
                differing(
                    a.get(index).unwrap_or(&Value::Null),
                    b.get(index).unwrap_or(&Value::Null),
                    path,
                    ignore,
                    out,
                );
                path.pop();
            }
        }
        _ => out.push(path.iter().map(|step| format!("/{step}")).collect()),
    }
}

/// How many letters must change: for a hint, so long names are cut.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(60).collect(), b.chars().take(60).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}
