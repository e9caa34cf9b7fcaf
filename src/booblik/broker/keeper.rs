//! What has to be done from time to time: retention, syncing by age, trying again after a failure.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::Result;

use super::options::BrokerOptions;
use super::topics::Topics;

/// A thread that looks after all partitions.
pub(super) struct Keeper {
    stopped: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(topics: &Arc<Topics>, options: &BrokerOptions) -> Result<Self> {
        let stopped = Arc::new((Mutex::new(false), Condvar::new()));
        let rounds = Rounds {
            topics: Arc::clone(topics),
            tick: options.tick(),
            retention_check: options.retention_check,
            resume_every: options.resume_every,
            retained: Instant::now(),
            resumed: Instant::now(),
        };
        let own = Arc::clone(&stopped);
        let thread = std::thread::Builder::new().name("booblik-keeper".to_owned()).spawn(move || rounds.run(&own))?;
        Ok(Self { stopped, thread: Some(thread) })
    }

    /// Ends the thread after what it is doing.
    pub(super) fn stop(&mut self) {
        *self.stopped.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.1.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Rounds {
    topics: Arc<Topics>,
    tick: Duration,
    retention_check: Duration,
    resume_every: Duration,
    retained: Instant,
    resumed: Instant,
}

impl Rounds {
    fn run(mut self, (stopped, changed): &(Mutex<bool>, Condvar)) {
        let mut stop = stopped.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stop {
            let waited = changed.wait_timeout_while(stop, self.tick, |stop| !*stop);
            stop = waited.unwrap_or_else(PoisonError::into_inner).0;
            if *stop {
                return;
            }
            drop(stop);
            self.round();
            stop = stopped.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn round(&mut self) {
        let retain = is_due(&mut self.retained, self.retention_check);
        let resume = is_due(&mut self.resumed, self.resume_every);
        for partition in self.topics.partitions() {
            partition.0.flush_if_due();
            if retain {
                partition.0.retain();
            }
            if resume {
                partition.0.try_resume();
            }
        }
    }
}

fn is_due(last: &mut Instant, every: Duration) -> bool {
    let due = last.elapsed() >= every;
    if due {
        *last = Instant::now();
    }
    due
}
