//! Small things for tests and examples.

/// Runs a future to its end on a runtime of this thread.
///
/// # Panics
/// When the operating system refuses to make a runtime.
///
/// ```
/// assert_eq!(slipstream::testing::block_on(async { 1 + 1 }), 2);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    #[expect(clippy::expect_used, reason = "documented; there is nothing to go on with")]
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

/// Waits until `condition` holds, looking every millisecond; for events that cannot be awaited.
///
/// # Panics
/// When it does not hold within a minute.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
///
/// # slipstream::testing::block_on(async {
/// let done = Arc::new(AtomicBool::new(false));
/// let other = Arc::clone(&done);
/// std::thread::spawn(move || other.store(true, Relaxed));
/// slipstream::testing::until(|| done.load(Relaxed)).await;
/// # });
/// ```
#[track_caller]
pub fn until(mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    const LIMIT: std::time::Duration = std::time::Duration::from_mins(1);
    let caller = std::panic::Location::caller();
    async move {
        let began = std::time::Instant::now();
        while !condition() {
            assert!(began.elapsed() < LIMIT, "waited for more than {LIMIT:?} at {caller}");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}
