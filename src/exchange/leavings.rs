//! What is left beside requests when a session is judged: tokens, tasks and HTTP exchanges that are still open.

use crate::event::Micros;

use super::ending::{Carried, End, FACTS_AT_A_TIME, Finish};
use super::examples::Telling;
use super::fact::Fact;
use super::fold::Fold;
use super::let_go_work::Named;
use super::progress::Work;
use super::{StreamEnd, TokenEnd};

pub(super) type WorksLeft = (Telling<Named<Work>>, std::vec::IntoIter<(u64, Box<str>)>);

impl Fold {
    /// When the requests are told: tokens, tasks and HTTP exchanges.
    pub(super) fn finish_rest(&mut self, finish: &mut Finish, facts: &mut Vec<Fact>) -> bool {
        let Finish { as_of, end, .. } = *finish;
        let until = end.mark().map_or(as_of, |mark| mark.at);
        let mut works = finish.works.take().unwrap_or_else(|| self.works_left());
        let mut tasks = finish.tasks.take().unwrap_or_else(|| self.tasks_left());
        let mut streams = finish.streams.take().unwrap_or_else(|| {
            let mut numbers: Vec<(u64, Carried)> = std::mem::take(&mut finish.carried).into_iter().collect();
            numbers.sort_unstable_by_key(|(number, _)| *number);
            numbers.into_iter()
        });
        let more = (0..FACTS_AT_A_TIME).all(|_| {
            self.work_left(&mut works, until, end, facts)
                || self.task_left(&mut tasks, until, end != End::No, facts)
                || self.stream_left(&mut streams, as_of, end, facts)
        });
        (finish.works, finish.tasks, finish.streams) = (Some(works), Some(tasks), Some(streams));
        more
    }

    fn works_left(&mut self) -> WorksLeft {
        let mut names: Vec<(u64, Box<str>)> =
            self.works.iter().map(|(name, work)| (work.opened.seq, name.clone())).collect();
        names.sort_unstable();
        (self.let_go_works.examples.tell(), names.into_iter())
    }

    /// Tells of the next token that is left; says whether there was one.
    fn work_left(&mut self, left: &mut WorksLeft, until: Micros, end: End, facts: &mut Vec<Fact>) -> bool {
        let (name, work) = if let Some(Named { name, what }) = left.0.next() {
            (name, what)
        } else {
            let Some((_, name)) = left.1.next() else { return false };
            let Some(work) = self.works.remove(&name) else { return true };
            (name, work)
        };
        let told = match work.begun {
            None => TokenEnd::NeverBegun,
            Some(_) if end == End::No => TokenEnd::Open,
            Some(_) => TokenEnd::NeverEnded,
        };
        self.work_over(&name, work, told, None, until, facts);
        true
    }

    fn stream_left(
        &mut self,
        left: &mut std::vec::IntoIter<(u64, Carried)>,
        as_of: Micros,
        end: End,
        facts: &mut Vec<Fact>,
    ) -> bool {
        let Some((number, Carried { unanswered, outlives_a_cancel })) = left.next() else { return false };
        let Some(carrier) = self.carriers.remove(&number) else { return true };
        let drained = end.mark().is_some_and(|mark| as_of - mark.at > self.limits.drain_ms as Micros * 1000);
        let end = if outlives_a_cancel || (drained && self.knows.ends) { StreamEnd::LeftOpen } else { StreamEnd::Open };
        self.stream_over(number, &carrier, end, None, unanswered, facts);
        true
    }
}
