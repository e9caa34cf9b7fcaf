//! Small things for tests and examples.

/// Runs a future to its end on a runtime of this thread.
///
/// # Panics
/// When the operating system refuses to make a runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    #[expect(clippy::expect_used, reason = "documented; there is nothing to go on with")]
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}
