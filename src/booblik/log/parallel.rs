//! Work for several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::{Builder, available_parallelism, scope};

/// Threads at most: a disk has no more to give.
const MAX_THREADS: usize = 4;

/// Threads that may help at the same time. The operating system reads files to answer that.
static HELPERS: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from).min(MAX_THREADS) - 1);

/// Threads of the process that help at the moment, whomever.
static HELPING: AtomicUsize = AtomicUsize::new(0);

/// One of the threads that may help.
struct Helper;

impl Helper {
    /// One that is free.
    fn claim() -> Option<Self> {
        let more = |helping| (helping < *HELPERS).then_some(helping + 1);
        HELPING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        HELPING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Who calls a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Company {
    /// One thread, as yet.
    Alone,
    /// One of several.
    Several,
}

/// Calls `step` until it says that there is no more to do, on this thread and on others that are free: on at most
/// `first` of them from the beginning on, on more when there turns out to be more to do.
pub(super) fn together(first: usize, step: &(impl Fn(Company) -> bool + Sync)) {
    scope(|scope| {
        let help = || {
            let Some(helper) = Helper::claim() else { return false };
            let work = move || {
                let _helper = helper;
                while step(Company::Several) {}
            };
            // Without another thread it takes longer.
            Builder::new().spawn_scoped(scope, work).is_ok()
        };
        let helped = (0..first).take_while(|_| help()).count();
        let mut company = if helped > 0 { Company::Several } else { Company::Alone };
        while step(company) {
            if help() {
                company = Company::Several;
            }
        }
    });
}

/// What `work` makes of each of `0..count`, in order. It runs on a few threads at a time.
pub(crate) fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    let step = |_| {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at < count {
            let made = work(at);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, made));
        }
        at + 1 < count
    };
    together(count.saturating_sub(1), &step);
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

    #[test]
    fn what_is_worked_on_may_be_made_of_parts_itself() {
        let sums = each(20, |at| each(at, |part| each(part, |n| n).len()).into_iter().sum::<usize>());
        assert_eq!(sums, (0..20).map(|at| (0..at).sum()).collect::<Vec<usize>>());
    }
}
