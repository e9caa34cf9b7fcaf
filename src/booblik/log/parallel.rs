//! Several files at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

/// Threads at most: a disk has no more to give.
const MAX_THREADS: usize = 4;

/// What `work` makes of each of `0..count`, in order. It runs on a few threads at a time.
pub(crate) fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(count);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            let made = work(at);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, made));
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(run)));
        run();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn results_come_in_order() {
        assert_eq!(each(1000, |at| at * 2), (0..1000).map(|at| at * 2).collect::<Vec<_>>());
        assert!(each(0, |at| at).is_empty());
    }
}
