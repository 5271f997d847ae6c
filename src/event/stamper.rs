//! The only place that reads the clock.
//!
//! Times are the wall clock's at the start plus what a steady clock has counted since: a clock that is set while
//! we record cannot make an answer come before its request.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Micros;

#[derive(Debug, Clone, Copy)]
pub struct Stamper {
    wall: Micros,
    steady: Instant,
}

impl Stamper {
    pub fn start() -> Stamper {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Stamper { wall: since.as_micros() as Micros, steady: Instant::now() }
    }

    pub fn now(&self) -> Micros {
        self.wall + self.steady.elapsed().as_micros() as Micros
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_never_go_back() {
        let stamper = Stamper::start();
        let copy = stamper;
        let first = stamper.now();
        assert!(first > 1_700_000_000_000_000 && copy.now() >= first);
    }
}
