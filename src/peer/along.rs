//! A future that is moved along by the task that waits for what it brings.
//!
//! Comes in: the future that moves a connection's bytes, and questions whose answers it brings. Goes out: the answers.
//! As a task of its own such a future is woken and run several times for each exchange, which costs more than what it
//! does. Here its wake-ups ring a bell: while the waiting task is at it, it goes on by itself; else it is woken.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::AbortHandle;

/// After so many turns others may have theirs; what is left to do is done when we are next.
const MOST_TURNS: u32 = 64;

type Moving = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Along {
    /// `None` once it is over.
    moving: Option<Moving>,
    bell: Arc<Bell>,
    waker: Waker,
}

#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    /// The waiting task is at it and looks at the bell before it rests.
    heard: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

impl Bell {
    fn begin(&self, waker: &Waker) {
        self.heard.store(true, Ordering::SeqCst);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *waiting = Some(waker.clone());
        }
    }

    fn wake_waiting(&self) {
        if let Some(waker) = &*self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Bell>) {
        self.rung.store(true, Ordering::SeqCst);
        if !self.heard.load(Ordering::SeqCst) {
            self.wake_waiting();
        }
    }
}

impl Along {
    pub(super) fn new(moving: Moving) -> Along {
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), ..Bell::default() });
        let waker = Waker::from(Arc::clone(&bell));
        Along { moving: Some(moving), bell, waker }
    }

    /// Asks, and moves along as often as that may change the answer.
    pub(super) fn poll_with<T>(
        &mut self,
        context: &mut Context<'_>,
        mut what: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.bell.begin(context.waker());
        for _ in 0..MOST_TURNS {
            let answer = what(&mut Context::from_waker(&self.waker));
            if answer.is_ready() {
                // Whoever got an answer asks again, so nobody need be woken for what is left to do.
                self.bell.heard.store(false, Ordering::SeqCst);
                return answer;
            }
            // Out of its share of the thread, nothing gets on any more, and everything asks to be woken at once.
            if !self.move_on() || !tokio::task::coop::has_budget_remaining() {
                break;
            }
        }
        self.bell.heard.store(false, Ordering::SeqCst);
        // It rang between our last look and now, or we broke off.
        if self.bell.rung.load(Ordering::SeqCst) {
            self.bell.wake_waiting();
        }
        Poll::Pending
    }

    /// Moves along if there was a reason to; says whether there was.
    fn move_on(&mut self) -> bool {
        if !self.bell.rung.swap(false, Ordering::SeqCst) {
            return false;
        }
        if let Some(moving) = &mut self.moving
            && moving.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready()
        {
            self.moving = None;
        }
        true
    }

    /// Moves along once, with nobody waiting.
    pub(super) fn look(&mut self) {
        self.move_on();
    }

    /// Goes on as a task of its own.
    pub(super) fn spawn(&mut self) -> AbortHandle {
        let moving = self.moving.take();
        tokio::spawn(async move {
            if let Some(moving) = moving {
                moving.await;
            }
        })
        .abort_handle()
    }
}
