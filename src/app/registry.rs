//! What `#[handle]` leaves for [`stream()`] to find.

use super::bind::{Builder, HandlerOptions};
use super::{App, Run};
use crate::error::Result;

/// A handler bound with `#[handle]`.
pub struct Registered {
    /// Its function's name.
    pub name: &'static str,
    /// The text of its sources.
    pub source: &'static str,
    /// Where it stands: module, file, line, column.
    pub place: (&'static str, &'static str, u32, u32),
    /// Binds it.
    pub bind: fn(&mut Builder<'_>, HandlerOptions) -> Result<()>,
}

inventory::collect!(Registered);

/// Runs every handler that is bound with `#[handle]` in this program, until all sources have ended, a handler fails, or
/// a signal asks it to stop.
///
/// Handlers of one source get each message in the order of their place: module path, file, line, column. A crate that
/// nobody names is not linked, nor are its handlers: write `use the_crate as _;`.
///
/// # Errors
/// Awaiting it gives the first error of a handler, sink or source; errors of building the app; an error if there is
/// nothing to run.
///
/// ```standalone_crate
/// use slipstream::prelude::*;
///
/// #[handle(stream::iter(["one", "two"]), sink = [print])]
/// fn length(word: &'static str) -> usize {
///     word.len()
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<()> {
///     stream().await
/// }
/// ```
pub fn stream() -> Run {
    let mut found: Vec<&Registered> = inventory::iter::<Registered>.into_iter().collect();
    found.sort_by_key(|registered| registered.place);
    let mut app = App::new();
    for registered in found {
        let options = HandlerOptions::new(registered.name, registered.source);
        app.bindings.push((options, Box::new(registered.bind)));
    }
    Run::new(app)
}
