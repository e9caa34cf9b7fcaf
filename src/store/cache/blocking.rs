//! Long calls on the runtime's blocking threads.

use tokio::runtime::Handle;

use crate::error::{Error, Kind, Result};

/// Runs `call` on a blocking thread. Dropping the future does not stop a call that has begun.
pub(crate) async fn blocking<R: Send + 'static>(call: impl FnOnce() -> Result<R> + Send + 'static) -> Result<R> {
    let runtime = Handle::try_current()
        .map_err(|error| Error::new(Kind::Unsupported, "outside a tokio runtime").because(error))?;
    match runtime.spawn_blocking(call).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => Err(Error::new(Kind::Panic, "a store call panicked").because(error)),
        Err(error) => Err(Error::new(Kind::Closed, "the runtime is shutting down").because(error)),
    }
}
