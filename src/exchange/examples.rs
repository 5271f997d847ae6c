//! Many things alike, as few examples of them and how many each stands for.
//!
//! Comes in: things in the order of their time. Goes out: as many, each like its example and at its share of the time
//! between the first and the last. There are never more than some thousand examples: when there would be, each comes
//! to stand for twice as many.

use std::hash::Hash;
use std::mem;

use crate::event::Micros;

use super::hash::Map;

/// Enough that a curve of 512 points keeps its shape. Tests get by with fewer things.
const MOST_EXAMPLES: usize = if cfg!(test) { 64 } else { 1 << 13 };

/// What can be an example of others.
pub trait Kind {
    /// What the verdict on it hangs on, beside its time.
    type Alike: std::fmt::Debug + Eq + Hash;

    fn alike(&self) -> Self::Alike;
    fn at(&self) -> Micros;
    /// One like it that began later by so much, and what became of it.
    fn at_another_time(&self, later: Micros) -> Self;
}

#[derive(Debug)]
pub struct Example<T> {
    pub one: T,
    pub stands_for: u64,
    /// When the last of them began.
    last_at: Micros,
    told: u64,
}

impl<T: Kind> Example<T> {
    /// The next of those it stands for.
    fn one_more(&mut self) -> Option<T> {
        self.stands_for = self.stands_for.checked_sub(1)?;
        let last = self.told + self.stands_for;
        let span = i128::from(self.last_at - self.one.at()) * i128::from(self.told);
        self.told += 1;
        Some(self.one.at_another_time((span / i128::from(last.max(1))) as Micros))
    }
}

#[derive(Debug)]
pub struct Examples<T: Kind> {
    /// Oldest first.
    pub all: Vec<Example<T>>,
    latest: Map<T::Alike, usize>,
    /// How many an example may stand for.
    grain: u64,
    most: usize,
}

impl<T: Kind> Default for Examples<T> {
    fn default() -> Self {
        Examples { all: Vec::new(), latest: Map::default(), grain: 1, most: MOST_EXAMPLES }
    }
}

impl<T: Kind> Examples<T> {
    /// Says whether the examples have moved.
    pub fn add(&mut self, one: T) -> bool {
        self.join(Example { last_at: one.at(), one, stands_for: 1, told: 0 });
        let full = self.all.len() >= self.most;
        if full {
            self.thin();
        }
        full
    }

    fn join(&mut self, example: Example<T>) {
        let alike = example.one.alike();
        if let Some(place) = self.latest.get(&alike)
            && let known = &mut self.all[*place]
            && known.stands_for + example.stands_for <= self.grain
        {
            known.stands_for += example.stands_for;
            known.last_at = known.last_at.max(example.last_at);
            return;
        }
        self.latest.insert(alike, self.all.len());
        self.all.push(example);
    }

    /// Each example may stand for twice as many from now on.
    fn thin(&mut self) {
        self.grain *= 2;
        self.latest.clear();
        for example in mem::take(&mut self.all) {
            if example.stands_for > 0 {
                self.join(example);
            }
        }
        // Where all are different, to thin them again at once would be no use.
        self.most = MOST_EXAMPLES.max(2 * self.all.len());
    }
}

/// Tells the examples, each as often as it stands for one.
#[derive(Debug)]
pub struct Telling<T>(std::vec::IntoIter<Example<T>>);

impl<T: Kind> Examples<T> {
    pub fn tell(&mut self) -> Telling<T> {
        self.latest.clear();
        Telling(mem::take(&mut self.all).into_iter())
    }
}

impl<T: Kind> Iterator for Telling<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            match self.0.as_mut_slice().first_mut()?.one_more() {
                Some(one) => return Some(one),
                None => drop(self.0.next()),
            }
        }
    }
}
