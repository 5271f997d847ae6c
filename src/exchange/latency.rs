//! A histogram of durations whose memory does not grow: percentiles within 3 percent.
//!
//! Buckets grow by powers of two, each cut into 32: the place of a value is its highest five bits and how many
//! lie below. Nothing is allocated until the first value, and then only from the lowest bucket to the highest: most
//! durations of one method lie close together, and there are many methods.

use crate::event::Micros;

const STEPS: u64 = 32;
/// 2^36 µs is 19 hours; longer ones share the last bucket and are told by `max`.
const BUCKETS: usize = (STEPS as usize) * 33;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Latency {
    /// The bucket that `buckets` begins with.
    lowest: usize,
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

fn bucket_of(micros: u64) -> usize {
    if micros < STEPS {
        return micros as usize;
    }
    let doublings = 63 - micros.leading_zeros() as u64 - 5;
    let step = (micros >> doublings) - STEPS;
    (((doublings + 1) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// The largest value that falls into the bucket.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let doublings = bucket / STEPS - 1;
    ((bucket % STEPS + STEPS + 1) << doublings) - 1
}

impl Latency {
    /// Durations below zero (clocks that ran back) count as zero.
    pub fn add(&mut self, duration: Micros) {
        let micros = u64::try_from(duration).unwrap_or(0);
        let bucket = bucket_of(micros);
        self.reach(bucket, bucket);
        self.buckets[bucket - self.lowest] += 1;
        self.count += 1;
        self.sum += u128::from(micros);
        self.max = self.max.max(micros);
    }

    /// Makes room from one bucket to another.
    fn reach(&mut self, first: usize, last: usize) {
        if self.buckets.is_empty() {
            self.lowest = first;
        }
        if first < self.lowest {
            self.buckets.splice(0..0, std::iter::repeat_n(0, self.lowest - first));
            self.lowest = first;
        }
        let length = (last + 1 - self.lowest).max(self.buckets.len());
        self.buckets.resize(length, 0);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn max(&self) -> Option<Micros> {
        (self.count > 0).then_some(self.max as Micros)
    }

    pub fn mean(&self) -> Option<Micros> {
        (self.count > 0).then(|| (self.sum / u128::from(self.count)) as Micros)
    }

    /// `percent` from 0 to 100; `None` when there are no values.
    pub fn percentile(&self, percent: f64) -> Option<Micros> {
        if self.count == 0 {
            return None;
        }
        let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(top_of(self.lowest + bucket).min(self.max) as Micros);
            }
        }
        Some(self.max as Micros)
    }

    pub fn median(&self) -> Option<Micros> {
        self.percentile(50.0)
    }

    pub fn merge(&mut self, other: &Latency) {
        if other.count > 0 {
            self.reach(other.lowest, other.lowest + other.buckets.len() - 1);
        }
        for (place, theirs) in other.buckets.iter().enumerate() {
            self.buckets[other.lowest + place - self.lowest] += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_three_percent() {
        let mut latency = Latency::default();
        for micros in 1..=100_000 {
            latency.add(micros);
        }
        for percent in [1.0, 50.0, 90.0, 99.0] {
            let exact = percent * 1000.0;
            let told = latency.percentile(percent).expect("values") as f64;
            assert!((told - exact).abs() / exact <= 0.032, "p{percent}: {told} for {exact}");
        }
        assert_eq!(latency.max(), Some(100_000));
        assert_eq!(latency.mean(), Some(50_000));
        assert_eq!(Latency::default().median(), None);
    }

    #[test]
    fn only_what_lies_between_the_fastest_and_the_slowest_takes_room() {
        let mut near = Latency::default();
        for micros in [900_000, 1_000_000, 800_000] {
            near.add(micros);
        }
        assert!(near.buckets.len() < 20, "{}", near.buckets.len());
        let mut far = Latency::default();
        far.add(3);
        far.merge(&near);
        near.merge(&Latency::default());
        assert_eq!((far.count(), far.percentile(1.0), far.median()), (4, Some(3), near.percentile(30.0)));
    }

    #[test]
    fn buckets_and_their_tops_agree_and_the_extremes_fit() {
        for micros in (0..5_000).chain([1 << 20, (1 << 35) + 12_345]) {
            let bucket = bucket_of(micros);
            assert!(top_of(bucket) >= micros, "{micros}");
            assert!(bucket == 0 || top_of(bucket - 1) < micros, "{micros}");
        }
        let mut latency = Latency::default();
        latency.add(i64::MAX);
        latency.add(-5);
        assert_eq!(latency.max(), Some(i64::MAX));
        assert_eq!(latency.percentile(1.0), Some(0));
    }
}
