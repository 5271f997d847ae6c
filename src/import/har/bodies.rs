//! Whether a HAR holds what was said at all: tools can be told to record exchanges without their bodies.

use std::collections::HashSet;

use super::entry::{Entry, missing};

/// So many sessions are told so each; one would do.
const MOST_TOLD: usize = 1_000;

/// What the entries read so far hold of what was said.
#[derive(Default)]
pub(super) struct Bodies {
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// Bodies that there were and that the file does not hold.
    pub(super) left_out: u64,
    /// Sessions of which it was told that their answers are not held.
    told: HashSet<Option<String>>,
}

impl Bodies {
    pub(super) fn see(&mut self, entry: &Entry) {
        let held = |text: &Option<String>, file: &Option<String>| {
            text.as_ref().is_some_and(|text| !text.is_empty()) || file.is_some()
        };
        let data = entry.request.post_data.as_ref();
        self.asked += u64::from(data.is_some_and(|data| held(&data.text, &data.file)));
        let content = entry.response.as_ref().and_then(|response| response.content.as_ref());
        let answered = content.is_some_and(|content| held(&content.text, &content.file));
        self.answered += u64::from(answered || !entry.web_socket.is_empty());
        let unheld = !answered && content.and_then(|content| content.size).is_some_and(|size| size >= 1.0);
        self.left_out += u64::from(missing(&entry.request).is_some() && data.is_none_or(|data| data.file.is_none()));
        self.left_out += u64::from(unheld);
    }

    /// Whether a session has yet to be told that its answers are not held.
    pub(super) fn is_new(&mut self, session: Option<&str>) -> bool {
        self.told.len() < MOST_TOLD && self.told.insert(session.map(str::to_string))
    }
}
