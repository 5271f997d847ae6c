//! Loads the one session a command names, whole: from the store or from a recording file.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use super::open::{self, Place, Reader};
use super::place::StorePlace;
use crate::error::{Doing, Error, Result};
use crate::event::{Bodies, Collected, Event, Recording, Session, Span};
use crate::fixture;
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
    let input = match file {
        "-" => {
            let mut all = Vec::new();
            std::io::stdin().lock().read_to_end(&mut all).doing("reading the recording from stdin")?;
            if all.starts_with(fixture::HEADING.as_bytes()) {
                return from_transcript("stdin", &String::from_utf8_lossy(&all));
            }
            let size = all.len() as u64;
            Input::from_reader("stdin", Box::new(std::io::Cursor::new(all)), Some(size))?
        }
        _ if has_heading(path) => {
            return from_transcript(file, &std::fs::read_to_string(path).doing(format!("reading {file}"))?);
        }
        _ => Input::open(path)?,
    };
    import::read(input, &Options::default(), &mut next_key, &mut kept)?;
    pick(kept, file, number)
}

/// A recording that `rpctap fixture` wrote.
pub fn has_heading(path: &Path) -> bool {
    let mut head = vec![0; fixture::HEADING.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == fixture::HEADING.as_bytes()
}

fn from_transcript(name: &str, text: &str) -> Result<Collected> {
    let mut kept = fixture::read(text).doing(format!("reading {name}"))?;
    let file = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for session in &mut kept.sessions {
        session.name = file.clone();
    }
    Ok(kept)
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

pub fn recording_of(mut kept: Collected) -> Recording {
    let session = kept.sessions[0].clone();
    let mut recording = Recording::new(&session);
    for event in std::mem::take(&mut kept.events) {
        recording.take(&event, &mut kept);
    }
    recording
}
