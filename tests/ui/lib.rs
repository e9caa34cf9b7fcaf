//! Nothing but the place that the UI tests run in: see `ui.rs`, and `cases/` for the mistakes and their messages.
