//! What was open and what leaked, over time, in bounded memory.
//!
//! Comes in: that a request or task was opened and closed, that something leaked, that a gauge was read; in the
//! order of events. Goes out: [`Point`]s at most a few hundred in number, whether the session took a second or a
//! week: when there would be too many buckets, each becomes twice as wide. Only buckets in which something
//! happened are kept, so a short session costs little. A leak is known late and counts from when it was opened,
//! so that the curve shows when it happened; the live view counts it from when it became certain ([`View`]).
//! This file refuses to judge what is a leak.

use std::collections::BTreeMap;

use crate::event::Micros;

use super::Latency;
pub use super::leak::{Leak, LeakKind, Track, View};

/// Buckets a series may have: enough for a picture 800 pixels wide, little enough to keep for each session.
pub const MOST_BUCKETS: u64 = 512;
/// Methods and tools told apart among the leaks. What a hostile peer names beyond these counts under `…`.
const MOST_CARRIERS: usize = 256;
/// The name under which the carriers beyond [`MOST_CARRIERS`] are counted.
pub const OTHER_CARRIERS: &str = "…";

/// The lowest, highest and last value within a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Level {
    pub low: u64,
    pub high: u64,
    pub last: u64,
}

#[derive(Debug, Clone, Default)]
struct Bucket {
    index: u64,
    levels: [Level; 3],
    /// Requests of both sides.
    asked: u64,
    /// Opened here, not closed so far and not (yet) told as leaked.
    unclosed: [u64; 3],
    /// Opened here, and nothing can be said of its staying open.
    excused: u64,
    leaked: [u64; 8],
    certain: [u64; 8],
}

/// Readings of one gauge within a bucket.
#[derive(Debug, Clone, Copy)]
struct Reading {
    index: u64,
    sum: f64,
    count: u64,
    last: f64,
}

/// How much of the growth one method or tool carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carrier {
    pub method: String,
    pub tool: Option<String>,
    pub leaked: u64,
}

/// The series at one moment: the end of a bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub at: Micros,
    /// By [`Track`].
    pub open: [Level; 3],
    /// Requests asked within the bucket.
    pub asked: u64,
    /// So far, by [`LeakKind`], in the view asked for.
    pub leaked: [u64; 8],
    /// Opened so far and never closed, as far as the events go; leaks not among them. By [`Track`].
    pub unclosed: [u64; 3],
    /// Among the open requests at the beginning of the bucket, those whose staying open says nothing.
    pub excused: u64,
}

impl Point {
    pub fn leaked_in_all(&self) -> u64 {
        self.leaked.iter().sum()
    }

    /// Open requests of both sides: the lowest, highest and last number within the bucket.
    pub fn requests(&self) -> Level {
        let [client, server] = [Track::ClientRequests, Track::ServerRequests].map(|track| self.open[track as usize]);
        Level { low: client.low + server.low, high: client.high + server.high, last: client.last + server.last }
    }

    pub fn open_requests(&self) -> u64 {
        self.open[Track::ClientRequests as usize].last + self.open[Track::ServerRequests as usize].last
    }
}

type Carriers = BTreeMap<(String, Option<String>), u64>;

#[derive(Debug, Clone, Default)]
pub struct Series {
    origin: Option<Micros>,
    /// The latest moment told of, after `origin`.
    length: u64,
    /// A bucket is `1 << shift` microseconds wide.
    shift: u32,
    buckets: Vec<Bucket>,
    open: [u64; 3],
    asked: u64,
    latencies: Latency,
    /// What is open for less than this is no sign of anything.
    patience: u64,
    carriers: Carriers,
    hanging: Carriers,
    gauges: Vec<(String, Vec<Reading>)>,
}

impl Series {
    /// Time has come this far, whether or not something happened.
    pub fn reached(&mut self, at: Micros) {
        let after = self.offset(at);
        self.length = self.length.max(after);
        while self.length >> self.shift >= MOST_BUCKETS {
            self.widen();
        }
    }

    pub fn opened(&mut self, track: Track, at: Micros) {
        self.reached(at);
        self.open[track as usize] += 1;
        let is_request = track != Track::Tasks;
        self.asked += u64::from(is_request);
        let bucket = self.current();
        bucket.asked += u64::from(is_request);
        self.settle(track);
        let index = self.offset(at) >> self.shift;
        self.at_index(index).unclosed[track as usize] += 1;
    }

    pub fn closed(&mut self, track: Track, opened_at: Micros, at: Micros) {
        self.reached(at);
        self.open[track as usize] = self.open[track as usize].saturating_sub(1);
        self.current();
        self.settle(track);
        self.latencies.add(at.saturating_sub(opened_at));
        self.take_unclosed(track, opened_at);
    }

    /// Looking back, something was closed at a moment that may be long past: with the session, say.
    pub fn ended(&mut self, track: Track, opened_at: Micros, at: Micros) {
        self.reached(at);
        let (track_at, index) = (track as usize, self.offset(at) >> self.shift);
        self.open[track_at] = self.open[track_at].saturating_sub(1);
        self.at_index(index);
        for bucket in self.buckets.iter_mut().rev().take_while(|bucket| bucket.index >= index) {
            let level = &mut bucket.levels[track_at];
            level.last = level.last.saturating_sub(1);
            if bucket.index > index {
                (level.low, level.high) = (level.low.saturating_sub(1), level.high.saturating_sub(1));
            }
            level.low = level.low.min(level.last);
        }
        self.latencies.add(at.saturating_sub(opened_at));
        self.take_unclosed(track, opened_at);
    }

    /// Something leaked. It may be told long after it was opened, in any order.
    pub fn leaked(&mut self, leak: Leak<'_>) {
        self.reached(leak.opened_at);
        if let Some(track) = leak.still_open {
            self.take_unclosed(track, leak.opened_at);
        }
        let opened = self.offset(leak.opened_at) >> self.shift;
        self.at_index(opened).leaked[leak.kind as usize] += 1;
        // Certainty may come only with a deadline after the last event; the series ends with the session.
        let certain = self.offset(leak.certain_at).min(self.length) >> self.shift;
        self.at_index(certain).certain[leak.kind as usize] += 1;
        carried(&mut self.carriers, leak.method, leak.tool);
    }

    /// Something is open at the end without being called a leak: names who would carry the growth if it is one.
    pub fn hanging(&mut self, method: &str, tool: Option<&str>) {
        carried(&mut self.hanging, method, tool);
    }

    /// A request stays open, and that says nothing: a gap may hold its answer, or it may stay open as long as it likes.
    pub fn excused(&mut self, track: Track, opened_at: Micros) {
        self.take_unclosed(track, opened_at);
        let index = self.offset(opened_at) >> self.shift;
        self.at_index(index).excused += 1;
    }

    /// One of those that stay open is taken to have been opened at this moment: when exactly is no longer known.
    pub fn opened_about(&mut self, track: Track, at: Micros) {
        let (track, index) = (track as usize, self.offset(at) >> self.shift);
        if self.at_index(index).unclosed[track] > 0 {
            return;
        }
        let others = self.buckets.iter_mut().filter(|bucket| bucket.unclosed[track] > 0);
        if let Some(nearest) = others.min_by_key(|bucket| bucket.index.abs_diff(index)) {
            nearest.unclosed[track] -= 1;
            self.at_index(index).unclosed[track] += 1;
        }
    }

    /// From what age on an open request may be missed at all.
    pub fn ripens_after(&mut self, micros: u64) {
        self.patience = micros;
    }

    pub fn patience_micros(&self) -> u64 {
        self.patience
    }

    /// A gauge was read: a number of the server's own, or a measure of its process.
    pub fn measured(&mut self, gauge: &str, at: Micros, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.reached(at);
        let index = self.offset(at) >> self.shift;
        let known = self.gauges.iter().position(|(name, _)| name == gauge);
        let place = known.unwrap_or_else(|| {
            self.gauges.push((gauge.to_string(), Vec::new()));
            self.gauges.len() - 1
        });
        let readings = &mut self.gauges[place].1;
        match readings.last_mut() {
            // Clocks step back now and then; a reading never goes before the one it followed.
            Some(last) if last.index >= index => {
                last.sum += value;
                last.count += 1;
                last.last = value;
            }
            _ => readings.push(Reading { index, sum: value, count: 1, last: value }),
        }
    }

    /// Takes over the gauges of a series that was kept beside this one.
    pub fn take_gauges(&mut self, mut other: Series) {
        self.reached(other.starts_at());
        other.reached(self.starts_at());
        self.reached(other.ends_at());
        while self.shift < other.shift {
            self.widen();
        }
        let ahead = other.starts_at().saturating_sub(self.starts_at());
        while other.shift < self.shift {
            other.widen();
        }
        for (name, mut readings) in other.gauges {
            for reading in &mut readings {
                let index = reading.index as i64 + (ahead >> self.shift);
                reading.index = index.clamp(0, MOST_BUCKETS as i64 - 1) as u64;
            }
            self.gauges.push((name, readings));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    pub fn starts_at(&self) -> Micros {
        self.origin.unwrap_or(0)
    }

    pub fn ends_at(&self) -> Micros {
        self.starts_at().saturating_add(self.length as i64)
    }

    pub fn bucket_micros(&self) -> u64 {
        1 << self.shift
    }

    /// Requests of both sides.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    pub fn leaked_in_all(&self) -> u64 {
        self.buckets.iter().flat_map(|bucket| bucket.leaked).sum()
    }

    /// The time that all but one in a thousand closed requests stayed below; 0 when none was closed.
    pub fn slowest_usual_micros(&self) -> u64 {
        self.latencies.percentile(99.9).map_or(0, |micros| micros as u64)
    }

    /// Whom the leaks belong to, most first; with what merely hangs, if that is asked for too.
    pub fn carriers(&self, with_hanging: bool) -> Vec<Carrier> {
        let mut all = self.carriers.clone();
        for (carrier, count) in self.hanging.iter().filter(|_| with_hanging) {
            *all.entry(carrier.clone()).or_default() += count;
        }
        let mut carriers: Vec<Carrier> =
            all.into_iter().map(|((method, tool), leaked)| Carrier { method, tool, leaked }).collect();
        carriers.sort_by_key(|carrier| std::cmp::Reverse(carrier.leaked));
        carriers
    }

    /// One point for each bucket in which something happened, and one for the end.
    pub fn points(&self, view: View) -> Vec<Point> {
        let mut points = Vec::with_capacity(self.buckets.len() + 1);
        let mut leaked = [0; 8];
        let mut unclosed = [0; 3];
        let mut excused = 0;
        for bucket in &self.buckets {
            let here = match view {
                View::Opened => &bucket.leaked,
                View::Certain => &bucket.certain,
            };
            for (sum, more) in leaked.iter_mut().zip(here) {
                *sum += more;
            }
            for (sum, more) in unclosed.iter_mut().zip(bucket.unclosed) {
                *sum += more;
            }
            let after = ((bucket.index + 1) << self.shift).min(self.length);
            let at = self.starts_at().saturating_add(after as i64);
            points.push(Point { at, open: bucket.levels, asked: bucket.asked, leaked, unclosed, excused });
            excused += bucket.excused;
        }
        if let Some(last) = points.last().filter(|last| last.at < self.ends_at()) {
            let open = last.open.map(|level| Level { low: level.last, high: level.last, last: level.last });
            points.push(Point { at: self.ends_at(), open, asked: 0, leaked, unclosed, excused });
        }
        points
    }

    pub fn gauge_names(&self) -> Vec<&str> {
        self.gauges.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The readings of a gauge: the mean of each bucket, at its middle; a lone reading is itself.
    pub fn gauge(&self, name: &str) -> Vec<(Micros, f64)> {
        let Some((_, readings)) = self.gauges.iter().find(|(known, _)| known == name) else { return Vec::new() };
        readings
            .iter()
            .map(|reading| {
                let middle = (reading.index << self.shift) + (1 << self.shift) / 2;
                let at = self.starts_at().saturating_add(middle.min(self.length) as i64);
                (at, reading.sum / reading.count as f64)
            })
            .collect()
    }

    /// The last reading of a gauge.
    pub fn gauge_last(&self, name: &str) -> Option<f64> {
        self.gauges.iter().find(|(known, _)| known == name)?.1.last().map(|reading| reading.last)
    }

    /// Microseconds since the first event. What is stamped before it counts as at it.
    fn offset(&mut self, at: Micros) -> u64 {
        let origin = *self.origin.get_or_insert(at);
        at.saturating_sub(origin).max(0) as u64
    }

    /// The bucket of the latest moment. Levels move only here: events come in order, whatever their stamps say.
    fn current(&mut self) -> &mut Bucket {
        let index = self.length >> self.shift;
        self.at_index(index)
    }

    fn settle(&mut self, track: Track) {
        let now = self.open[track as usize];
        let level = &mut self.current().levels[track as usize];
        level.low = level.low.min(now);
        level.high = level.high.max(now);
        level.last = now;
    }

    fn at_index(&mut self, index: u64) -> &mut Bucket {
        let place = match self.buckets.last() {
            Some(last) if last.index == index => self.buckets.len() - 1,
            Some(last) if last.index > index => {
                match self.buckets.binary_search_by_key(&index, |bucket| bucket.index) {
                    Ok(place) => place,
                    Err(place) => self.insert(place, index),
                }
            }
            _ => self.insert(self.buckets.len(), index),
        };
        &mut self.buckets[place]
    }

    fn insert(&mut self, place: usize, index: u64) -> usize {
        let before = place.checked_sub(1).and_then(|before| self.buckets.get(before));
        let levels = before.map_or_else(Default::default, |bucket| {
            bucket.levels.map(|level| Level { low: level.last, high: level.last, last: level.last })
        });
        self.buckets.insert(place, Bucket { index, levels, ..Bucket::default() });
        place
    }

    fn take_unclosed(&mut self, track: Track, opened_at: Micros) {
        let index = self.offset(opened_at) >> self.shift;
        let count = &mut self.at_index(index).unclosed[track as usize];
        *count = count.saturating_sub(1);
    }

    fn widen(&mut self) {
        self.shift += 1;
        let mut merged: Vec<Bucket> = Vec::with_capacity(self.buckets.len() / 2 + 1);
        for mut bucket in self.buckets.drain(..) {
            bucket.index >>= 1;
            match merged.last_mut() {
                Some(last) if last.index == bucket.index => last.join(&bucket),
                _ => merged.push(bucket),
            }
        }
        self.buckets = merged;
        for (_, readings) in &mut self.gauges {
            let mut merged: Vec<Reading> = Vec::with_capacity(readings.len() / 2 + 1);
            for mut reading in readings.drain(..) {
                reading.index >>= 1;
                match merged.last_mut() {
                    Some(last) if last.index == reading.index => {
                        last.sum += reading.sum;
                        last.count += reading.count;
                        last.last = reading.last;
                    }
                    _ => merged.push(reading),
                }
            }
            *readings = merged;
        }
    }
}

fn carried(carriers: &mut Carriers, method: &str, tool: Option<&str>) {
    let key = (method.to_string(), tool.map(str::to_string));
    let key = if carriers.len() < MOST_CARRIERS || carriers.contains_key(&key) {
        key
    } else {
        (OTHER_CARRIERS.to_string(), None)
    };
    *carriers.entry(key).or_default() += 1;
}

impl Bucket {
    /// Takes in the bucket that follows.
    fn join(&mut self, next: &Bucket) {
        for (level, after) in self.levels.iter_mut().zip(next.levels) {
            level.low = level.low.min(after.low);
            level.high = level.high.max(after.high);
            level.last = after.last;
        }
        self.asked += next.asked;
        self.excused += next.excused;
        let add = |sums: &mut [u64], more: &[u64]| sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        add(&mut self.unclosed, &next.unclosed);
        add(&mut self.leaked, &next.leaked);
        add(&mut self.certain, &next.certain);
    }
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;
