//! Nothing but the place that the UI tests run in: see `ui.rs`, and `cases/` for the mistakes and their messages.

/// Waits, so that a case can keep something across it.
pub async fn pause() {
    std::future::ready(()).await;
}
