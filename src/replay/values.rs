//! Values the server makes up anew in every run, and the client hands back: task ids, session ids, states.
//!
//! Comes in: a recorded message of the server and the live one in its place. Where a handle differs and the recorded
//! client later says it word for word, the live one takes its place in what goes out. A handle is known by its key,
//! and never taken from a list: the first tool of another server is another tool, not the same one renamed.

use std::collections::{HashMap, HashSet};

use crate::event::{Line, Side};
use crate::rpc::edit::{Step, rewrite};

/// Shorter strings are words, not handles.
const SHORTEST_HANDLE_BYTES: usize = 4;

#[derive(Debug, Clone, Default)]
pub struct Values {
    /// Literals the recorded client says.
    said: HashSet<String>,
    live: HashMap<String, String>,
}

impl Values {
    pub fn of(lines: &[Line]) -> Values {
        let mut said = HashSet::new();
        for line in lines.iter().filter(|line| line.from == Side::Client) {
            let Some(body) = &line.body else { continue };
            rewrite(body, &mut |path, literal| {
                if path.len() > 1 && literal.len() >= SHORTEST_HANDLE_BYTES + 2 && literal.starts_with('"') {
                    said.insert(literal.to_string());
                }
                None
            });
        }
        Values { said, live: HashMap::new() }
    }

    /// Learns what the live message says where the recorded one said something the client repeats.
    pub fn learn(&mut self, recorded: &str, live: &str) {
        if self.said.is_empty() {
            return;
        }
        let mut wanted: HashMap<String, String> = HashMap::new();
        let said = &self.said;
        rewrite(recorded, &mut |path, literal| {
            if is_handle(path) && said.contains(literal) {
                wanted.insert(name(path), literal.to_string());
            }
            None
        });
        if wanted.is_empty() {
            return;
        }
        let map = &mut self.live;
        rewrite(live, &mut |path, literal| {
            if let Some(before) = wanted.get(&name(path))
                && before != literal
                && literal.starts_with('"')
            {
                map.insert(before.clone(), literal.to_string());
            }
            None
        });
    }

    /// The live literal for a recorded one.
    pub fn live(&self, recorded: &str) -> Option<&String> {
        self.live.get(recorded)
    }

    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }
}

/// Something the server hands out to be handed back: an id, a cursor, a token, a state.
fn is_handle(path: &[Step<'_>]) -> bool {
    let in_list = path.iter().any(|step| matches!(step, Step::Index(_)));
    let Some(Step::Key(key)) = path.last().filter(|_| path.len() > 1 && !in_list) else { return false };
    let named = ["id", "cursor", "nextCursor", "token", "requestState"].contains(key);
    named || ["Id", "_id", "Token", "_token", "/subscriptionId"].iter().any(|ending| key.ends_with(ending))
}

fn name(path: &[Step<'_>]) -> String {
    let mut name = String::new();
    for step in path {
        name.push('/');
        match step {
            Step::Key(key) => name.push_str(key),
            Step::Index(index) => name.push_str(&index.to_string()),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{Message, Unreadable};

    #[test]
    fn what_the_client_hands_back_is_learned_and_nothing_else() {
        let line = |from, body: &str| Line {
            seq: 1,
            at: 0,
            carrier: None,
            from,
            message: Message::unreadable(Unreadable::BadJson),
            body: Some(body.to_string()),
            batch: None,
        };
        let lines = [
            line(Side::Server, r#"{"id":1,"result":{"taskId":"task-17","when":"noon"}}"#),
            line(Side::Client, r#"{"id":2,"method":"tasks/get","params":{"taskId":"task-17"}}"#),
        ];
        let mut values = Values::of(&lines);
        values.learn(lines[0].body.as_ref().unwrap(), r#"{"id":1,"result":{"taskId":"task-99","when":"night"}}"#);
        assert_eq!(values.live("\"task-17\"").map(String::as_str), Some("\"task-99\""));
        assert_eq!(values.live("\"noon\""), None);
    }

    #[test]
    fn names_and_places_in_lists_are_not_handles() {
        let line = |from, body: &str| Line {
            seq: 1,
            at: 0,
            carrier: None,
            from,
            message: Message::unreadable(Unreadable::BadJson),
            body: Some(body.to_string()),
            batch: None,
        };
        let lines = [
            line(
                Side::Server,
                r#"{"id":1,"result":{"tools":[{"name":"hangs_forever","id":"tool-1"}],"title":"hangs_forever"}}"#,
            ),
            line(
                Side::Client,
                r#"{"id":2,"method":"tools/call","params":{"name":"hangs_forever","arguments":{"id":"tool-1"}}}"#,
            ),
        ];
        let mut values = Values::of(&lines);
        values.learn(
            lines[0].body.as_ref().unwrap(),
            r#"{"id":1,"result":{"tools":[{"name":"slow","id":"tool-9"}],"title":"slow-title"}}"#,
        );
        assert!(values.is_empty());
    }
}
