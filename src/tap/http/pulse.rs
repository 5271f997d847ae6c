//! Whether a client's connection gets on: who has waited for whom since when, in whole seconds.
//!
//! Comes in: what a connection waits for, told as it changes. Goes out: connections to close and uploads to ask once
//! more. One look a second at all connections of a worker stands for timers of their own, which would be set and
//! cleared several times for each request.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::task::AbortHandle;

use super::guard::Ground;

/// A worker's time in seconds, and the connections that live by it.
#[derive(Default)]
pub(super) struct Watch {
    now: AtomicU32,
    ending: AtomicBool,
    grounds: Mutex<Vec<Weak<Ground>>>,
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
    /// The client does not take what was written to it.
    held_up: AtomicBool,
    connection: OnceLock<AbortHandle>,
    task: OnceLock<Waker>,
    /// Who asks for more of the upload.
    uploads: Mutex<Option<Waker>>,
}

impl Watch {
    /// A connection that begins now.
    pub(super) fn follow(self: &Arc<Watch>) -> Arc<Ground> {
        let pulse = Pulse {
            watch: self.clone(),
            waits_for: AtomicU8::new(HEAD),
            since: AtomicU32::new(self.now.load(Ordering::Relaxed)),
            held_up: AtomicBool::new(false),
            connection: OnceLock::new(),
            task: OnceLock::new(),
            uploads: Mutex::default(),
        };
        let ground = Arc::new(Ground::new(pulse));
        locked(&self.grounds).push(Arc::downgrade(&ground));
        ground
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
        for ground in locked(&self.grounds).iter().filter_map(Weak::upgrade) {
            if let Some(task) = ground.pulse.task.get() {
                task.wake_by_ref();
            }
        }
    }

    fn tick(&self, idle: Duration) {
        self.now.fetch_add(1, Ordering::Relaxed);
        locked(&self.grounds).retain(|ground| {
            let Some(ground) = ground.upgrade() else { return false };
            let pulse = &ground.pulse;
            match pulse.waits_for.load(Ordering::Relaxed) {
                // What is left of a response may take for ever too; only then the next request can be late.
                HEAD if pulse.held_up.load(Ordering::Relaxed) => pulse.awaits_head(),
                HEAD if pulse.waited() > idle => {
                    if let Some(connection) = pulse.connection.get() {
                        connection.abort();
                    }
                    return false;
                }
                UPLOAD => {
                    if let Some(waker) = &*locked(&pulse.uploads) {
                        waker.wake_by_ref();
                    }
                }
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

    /// The client's connection took what was written, or did not.
    pub(super) fn writes(&self, taken: bool) {
        if self.held_up.load(Ordering::Relaxed) == taken {
            self.held_up.store(!taken, Ordering::Relaxed);
        }
    }

    pub(super) fn awaits_head(&self) {
        self.awaits(HEAD);
    }

    pub(super) fn awaits_answer(&self) {
        self.waits_for.store(ANSWER, Ordering::Relaxed);
    }

    /// The client has sent no more of its upload; asks again every second. Gives how long that has been so.
    pub(super) fn awaits_upload(&self, waker: &Waker) -> Duration {
        let mut asks = locked(&self.uploads);
        if !asks.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *asks = Some(waker.clone());
        }
        drop(asks);
        if self.waits_for.load(Ordering::Relaxed) == UPLOAD {
            return self.waited();
        }
        self.awaits(UPLOAD);
        Duration::ZERO
    }

    fn awaits(&self, what: u8) {
        self.since.store(self.watch.now.load(Ordering::Relaxed), Ordering::Relaxed);
        self.waits_for.store(what, Ordering::Relaxed);
    }

    fn waited(&self) -> Duration {
        let now = self.watch.now.load(Ordering::Relaxed);
        Duration::from_secs(u64::from(now.wrapping_sub(self.since.load(Ordering::Relaxed))))
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
        let ground = watch.follow();
        let connection = tokio::spawn(std::future::pending::<()>());
        ground.pulse.is_of(connection.abort_handle());
        // A response may take for ever.
        ground.pulse.awaits_answer();
        pass(&watch, 100);
        assert!(!connection.is_finished());
        // So may its end, if the client does not take it.
        ground.pulse.awaits_head();
        ground.pulse.writes(false);
        pass(&watch, 100);
        assert!(!connection.is_finished());
        ground.pulse.writes(true);
        pass(&watch, 3);
        tokio::task::yield_now().await;
        assert!(!connection.is_finished());
        pass(&watch, 1);
        assert!(connection.await.is_err_and(|cause| cause.is_cancelled()));
        assert!(locked(&watch.grounds).is_empty());
    }

    #[tokio::test]
    async fn an_upload_that_stands_still_is_asked_again() {
        struct Woken(AtomicU32);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Woken>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let watch = Arc::new(Watch::default());
        let ground = watch.follow();
        let woken = Arc::new(Woken(AtomicU32::new(0)));
        let waker = Waker::from(woken.clone());
        assert_eq!(ground.pulse.awaits_upload(&waker), Duration::ZERO);
        pass(&watch, 5);
        assert_eq!(ground.pulse.awaits_upload(&waker), Duration::from_secs(5));
        ground.pulse.awaits_answer();
        pass(&watch, 5);
        assert_eq!(woken.0.load(Ordering::Relaxed), 5);
        assert_eq!(ground.pulse.awaits_upload(&waker), Duration::ZERO);
    }
}
