//! Which transcriber reads a spool that a dead tap left beside the store.

use crate::event::SessionKey;
use crate::event::stdio::StdioScribe;
use crate::event::tape::Transcriber;
use crate::store::recorder::Heading;
use crate::store::spooled::Standing;

pub fn revive(heading: &Heading, key: SessionKey, standing: Option<Standing>) -> Option<Box<dyn Transcriber>> {
    match heading.kind.as_str() {
        "stdio" => {
            let mut session = heading.session.clone()?;
            session.key = key;
            Some(Box::new(match standing {
                None => StdioScribe::new(session),
                Some(standing) => {
                    let tails = standing.streams.into_iter().map(|found| (found.stream, found.place, found.tail));
                    StdioScribe::resume(session, standing.last_seq, tails.collect())
                }
            }))
        }
        "http" => Some(Box::new(super::proxy::revive(heading, key))),
        _ => None,
    }
}
