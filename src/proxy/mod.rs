//! Channels inside the process, between handlers and from the outside in.

mod glue;

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::error::{Error, Kind, Result};
use crate::flow::{Gate, NodeId};
use crate::sink::MapSink;
use crate::source::Channel;
use crate::util::Name;

pub use crate::source::Overflow;

/// An in-process channel: a sink for handlers, and a source that gives every message to every handler that reads it, in
/// order, each with the unit of work that it belongs to.
///
/// A message that travels through a proxy is acknowledged when the handlers behind it have done their part: nothing is
/// lost in between, and a slow reader slows its writers. Handlers subscribe before any source is read, so the order of
/// declaration does not matter. A proxy ends when the handlers that write to it have ended; one that is
/// [`external`](Self::external) stays open until the app shuts down. What is written to one that no handler reads is
/// gone, and nobody waits for it.
///
/// ```
/// use slipstream::prelude::*;
///
/// # slipstream::testing::block_on(async {
/// static SHOUTS: Proxy<String> = Proxy::new("shouts");
///
/// App::new()
///     .handle(stream::iter(["hi", "ho"]), |word: &'static str| word.to_uppercase(), &SHOUTS)
///     .handle(&SHOUTS, |shout: String| format!("{shout}!"), print)
///     .run()
///     .await
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Proxy<T> {
    name: Name,
    capacity: usize,
    overflow: Overflow,
    external: bool,
    slot: OnceLock<Arc<Slot<T>>>,
}

/// What all clones of a declaration share.
struct Slot<T> {
    gate: Gate,
    open: Mutex<Weak<Channel<T>>>,
}

impl<T> std::fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl<T> Proxy<T> {
    /// A proxy for up to 1,024 messages that wait.
    pub const fn new(name: &'static str) -> Self {
        Self::make(Name::Fixed(name))
    }

    /// The same with a name made at run time.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self::make(Name::Made(name.into()))
    }

    const fn make(name: Name) -> Self {
        Self { name, capacity: 1024, overflow: Overflow::Wait, external: false, slot: OnceLock::new() }
    }

    /// How many messages may wait, at least 1. Default 1,024. Messages that the reader has taken at once, up to as
    /// many again, no longer count.
    #[must_use]
    pub const fn capacity(mut self, messages: usize) -> Self {
        self.capacity = if messages == 0 { 1 } else { messages };
        self
    }

    /// What happens when it is full. Default: the writer waits.
    #[must_use]
    pub const fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// It is also written from outside, by [`send`](Self::send) and [`deliver`](Self::deliver), and stays open until
    /// the app shuts down.
    #[must_use]
    pub const fn external(mut self) -> Self {
        self.external = true;
        self
    }

    /// A function in front of it, as a sink.
    pub fn map<U, F: Fn(U) -> T>(&self, map: F) -> MapSink<Self, F> {
        crate::sink::map(self.clone(), map)
    }

    fn slot(&self) -> &Arc<Slot<T>> {
        self.slot.get_or_init(|| Arc::new(Slot { gate: Gate::new(), open: Mutex::default() }))
    }

    fn name(&self) -> Arc<str> {
        self.name.to_shared()
    }

    fn node(&self) -> NodeId {
        NodeId { kind: "proxy", name: self.name(), id: Arc::as_ptr(self.slot()).cast::<()>() as usize }
    }

    /// Pauses its reader; see [`Gate`].
    pub fn gate(&self) -> &Gate {
        &self.slot().gate
    }

    fn channel(&self) -> Result<Arc<Channel<T>>> {
        let open = self.slot().open.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let open = open.filter(|channel| channel.has_reader());
        open.ok_or_else(|| Error::new(Kind::Closed, "no app that reads it is running").at(self.node().to_string()))
    }

    /// How many messages were dropped because it was full, in the app that has it open; 0 when none has.
    pub fn dropped(&self) -> u64 {
        self.channel().map_or(0, |channel| channel.dropped())
    }

    /// How many messages wait to be read, in the app that has it open.
    pub fn waiting(&self) -> usize {
        self.channel().map_or(0, |channel| channel.waiting())
    }
}

impl<T: Clone + Send + 'static> Proxy<T> {
    /// Writes a message from outside the handlers; returns when it is accepted, which is the back-pressure.
    ///
    /// # Errors
    /// [`Kind::Closed`] when no app that reads it is running or it is shutting down; [`Kind::Sink`] when it is full and
    /// declared with [`Overflow::Error`].
    ///
    /// # Cancel safety
    /// Dropped before it returned, the message is either accepted or not; it is never half-way.
    ///
    /// ```
    /// use slipstream::Kind;
    /// use slipstream::prelude::*;
    ///
    /// # slipstream::testing::block_on(async {
    /// let orders: Proxy<u32> = Proxy::named("orders").external();
    /// assert_eq!(orders.send(1).await.unwrap_err().kind(), Kind::Closed); // nobody reads it yet
    ///
    /// let run = App::new().handle(orders.clone(), |n: u32| n, print).run();
    /// let handle = run.handle();
    /// let client = async move |_stop| {
    ///     orders.send(2).await?;
    ///     Ok(handle.trigger()) // what was accepted is still handled
    /// };
    /// run.beside(client).await
    /// # }).unwrap();
    /// ```
    pub async fn send(&self, message: T) -> Result<()> {
        self.channel()?.send_external(message).await.map(drop)
    }

    /// Writes a message from outside and waits until it is done: handled, and everything behind it acknowledged.
    ///
    /// # Errors
    /// As [`send`](Self::send); the error of the handler or sink that failed; [`Kind::Abandoned`] when the app ended
    /// before.
    ///
    /// # Cancel safety
    /// As [`send`](Self::send); a message that was accepted is handled whether or not this future is kept.
    ///
    /// ```
    /// use slipstream::Kind;
    /// use slipstream::prelude::*;
    ///
    /// # slipstream::testing::block_on(async {
    /// let orders: Proxy<u32> = Proxy::named("orders").external();
    /// let check = |n: u32| if n > 9 { Err(std::io::Error::other("too many")) } else { Ok(n) };
    /// let run = App::new().handle(orders.clone(), check, print).run();
    /// let client = async move |_stop| {
    ///     orders.deliver(3).await?; // handled and printed
    ///     assert_eq!(orders.deliver(10).await.unwrap_err().kind(), Kind::Handler);
    ///     Ok(())
    /// };
    /// assert_eq!(run.beside(client).await.unwrap_err().kind(), Kind::Handler); // the first error ends the run
    /// # });
    /// ```
    pub async fn deliver(&self, message: T) -> Result<()> {
        let mut tracker = self.channel()?.send_external(message).await?;
        std::future::poll_fn(|cx| tracker.poll_done(cx)).await
    }
}

impl<T> Clone for Proxy<T> {
    fn clone(&self) -> Self {
        let slot = OnceLock::from(Arc::clone(self.slot()));
        Self {
            name: self.name.clone(),
            capacity: self.capacity,
            overflow: self.overflow,
            external: self.external,
            slot,
        }
    }
}
