//! Loads the one session a command names, whole: from the store or from a recording file.

use std::collections::HashSet;
use std::path::Path;

use super::open::{self, Place, Reader};
use super::place::StorePlace;
use crate::error::{Error, Result};
use crate::event::{Bodies, Collected, Event, Recording, Session, Span};
use crate::import::{self, Input, Options};
use crate::store::Store;

/// A number or name in the store, `last`, or a recording: `FILE`, or `FILE#2` for its second session.
pub fn load(place: &StorePlace, wanted: &str) -> Result<Recording> {
    let kept = collect(place, wanted)?;
    Ok(recording_of(kept))
}

/// The same with everything the session has: events, bytes and all.
pub fn collect(place: &StorePlace, wanted: &str) -> Result<Collected> {
    let (file, number) = match wanted.rsplit_once('#') {
        Some((file, number)) if !Path::new(wanted).exists() && number.parse::<usize>().is_ok() => {
            (file, number.parse().ok())
        }
        _ => (wanted, None),
    };
    let path = Path::new(file);
    if file != "-" && !path.is_file() {
        return from_store(&Store::open_readonly(&place.path()?)?, wanted);
    }
    if let Place::Store(store) = Place::of(path) {
        let wanted = number.map_or("last".to_string(), |number: usize| number.to_string());
        return from_store(&Store::open_readonly(&store)?, &wanted);
    }
    let mut kept = Collected::default();
    let mut next_key = 1;
    import::read(Input::open(path)?, &Options::default(), &mut next_key, &mut kept)?;
    pick(kept, file, number)
}

fn pick(mut kept: Collected, file: &str, number: Option<usize>) -> Result<Collected> {
    let with_messages: HashSet<_> =
        kept.events.iter().filter(|event| event.message().is_some()).map(|event| event.session).collect();
    kept.sessions.retain(|session| with_messages.contains(&session.key));
    let count = kept.sessions.len();
    let session = match number {
        Some(number) => number.checked_sub(1).and_then(|at| kept.sessions.get(at)).cloned().ok_or_else(|| {
            Error::new(format!("opening {file}: it has {count} sessions with messages, not {number}"))
        })?,
        None if count > 1 => {
            return Err(Error::new(format!(
                "opening {file}: it holds {count} sessions; name one as {file}#1 to {file}#{count}"
            )));
        }
        None => {
            kept.sessions.first().cloned().ok_or_else(|| Error::new(format!("opening {file}: it holds no message")))?
        }
    };
    kept.sessions = vec![session.clone()];
    kept.events.retain(|event| event.session == session.key);
    kept.streams.retain(|(key, _), _| *key == session.key);
    Ok(kept)
}

fn from_store(store: &Store, wanted: &str) -> Result<Collected> {
    struct Keeper(Collected);
    impl Reader for Keeper {
        fn session(&mut self, session: &Session) {
            self.0.sessions.push(session.clone());
        }

        fn event(&mut self, event: &Event, bodies: &mut dyn Bodies) {
            // Streams are copied as far as events point into them, with what stands between the messages.
            if let Some(span) = event.span() {
                let stream = self.0.streams.entry((event.session, span.stream)).or_default();
                let start = stream.len() as u64;
                let end = span.start.saturating_add(span.len);
                if end > start {
                    let rest = Span { stream: span.stream, start, len: end - start };
                    let bytes = bodies.read(event.session, rest, usize::MAX).unwrap_or_default();
                    stream.extend_from_slice(&bytes);
                    stream.resize(end as usize, b' ');
                }
            }
            self.0.events.push(event.clone());
        }
    }
    let mut keeper = Keeper(Collected::default());
    open::read_store(store, Some(wanted), &mut keeper)?;
    Ok(keeper.0)
}

fn recording_of(mut kept: Collected) -> Recording {
    let session = kept.sessions[0].clone();
    let mut recording = Recording::new(&session);
    for event in std::mem::take(&mut kept.events) {
        recording.take(&event, &mut kept);
    }
    recording
}
