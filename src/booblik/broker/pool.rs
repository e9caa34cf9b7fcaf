//! The threads on which a broker writes. The operating system's calls block; tasks of the user's do not wait for them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::util::panic_message;

type Job = Box<dyn FnOnce() + Send>;

/// Some threads and what they have to do. Each partition has at most a few jobs waiting, which bounds the queues.
#[derive(Clone)]
pub(super) struct Pool(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    max_threads: usize,
}

#[derive(Default)]
struct State {
    now: VecDeque<Job>,
    /// In the order of their times.
    later: VecDeque<(Instant, Job)>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait, and those of them that will look at the clock.
    idle: usize,
    timed: usize,
    closed: bool,
}

impl Pool {
    pub(super) fn new(max_threads: usize) -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), max_threads }))
    }

    /// Runs `job` on a thread of its own choice. After [`close`](Self::close) it is dropped.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        if state.closed {
            return;
        }
        state.now.push_back(Box::new(job));
        self.wake(state);
    }

    /// Runs `job` after `delay`, which is the same for all jobs.
    pub(super) fn run_after(&self, delay: Duration, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        if state.closed {
            return;
        }
        state.later.push_back((Instant::now() + delay, Box::new(job)));
        if state.timed == 0 {
            self.wake(state);
        }
    }

    /// Runs `work` and returns what it does; `None` after [`close`](Self::close). Dropped, the work is done all the same.
    pub(super) async fn call<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.run(move || drop(sender.send(work())));
        receiver.await.ok()
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        // One that was woken and has not taken its job yet counts as idle, and so does its job as waiting.
        if state.idle >= state.now.len().max(1) {
            return self.0.changed.notify_one();
        }
        if state.threads.len() >= self.0.max_threads {
            return self.0.changed.notify_one();
        }
        let shared = Arc::clone(&self.0);
        match std::thread::Builder::new().name("booblik-writer".to_owned()).spawn(move || shared.work()) {
            Ok(thread) => state.threads.push(thread),
            Err(error) => tracing::warn!(%error, "a writer thread cannot be started"),
        }
    }

    /// Does what waits and ends the threads. The caller must not be one of them.
    pub(super) fn close(&self) {
        let threads = {
            let mut state = self.0.lock();
            state.closed = true;
            std::mem::take(&mut state.threads)
        };
        self.0.changed.notify_all();
        let own = std::thread::current().id();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != own) {
            drop(thread.join());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            // Its partition's group tells its producers; the thread goes on for the others.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                tracing::error!("a writer panicked: {}", panic_message(&*panic));
            }
        }
    }

    /// The next job; `None` when the pool is closed and there is none.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.due() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.wait(state);
        }
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let first = state.later.front().map(|(time, _)| time.saturating_duration_since(Instant::now()));
        state.idle += 1;
        // One thread looks at the clock for all.
        let Some(delay) = first.filter(|_| state.timed == 0) else {
            let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            return state;
        };
        state.timed += 1;
        let (mut state, _) = self.changed.wait_timeout(state, delay).unwrap_or_else(PoisonError::into_inner);
        state.timed -= 1;
        state.idle -= 1;
        state
    }
}

impl State {
    fn due(&mut self) -> Option<Job> {
        if let Some(job) = self.now.pop_front() {
            return Some(job);
        }
        let closed = self.closed;
        let (_, job) = self.later.pop_front_if(|(time, _)| closed || *time <= Instant::now())?;
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn jobs_that_come_in_a_row_run_beside_each_other_however_many_threads_wait() {
        let pool = Pool::new(3);
        let (sender, receiver) = std::sync::mpsc::channel();
        for round in 0..100 {
            let meet = Arc::new(Barrier::new(3));
            for _ in 0..3 {
                let (meet, sender) = (Arc::clone(&meet), sender.clone());
                pool.run(move || {
                    meet.wait();
                    let _ = sender.send(round);
                });
            }
            for _ in 0..3 {
                assert_eq!(receiver.recv_timeout(Duration::from_secs(30)), Ok(round), "one waits for another");
            }
        }
        pool.close();
    }
}
