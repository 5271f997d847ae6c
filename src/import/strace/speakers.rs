//! Whose descriptors 0 and 1 carry the conversation.
//!
//! A trace with `-f` shows every child, and the client itself when it started the server: all of them have a descriptor 1.
//! Those that speak are told by their first text, which begins like JSON-RPC does. They are known by what the descriptor
//! leads to where the trace says so (`-y`), else by process or thread. What others say is passed over and counted; what
//! one said before it first spoke is given back then, as a server that prints a greeting is worth knowing.

use std::collections::{HashMap, HashSet};

use crate::event::Side;

/// Threads and processes followed at one time: far more than a traced server has.
const MOST_FOLLOWED: usize = 10_000;

/// What is kept of somebody who has not spoken yet: a greeting, not the output of a compiler.
const LONGEST_EARLY_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Who {
    /// What `-y` prints for the descriptor.
    Target(String),
    Process(u64),
}

#[derive(Default)]
pub(super) struct Speakers {
    /// Threads whose process is known.
    processes: HashMap<u64, u64>,
    speaking: HashSet<(Who, Side)>,
    early: HashMap<(Who, Side), Vec<u8>>,
    /// By side: whether the last text ended where a message may end.
    mid_message: [bool; 2],
}

/// What to do with a text.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// Of the conversation; what its speaker said earlier comes first.
    Said(Vec<u8>),
    PassedOver,
}

impl Speakers {
    pub(super) fn thread_of(&mut self, thread: u64, parent: u64) {
        if self.processes.len() < MOST_FOLLOWED {
            let process = self.process(parent);
            self.processes.insert(thread, process);
        }
    }

    /// Another program from here on: what this one said is not its own.
    pub(super) fn executes(&mut self, thread: u64) {
        let process = Who::Process(self.process(thread));
        self.early.retain(|(who, _), _| *who != process);
    }

    fn process(&self, thread: u64) -> u64 {
        self.processes.get(&thread).copied().unwrap_or(thread)
    }

    fn who(&self, thread: u64, target: Option<&str>) -> Who {
        match target {
            Some(target) => Who::Target(target.to_string()),
            None => Who::Process(self.process(thread)),
        }
    }

    pub(super) fn speaks(&self, thread: u64, target: Option<&str>, from: Side) -> bool {
        self.speaking.contains(&(self.who(thread, target), from))
    }

    pub(super) fn hear(&mut self, thread: u64, target: Option<&str>, from: Side, text: &[u8], cut: bool) -> Heard {
        let key = (self.who(thread, target), from);
        let begins = begins_a_message(text);
        let known = self.speaking.contains(&key);
        // Another thread may go on with what one began.
        if !known && !begins && !self.mid_message[from as usize] {
            if self.early.len() < MOST_FOLLOWED || self.early.contains_key(&key) {
                let early = self.early.entry(key).or_default();
                early.extend_from_slice(&text[..text.len().min(LONGEST_EARLY_BYTES.saturating_sub(early.len()))]);
            }
            return Heard::PassedOver;
        }
        self.mid_message[from as usize] = !cut && !matches!(text.last(), None | Some(b'\n' | b'}' | b']'));
        if known || !begins {
            return Heard::Said(Vec::new());
        }
        let early = self.early.remove(&key).unwrap_or_default();
        if self.speaking.len() < MOST_FOLLOWED {
            self.speaking.insert(key);
        }
        Heard::Said(early)
    }

    /// How many were passed over, for the report's reader.
    pub(super) fn passed_over(&self) -> usize {
        let all: HashSet<&Who> = self.early.keys().map(|(who, _)| who).collect();
        all.len()
    }
}

fn begins_a_message(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    let framed = text.len() >= 8 && text[..8].eq_ignore_ascii_case(b"content-");
    framed || matches!(text.first(), Some(b'{')) || text.starts_with(b"[{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_and_clients_are_passed_over() {
        let mut speakers = Speakers::default();
        let said = || Heard::Said(Vec::new());
        assert_eq!(speakers.hear(1, None, Side::Server, b"3.11.7\n", false), Heard::PassedOver);
        assert_eq!(speakers.hear(2, None, Side::Server, b"{\"id\":1}\n", false), said());
        assert_eq!(speakers.hear(3, None, Side::Server, b"git version\n", false), Heard::PassedOver);
        assert_eq!(
            speakers.hear(2, None, Side::Server, b"oops\n", false),
            said(),
            "what a speaker prints is its own fault"
        );
        assert_eq!(speakers.passed_over(), 2);
        assert!(speakers.speaks(2, None, Side::Server) && !speakers.speaks(2, None, Side::Client));
    }

    #[test]
    fn a_greeting_is_given_back_and_another_thread_may_go_on() {
        let mut speakers = Speakers::default();
        assert_eq!(speakers.hear(1, None, Side::Server, b"ready\n", false), Heard::PassedOver);
        assert_eq!(speakers.hear(1, None, Side::Server, b"{\"id\":1,\"res", false), Heard::Said(b"ready\n".to_vec()));
        assert_eq!(speakers.hear(4, None, Side::Server, b"ult\":0}\n", false), Heard::Said(Vec::new()));
        assert_eq!(speakers.passed_over(), 0);
    }

    #[test]
    fn what_a_descriptor_leads_to_says_more_than_who_uses_it() {
        let mut speakers = Speakers::default();
        let (ours, other) = (Some("pipe:[3]"), Some("pipe:[4]"));
        assert_eq!(speakers.hear(1, ours, Side::Server, b"{}\n", false), Heard::Said(Vec::new()));
        assert_eq!(speakers.hear(2, ours, Side::Server, b"oops\n", false), Heard::Said(Vec::new()));
        assert_eq!(speakers.hear(1, other, Side::Server, b"oops\n", false), Heard::PassedOver);
        speakers.thread_of(9, 8);
        assert_eq!(speakers.hear(8, None, Side::Client, b"{}\n", false), Heard::Said(Vec::new()));
        assert!(speakers.speaks(9, None, Side::Client));
    }
}
