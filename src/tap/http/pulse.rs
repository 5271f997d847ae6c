//! Whether a client's connection gets on: who has waited for whom since when, in whole seconds.
//!
//! Comes in: what a connection waits for, told as it changes. Goes out: connections to close, and uploads to look at
//! once more. One look a second at all connections of a worker stands for timers of their own, which would be set and
//! cleared several times for each request.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::task::AbortHandle;

/// A worker's time in seconds, and the connections that live by it.
#[derive(Default)]
pub(super) struct Watch {
    now: AtomicU32,
    ending: AtomicBool,
    pulses: Mutex<Vec<Weak<Pulse>>>,
}

/// The whole head of the next request.
const HEAD: u8 = 0;
/// More of an upload.
const UPLOAD: u8 = 1;
/// Nothing of the client's.
const ANSWER: u8 = 2;

/// What one connection waits for.
pub(super) struct Pulse {
    watch: Arc<Watch>,
    waits_for: AtomicU8,
    since: AtomicU32,
    connection: OnceLock<AbortHandle>,
    task: OnceLock<Waker>,
}

impl Watch {
    /// A connection that begins now.
    pub(super) fn follow(self: &Arc<Watch>) -> Arc<Pulse> {
        let pulse = Arc::new(Pulse {
            watch: self.clone(),
            waits_for: AtomicU8::new(HEAD),
            since: AtomicU32::new(self.now.load(Ordering::Relaxed)),
            connection: OnceLock::new(),
            task: OnceLock::new(),
        });
        locked(&self.pulses).push(Arc::downgrade(&pulse));
        pulse
    }

    /// Looks after them for as long as the worker runs.
    pub(super) async fn look_on(self: Arc<Watch>, idle: Duration) {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.tick(idle);
        }
    }

    /// Has all connections told that the worker is about to end.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
        locked(&self.pulses).iter().filter_map(Weak::upgrade).for_each(|pulse| pulse.wake());
    }

    fn tick(&self, idle: Duration) {
        self.now.fetch_add(1, Ordering::Relaxed);
        locked(&self.pulses).retain(|pulse| {
            let Some(pulse) = pulse.upgrade() else { return false };
            match pulse.waits_for.load(Ordering::Relaxed) {
                HEAD if pulse.waited() > idle => {
                    if let Some(connection) = pulse.connection.get() {
                        connection.abort();
                    }
                    return false;
                }
                UPLOAD => pulse.wake(),
                _ => {}
            }
            true
        });
    }
}

impl Pulse {
    /// The task to end when nothing comes.
    pub(super) fn is_of(&self, connection: AbortHandle) {
        let _ = self.connection.set(connection);
    }

    /// Whether the worker is about to end. If not, this task is woken when it is.
    pub(super) fn is_ending(&self, task: &Waker) -> bool {
        // The waker of a task stays the same for as long as it lives.
        self.task.get_or_init(|| task.clone());
        self.watch.ending.load(Ordering::Relaxed)
    }

    /// The same, for those who are woken anyway.
    pub(super) fn is_ending_now(&self) -> bool {
        self.watch.ending.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }

    /// The worker's time in seconds.
    pub(super) fn now(&self) -> u32 {
        self.watch.now.load(Ordering::Relaxed)
    }

    pub(super) fn awaits_head(&self) {
        self.awaits(HEAD);
    }

    pub(super) fn awaits_answer(&self) {
        self.waits_for.store(ANSWER, Ordering::Relaxed);
    }

    /// The client has sent no more of its upload, and its task is woken every second to say so again. Gives how long
    /// that has been so.
    pub(super) fn awaits_upload(&self) -> Duration {
        if self.waits_for.load(Ordering::Relaxed) == UPLOAD {
            return self.waited();
        }
        self.awaits(UPLOAD);
        Duration::ZERO
    }

    fn awaits(&self, what: u8) {
        self.since.store(self.now(), Ordering::Relaxed);
        self.waits_for.store(what, Ordering::Relaxed);
    }

    fn waited(&self) -> Duration {
        Duration::from_secs(u64::from(self.now().wrapping_sub(self.since.load(Ordering::Relaxed))))
    }
}

fn locked<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(3);

    fn pass(watch: &Watch, seconds: u32) {
        (0..seconds).for_each(|_| watch.tick(IDLE));
    }

    #[tokio::test]
    async fn a_connection_on_which_no_request_comes_is_ended() {
        let watch = Arc::new(Watch::default());
        let pulse = watch.follow();
        let connection = tokio::spawn(std::future::pending::<()>());
        pulse.is_of(connection.abort_handle());
        // A response may take for ever.
        pulse.awaits_answer();
        pass(&watch, 100);
        assert!(!connection.is_finished());
        pulse.awaits_head();
        pass(&watch, 3);
        tokio::task::yield_now().await;
        assert!(!connection.is_finished());
        pass(&watch, 1);
        assert!(connection.await.is_err_and(|cause| cause.is_cancelled()));
        assert!(locked(&watch.pulses).is_empty());
    }

    #[test]
    fn an_upload_that_stands_still_is_looked_at_again() {
        struct Woken(AtomicU32);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Woken>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let watch = Arc::new(Watch::default());
        let pulse = watch.follow();
        let woken = Arc::new(Woken(AtomicU32::new(0)));
        assert!(!pulse.is_ending(&Waker::from(woken.clone())));
        assert_eq!(pulse.awaits_upload(), Duration::ZERO);
        pass(&watch, 5);
        assert_eq!(pulse.awaits_upload(), Duration::from_secs(5));
        pulse.awaits_answer();
        pass(&watch, 5);
        assert_eq!(woken.0.load(Ordering::Relaxed), 5);
        assert_eq!(pulse.awaits_upload(), Duration::ZERO);
        watch.end();
        assert!(pulse.is_ending_now() && woken.0.load(Ordering::Relaxed) == 6);
    }
}
