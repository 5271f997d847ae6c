//! More tasks, turns and progress tokens than can be followed by name: the oldest are let go, and counted.
//!
//! As with requests (`let_go`), what is alike becomes an example and a number. News under a name that nobody else has
//! is taken for news of the oldest of them, which is followed by that name from then on.

use crate::event::{Micros, Side};
use crate::rpc::Name;

use super::examples::{Examples, Kind};
use super::fold::Fold;
use super::hash::Map;
use super::progress::Work;
use super::tasks::Doing;

/// Tasks followed by name, and tokens: some fifteen megabytes of each.
const MOST_NAMED: usize = if cfg!(test) { 128 } else { 1 << 15 };

/// Something with a name.
#[derive(Debug)]
pub struct Named<T> {
    pub name: Box<str>,
    pub what: T,
}

#[derive(Debug)]
pub struct LetGoOf<T>
where
    Named<T>: Kind,
{
    pub examples: Examples<Named<T>>,
    first: usize,
    pub count: u64,
}

impl<T> Default for LetGoOf<T>
where
    Named<T>: Kind,
{
    fn default() -> Self {
        LetGoOf { examples: Examples::default(), first: 0, count: 0 }
    }
}

impl<T: Clone> LetGoOf<T>
where
    Named<T>: Kind,
{
    /// Lets half of what is open go, when it is too much; `seq` tells which is older.
    pub fn lighten(&mut self, open: &mut Map<Box<str>, T>, seq: impl Fn(&T) -> u64) {
        if open.len() <= MOST_NAMED {
            return;
        }
        let mut names: Vec<(u64, Box<str>)> = open.iter().map(|(name, what)| (seq(what), name.clone())).collect();
        names.sort_unstable();
        for (_, name) in names.drain(..MOST_NAMED / 2) {
            if let Some(what) = open.remove(&name) {
                self.count += 1;
                if self.examples.add(Named { name, what }) {
                    self.first = 0;
                }
            }
        }
    }

    /// The oldest of those that were let go.
    fn recall(&mut self) -> Option<T> {
        let all = &mut self.examples.all;
        self.first += all.iter().skip(self.first).take_while(|example| example.stands_for == 0).count();
        let example = all.get_mut(self.first)?;
        example.stands_for -= 1;
        Some(example.one.what.clone())
    }
}

impl Fold {
    /// How many tasks and tokens were let go.
    pub fn let_go_by_name(&self) -> [u64; 2] {
        [self.tasks.let_go.count, self.let_go_works.count]
    }

    /// A task of this name is spoken of: it may be one that was let go.
    pub(super) fn recall_task(&mut self, name: &str) {
        if self.tasks.let_go.count > 0
            && !self.tasks.open.contains_key(name)
            && self.tasks.ended(name).is_none()
            && let Some(doing) = self.tasks.let_go.recall()
        {
            self.tasks.open.insert(name.into(), doing);
        }
    }

    /// Likewise of a token.
    pub(super) fn recall_work(&mut self, token: &str) {
        if self.let_go_works.count > 0
            && !self.works.contains_key(token)
            && let Some(work) = self.let_go_works.recall()
        {
            self.works.insert(token.into(), work);
        }
    }
}

impl Kind for Named<Doing> {
    type Alike = (Side, Name, Option<Name>, &'static str, [bool; 4], [u64; 2]);

    fn alike(&self) -> Self::Alike {
        let doing = &self.what;
        let marks = [doing.turn, doing.fetching, doing.cancel.is_some(), doing.looked_at.is_some()];
        let times = [doing.ttl_ms, doing.poll_ms].map(|millis| millis.map_or(u64::MAX, f64::to_bits));
        (doing.asked_by, doing.method.clone(), doing.tool.clone(), doing.state, marks, times)
    }

    fn at(&self) -> Micros {
        self.what.opened.at
    }

    fn at_another_time(&self, later: Micros) -> Self {
        let mut what = self.what.clone();
        what.opened.at += later;
        what.changed_at += later;
        what.looked_at.iter_mut().for_each(|mark| mark.at += later);
        what.cancel.iter_mut().for_each(|(mark, _)| mark.at += later);
        Named { name: self.name.clone(), what }
    }
}

impl Kind for Named<Work> {
    type Alike = (Side, bool, bool);

    fn alike(&self) -> Self::Alike {
        (self.what.opened_by, self.what.begun.is_some(), self.what.cancel.is_some())
    }

    fn at(&self) -> Micros {
        self.what.opened.at
    }

    fn at_another_time(&self, later: Micros) -> Self {
        let mut what = self.what.clone();
        what.opened.at += later;
        what.last_at += later;
        what.begun.iter_mut().for_each(|mark| mark.at += later);
        what.cancel.iter_mut().for_each(|mark| mark.at += later);
        Named { name: self.name.clone(), what }
    }
}
