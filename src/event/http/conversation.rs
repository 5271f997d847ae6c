//! Which carriers belong together.
//!
//! By the id the server gave (`Mcp-Session-Id`, hashed), by the endpoint of the older transport, else by connection
//! and client. Knows each open conversation and its scribe; what has ended is forgotten after a while, and so is
//! the least used when there are too many: what comes later under its id begins a new session.

use std::collections::{HashMap, VecDeque};

use crate::event::scribe::Scribe;
use crate::event::{Happening, Micros, Session, SessionKey, Sink};

use super::HttpSetup;
use super::head::RequestHead;
use super::secrets::Secrets;

/// Ended conversations that are still known, for what comes late.
const MOST_ENDED: usize = 256;

/// A server may open a session for every request and never end one. Each costs less than a kilobyte here.
const MOST_CONVERSATIONS: usize = 20_000;

/// With so many, each gives back what it does not need at the moment.
const MANY: usize = 1_000;

/// Connections whose conversation is remembered.
const MOST_CONNECTIONS: usize = 8192;

/// Redirects that nobody has followed yet, and how long one may take: clients follow at once or not at all.
const MOST_REDIRECTED: usize = 256;
const LONGEST_DETOUR_MICROS: Micros = 30_000_000;

pub(super) struct Conversation {
    pub(super) scribe: Scribe,
    pub(super) next_carrier: u64,
    pub(super) open_carriers: u64,
    pub(super) ended: bool,
    /// It ended because the server does not know its id any more.
    pub(super) missing: bool,
    /// Where its requests are posted, once one was accepted there.
    pub(super) endpoint: Option<String>,
    /// Under which it is known, hashed.
    ids: Vec<Box<str>>,
    used: u64,
}

pub(super) struct Conversations {
    first_session: SessionKey,
    next_session: SessionKey,
    opened: u64,
    uses: u64,
    all: HashMap<SessionKey, Box<Conversation>>,
    by_id: HashMap<Box<str>, SessionKey>,
    by_endpoint: HashMap<Box<str>, SessionKey>,
    by_client: HashMap<Box<str>, SessionKey>,
    by_connection: HashMap<u64, SessionKey>,
    connections: VecDeque<u64>,
    ended: VecDeque<SessionKey>,
    redirected: VecDeque<Redirected>,
    /// With so many, the next looks for those that can be forgotten.
    most: usize,
}

/// The first request of a conversation was sent somewhere else by HTTP, and will come again.
struct Redirected {
    client: Box<str>,
    connection: u64,
    /// Without secrets; none where it is not a whole path.
    target: Option<String>,
    at: Micros,
    session: SessionKey,
}

/// The path and query of what may be a whole URL.
fn path_of(url: &str) -> &str {
    match url.find("://").and_then(|scheme| url[scheme + 3..].find('/').map(|at| scheme + 3 + at)) {
        Some(at) => &url[at..],
        None => url,
    }
}

impl Conversations {
    pub(super) fn new(first: SessionKey) -> Conversations {
        Conversations {
            first_session: first,
            next_session: first,
            opened: 0,
            uses: 0,
            all: HashMap::new(),
            by_id: HashMap::new(),
            by_endpoint: HashMap::new(),
            by_client: HashMap::new(),
            by_connection: HashMap::new(),
            connections: VecDeque::new(),
            ended: VecDeque::new(),
            redirected: VecDeque::new(),
            most: MOST_CONVERSATIONS,
        }
    }

    pub(super) fn next_session(&self) -> SessionKey {
        self.next_session
    }

    /// The conversation a head names by itself.
    pub(super) fn known(&self, head: &RequestHead) -> Option<SessionKey> {
        let named = head.session_id.as_deref().and_then(|id| self.by_id.get(id));
        let found = named.or_else(|| match head.session_id {
            Some(_) => None,
            None => {
                let by_query = || head.query_session.as_deref().and_then(|id| self.by_endpoint.get(id));
                self.by_endpoint.get(head.target.as_str()).or_else(by_query)
            }
        });
        found.copied().filter(|session| self.all.contains_key(session))
    }

    /// The conversation of this client, where the head names none.
    pub(super) fn of_client(&self, head: &RequestHead) -> Option<SessionKey> {
        if head.session_id.is_some() {
            return None;
        }
        let on_line = self.by_connection.get(&head.connection).filter(|_| head.connection != 0);
        on_line
            .or_else(|| self.by_client.get(head.client.as_str()))
            .copied()
            .filter(|session| self.all.contains_key(session))
    }

    /// `late`: the conversation began before we listened, so its beginning is not told.
    pub(super) fn open(&mut self, setup: &HttpSetup, at: Micros, late: bool, sink: &mut dyn Sink) -> SessionKey {
        self.make_room(sink);
        let key = self.next_session;
        self.next_session += 1;
        self.opened += 1;
        let name = match self.opened {
            1 => setup.name.clone(),
            number => format!("{}-{number}", setup.name),
        };
        sink.session(&Session {
            key,
            name,
            source: setup.source.clone(),
            target: setup.target.clone(),
            started_at: at,
            knows: setup.knows,
        });
        let mut scribe = Scribe::new(key);
        if !late {
            scribe.happening(at, None, Happening::Opened { pid: None }, sink);
        }
        let conversation = Conversation {
            scribe,
            next_carrier: 1,
            open_carriers: 0,
            ended: false,
            missing: false,
            endpoint: None,
            ids: Vec::new(),
            used: self.uses,
        };
        self.all.insert(key, Box::new(conversation));
        key
    }

    /// Tells what was lost since it began, in a conversation that has just shown; of one that does not begin with its
    /// beginning anything that was lost before may be a part.
    pub(super) fn lacks(
        &mut self,
        session: SessionKey,
        lost: &Option<(Micros, Happening)>,
        (at, late): (Micros, bool),
        sink: &mut dyn Sink,
    ) {
        if let (Some((lost_at, lost)), Some(conversation)) = (lost, self.all.get_mut(&session))
            && (late || *lost_at >= at)
        {
            conversation.scribe.happening(at, None, lost.clone(), sink);
        }
    }

    pub(super) fn get(&mut self, session: SessionKey) -> Option<&mut Conversation> {
        self.uses += 1;
        let conversation = self.all.get_mut(&session)?;
        conversation.used = self.uses;
        Some(conversation)
    }

    /// The last exchange of a conversation is over, for now.
    pub(super) fn rests(&mut self, session: SessionKey) {
        let many = self.all.len() > MANY;
        if let Some(conversation) = self.all.get_mut(&session)
            && many
            && conversation.open_carriers == 0
        {
            conversation.scribe.rest();
        }
    }

    pub(super) fn bind_id(&mut self, id: &str, session: SessionKey) {
        let bound = self.by_id.get(id).is_some_and(|known| self.all.contains_key(known));
        if !bound && let Some(conversation) = self.all.get_mut(&session) {
            conversation.ids.push(id.into());
            self.by_id.insert(id.into(), session);
        }
    }

    /// `endpoint` is what the event stream said: a path or a URL, with the session's id in it.
    pub(super) fn bind_endpoint(&mut self, secrets: &Secrets, endpoint: &str, session: SessionKey) {
        let path = path_of(endpoint);
        if let Some(id) = secrets.session_of_target(path) {
            self.by_endpoint.insert(id.into(), session);
        }
        self.by_endpoint.insert(secrets.target(path).into(), session);
    }

    pub(super) fn redirected(
        &mut self,
        secrets: &Secrets,
        head: &RequestHead,
        location: &str,
        at: Micros,
        session: SessionKey,
    ) {
        let path = path_of(location);
        self.redirected.push_back(Redirected {
            client: head.client.as_str().into(),
            connection: head.connection,
            target: path.starts_with('/').then(|| secrets.target(path).into_owned()),
            at,
            session,
        });
        if self.redirected.len() > MOST_REDIRECTED {
            self.redirected.pop_front();
        }
    }

    /// The conversation that this `initialize` goes on with, having been sent here by a redirect.
    pub(super) fn follows_redirect(&mut self, head: &RequestHead, at: Micros) -> Option<SessionKey> {
        let fits = |known: &Redirected| {
            *known.client == *head.client
                && known.target.as_ref().is_none_or(|target| *target == head.target)
                && !head.upgrades
                && at - known.at <= LONGEST_DETOUR_MICROS
        };
        let same_line = |known: &Redirected| known.connection == head.connection && head.connection != 0;
        let place = (self.redirected.iter().position(|known| fits(known) && same_line(known)))
            .or_else(|| self.redirected.iter().position(fits))?;
        let session = self.redirected.remove(place)?.session;
        self.all.contains_key(&session).then_some(session)
    }

    pub(super) fn bind_client(&mut self, head: &RequestHead, session: SessionKey) {
        if head.session_id.is_some() {
            return;
        }
        self.by_client.insert(head.client.as_str().into(), session);
        if head.connection != 0 && self.by_connection.insert(head.connection, session).is_none() {
            self.connections.push_back(head.connection);
            if self.connections.len() > MOST_CONNECTIONS
                && let Some(oldest) = self.connections.pop_front()
            {
                self.by_connection.remove(&oldest);
            }
        }
    }

    pub(super) fn ended(&mut self, session: SessionKey, sink: &mut dyn Sink) {
        self.ended.push_back(session);
        if self.ended.len() > MOST_ENDED
            && let Some(oldest) = self.ended.pop_front()
            && self.all.get(&oldest).is_some_and(|conversation| conversation.ended && conversation.open_carriers == 0)
            && let Some(conversation) = self.all.remove(&oldest)
        {
            for id in &conversation.ids {
                if self.by_id.get(id) == Some(&oldest) {
                    self.by_id.remove(id);
                }
            }
            self.over(oldest, sink);
        }
    }

    /// The first stands for the whole run, and is remembered.
    fn over(&self, session: SessionKey, sink: &mut dyn Sink) {
        if session != self.first_session {
            sink.over(session);
        }
    }

    /// Those that have not ended, in the order they began.
    pub(super) fn open_ones(&mut self) -> impl Iterator<Item = &mut Conversation> {
        let mut open: Vec<_> = self.all.iter_mut().filter(|(_, conversation)| !conversation.ended).collect();
        open.sort_unstable_by_key(|(key, _)| **key);
        open.into_iter().map(|(_, conversation)| &mut **conversation)
    }

    /// The open ones; where there is none and `ended_too`, the one that was used last.
    pub(super) fn open_or_last(&mut self, ended_too: bool) -> Vec<&mut Conversation> {
        let any = self.all.values().any(|conversation| !conversation.ended);
        if any || !ended_too {
            return self.open_ones().collect();
        }
        self.all.values_mut().max_by_key(|conversation| conversation.used).map(|last| &mut **last).into_iter().collect()
    }

    pub(super) fn clear(&mut self) {
        let next = (self.next_session, self.opened);
        *self = Conversations::new(next.0);
        self.opened = next.1;
    }

    fn make_room(&mut self, sink: &mut dyn Sink) {
        if self.all.len() < self.most {
            return;
        }
        let mut ages: Vec<u64> = self.all.values().map(|conversation| conversation.used).collect();
        ages.sort_unstable();
        let young = ages[ages.len() / 2];
        let stays = |conversation: &Conversation| conversation.used >= young || conversation.open_carriers > 0;
        let first = self.first_session;
        self.all.retain(|key, conversation| {
            if !stays(conversation) && *key != first {
                sink.over(*key);
            }
            stays(conversation)
        });
        let all = &self.all;
        self.by_id.retain(|_, session| all.contains_key(session));
        self.by_endpoint.retain(|_, session| all.contains_key(session));
        self.by_client.retain(|_, session| all.contains_key(session));
        // Where exchanges are open in all of them, a look at each new one would take longer and longer.
        self.most = MOST_CONVERSATIONS.max(2 * self.all.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Knows, Source, StreamId};

    /// Hears which sessions are over.
    #[derive(Default)]
    struct Overs(Vec<SessionKey>);

    impl Sink for Overs {
        fn session(&mut self, _: &Session) {}
        fn bytes(&mut self, _: SessionKey, _: StreamId, _: &[u8]) {}
        fn event(&mut self, _: Event) {}
        fn over(&mut self, session: SessionKey) {
            self.0.push(session);
        }
    }

    fn opened(count: usize, overs: &mut Overs) -> Conversations {
        let setup = HttpSetup {
            name: "up".to_string(),
            source: Source::Http,
            target: "http://up".to_string(),
            knows: Knows::ALL,
            only_rpc: false,
            first_session: 1,
            secret: [3; 32],
        };
        let mut all = Conversations::new(1);
        for _ in 0..count {
            let session = all.open(&setup, 0, false, overs);
            all.get(session);
            all.bind_id(&format!("id-{session}"), session);
        }
        all
    }

    #[test]
    fn many_conversations_take_little_room() {
        assert!(size_of::<Conversation>() <= 512, "{}", size_of::<Conversation>());
    }

    #[test]
    fn what_has_ended_is_known_for_a_while_and_then_over() {
        let mut overs = Overs::default();
        let count = MOST_ENDED + 3;
        let mut all = opened(count, &mut overs);
        for session in 1..=count as SessionKey {
            all.get(session).expect("known").ended = true;
            all.ended(session, &mut overs);
        }
        // The first stands for the run.
        assert_eq!(overs.0, [2, 3]);
        assert_eq!((all.all.len(), all.by_id.len()), (MOST_ENDED, MOST_ENDED));
    }

    #[test]
    fn of_too_many_the_least_used_are_over_unless_something_is_open_in_them() {
        let mut overs = Overs::default();
        let mut all = opened(MOST_CONVERSATIONS, &mut overs);
        all.all.get_mut(&7).expect("known").open_carriers = 1;
        all.get(9);
        assert!(overs.0.is_empty());
        let mut more = Overs::default();
        all.make_room(&mut more);
        assert!(!more.0.contains(&1) && !more.0.contains(&7) && !more.0.contains(&9));
        assert_eq!(more.0.len(), MOST_CONVERSATIONS / 2 - 2);
        assert_eq!(all.by_id.len(), all.all.len());
    }
}
