#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use rpctap::event::{Event, Session, SessionKey, Sink, StreamId};
use rpctap::import::{IMPORTERS, Input, Options, read};

/// Holds an importer to what a sink asks of it.
#[derive(Default)]
struct Checking {
    sessions: HashMap<SessionKey, u64>,
    lengths: HashMap<(SessionKey, StreamId), u64>,
}

impl Sink for Checking {
    fn session(&mut self, session: &Session) {
        assert!(self.sessions.insert(session.key, 0).is_none());
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        assert!(self.sessions.contains_key(&session));
        *self.lengths.entry((session, stream)).or_default() += bytes.len() as u64;
    }

    fn event(&mut self, event: Event) {
        let last = self.sessions.get_mut(&event.session).expect("its session came before");
        *last += 1;
        assert_eq!(event.seq, *last);
        if let Some(span) = event.span().filter(|span| span.len > 0) {
            let length = self.lengths.get(&(event.session, span.stream)).copied().unwrap_or(0);
            assert!(span.start.checked_add(span.len).is_some_and(|end| end <= length));
        }
    }
}

// The first byte picks the importer, the rest is the file.
fuzz_target!(|data: &[u8]| {
    let Some((pick, file)) = data.split_first() else { return };
    let format = IMPORTERS.get(*pick as usize).map(|importer| importer.name().to_string());
    let options = Options { format, ..Options::default() };
    if let Ok(input) = Input::from_reader("fuzz", Box::new(std::io::Cursor::new(file.to_vec())), None) {
        let _ = read(input, &options, &mut 1, &mut Checking::default());
    }
});
