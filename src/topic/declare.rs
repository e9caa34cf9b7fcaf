//! The declaration of a topic.

use std::sync::{Arc, OnceLock};

use super::driver::{OutOfRange, Receipt, SeekTo, Start};
use super::open::{OpenTopic, Slot};
use super::record::IntoRecord;
use super::{Admin, sink};
use crate::codec::{Codec, DefaultCodec};
use crate::error::Result;
use crate::flow::{Gate, NodeId};
use crate::sink::MapSink;
use crate::util::Name;

/// A topic on a broker: a source of [`Message`](crate::Message)s, and a sink.
///
/// A declaration does nothing by itself: an app opens what its handlers use, under its own configuration, which also
/// says on which broker topics live (`broker = kafka://host:port`, `memory:`).
///
/// As a source it is read by the app's group, in parallel by partition and in order within one, and the group's
/// position moves when everything that a message caused is done. As a sink it takes `V`, `(K, V)`, `(Option<K>, V)`,
/// `(K, V, Headers)` or a `Message<V, K>`; records are acknowledged as they are stored, without waiting in between.
///
/// Keys and values are UTF-8 for `String`, bytes for `Bytes` and `Vec<u8>`, JSON for other serde types, unless a codec
/// says otherwise. `Topic<Option<V>>` knows tombstones.
///
/// ```
/// use slipstream::prelude::*;
///
/// static WORDS: Topic<String> = Topic::new("words");
/// static LENGTHS: Topic<usize> = Topic::new("lengths");
///
/// # slipstream::testing::block_on(async {
/// let app = App::new()
///     .conf(Conf::isolated().with("broker", "memory:"))
///     .handle(stream::iter(["a", "bcd"]), |word: &'static str| word.to_owned(), &WORDS)
///     .handle(&WORDS, |word: String| (word.clone(), word.len()), &LENGTHS)
///     .handle(&LENGTHS, |message: Message<usize>| message.value, print);
/// let run = app.run();
/// let handle = run.handle();
/// let read = || handle.stats().handled("lengths") == 2;
/// let stop = async { slipstream::testing::until(read).await; handle.trigger(); Ok(()) };
/// futures::try_join!(run.into_future(), stop).map(drop)
/// # }).unwrap();
/// ```
pub struct Topic<V: 'static, K: 'static = String> {
    pub(super) name: Name,
    pub(super) value: &'static dyn Codec<V>,
    pub(super) key: &'static dyn Codec<K>,
    pub(super) start: Option<Start>,
    pub(super) out_of_range: OutOfRange,
    pub(super) partitions: Option<u32>,
    pub(super) broadcast: bool,
    pub(super) dry: bool,
    pub(super) stable_ids: bool,
    pub(super) conf: &'static [(&'static str, &'static str)],
    slot: OnceLock<Arc<Slot>>,
}

impl<V: DefaultCodec, K: DefaultCodec> Topic<V, K> {
    /// A topic with the default codecs of its types.
    pub const fn new(name: &'static str) -> Self {
        Self::make(Name::Fixed(name), V::CODEC, K::CODEC)
    }

    /// The same with a name made at run time.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self::make(Name::Made(name.into()), V::CODEC, K::CODEC)
    }
}

impl<V, K: DefaultCodec> Topic<V, K> {
    /// A topic whose values have a codec of their own.
    ///
    /// ```
    /// use slipstream::codec::MessagePack;
    /// use slipstream::Topic;
    ///
    /// static POINTS: Topic<(f64, f64)> = Topic::with_codec("points", &MessagePack);
    /// # assert_eq!(POINTS.name(), "points");
    /// ```
    pub const fn with_codec(name: &'static str, codec: &'static dyn Codec<V>) -> Self {
        Self::make(Name::Fixed(name), codec, K::CODEC)
    }
}

impl<V, K> Topic<V, K> {
    const fn make(name: Name, value: &'static dyn Codec<V>, key: &'static dyn Codec<K>) -> Self {
        Self {
            name,
            value,
            key,
            start: None,
            out_of_range: OutOfRange::Stop,
            partitions: None,
            broadcast: false,
            dry: false,
            stable_ids: false,
            conf: &[],
            slot: OnceLock::new(),
        }
    }

    /// The codec of values.
    #[must_use]
    pub const fn codec(mut self, codec: &'static dyn Codec<V>) -> Self {
        self.value = codec;
        self
    }

    /// The codec of keys.
    #[must_use]
    pub const fn key_codec(mut self, codec: &'static dyn Codec<K>) -> Self {
        self.key = codec;
        self
    }

    /// Where reading begins where the group has no position. Default: [`Start::Earliest`], or what `auto.offset.reset`
    /// says. Committed as soon as it is resolved.
    #[must_use]
    pub const fn start(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }

    /// What to do when the log no longer has the group's position. Default: [`OutOfRange::Stop`].
    #[must_use]
    pub const fn out_of_range(mut self, policy: OutOfRange) -> Self {
        self.out_of_range = policy;
        self
    }

    /// Creates the topic with this many partitions when it is missing. Without it, a missing topic on Kafka is waited
    /// for; `embedded:` and `memory:` create it with 4. On `booblik://` no app can create a topic: it is waited for.
    #[must_use]
    pub const fn partitions(mut self, count: u32) -> Self {
        self.partitions = Some(count);
        self
    }

    /// Read whole by every member, without a group: each app keeps its positions itself, in its state directory.
    #[must_use]
    pub const fn broadcast(mut self) -> Self {
        self.broadcast = true;
        self
    }

    /// As a sink it writes nothing and says so once; reading is not affected.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry = true;
        self
    }

    /// As a sink of a handler that reads a topic, it writes a [`StableId`](crate::StableId) into the headers of each
    /// record: equal for outputs that are repeated, since their message was handled again. Other sources and pipes are
    /// refused, their messages have no place in a log, and so is `encoding = "plain"`, which has no headers. Readers can
    /// drop repetitions with `table::SeenIds`, whose page has an example. [`send`](Self::send) writes none.
    #[must_use]
    pub const fn stable_ids(mut self) -> Self {
        self.stable_ids = true;
        self
    }

    /// Configuration of its own, above everything but the file's `[topic.<name>]`.
    #[must_use]
    pub const fn conf(mut self, settings: &'static [(&'static str, &'static str)]) -> Self {
        self.conf = settings;
        self
    }

    /// A function in front of it, as a sink.
    pub fn map<T, U, F: Fn(T) -> U>(&self, map: F) -> MapSink<Self, F> {
        crate::sink::map(self.clone(), map)
    }

    /// The declared name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    pub(super) fn node(&self) -> NodeId {
        NodeId { kind: "topic", name: Arc::from(self.name()), id: 0 }
    }

    pub(super) fn slot(&self) -> &Arc<Slot> {
        self.slot.get_or_init(Arc::default)
    }

    /// Writes one record and waits until the broker has it. Inside an app that uses the topic it shares the app's
    /// connection; elsewhere the topic is opened under the process-wide configuration, until [`close`](Self::close).
    ///
    /// # Errors
    /// [`Kind::Encode`](crate::Kind::Encode), [`Kind::TooLarge`](crate::Kind::TooLarge),
    /// [`Kind::UnknownTopic`](crate::Kind::UnknownTopic), [`Kind::Broker`](crate::Kind::Broker), errors of opening.
    ///
    /// # Cancel safety
    /// Dropped after the record was taken, it is still written; only the answer is lost.
    ///
    /// ```
    /// use slipstream::prelude::*;
    /// use slipstream::topic::Memory;
    ///
    /// # slipstream::testing::block_on(async {
    /// let _kept = Memory::named("send");
    /// let words: Topic<String> = Topic::new("words").conf(&[("broker", "memory:send")]);
    /// let first = words.send((String::from("key"), String::from("value"))).await?;
    /// let second = words.send((String::from("key"), String::from("another"))).await?;
    /// assert_eq!((second.partition, second.offset), (first.partition, first.offset + 1));
    /// words.close().await
    /// # }).unwrap();
    /// ```
    pub async fn send<T: IntoRecord<V, K>>(&self, record: T) -> Result<Receipt> {
        let open = self.slot().open_or(|| OpenTopic::on_demand(self))?;
        let outgoing = sink::encode(self, &open.name, record.into_parts())?;
        if self.dry {
            open.say_dry();
            return Ok(Receipt { partition: -1, offset: -1 });
        }
        open.send(outgoing, self.partitions).await
    }

    /// Closes what [`send`](Self::send) or [`admin`](Self::admin) opened outside an app; what was written is flushed.
    ///
    /// # Errors
    /// When records could not be written within 30 s.
    pub async fn close(&self) -> Result<()> {
        self.slot().close().await
    }

    /// Moves the partitions that the running app has at this moment to a place, and commits that. Partitions of other
    /// members of the group are not moved, also not when they come here later. An app that has none of the topic's
    /// partitions yet moves those of the first assignment that comes, and of no later one. All targets are checked
    /// before anything moves.
    ///
    /// # Errors
    /// [`Kind::Seek`](crate::Kind::Seek) when a target is outside the log; [`Kind::Closed`](crate::Kind::Closed) when no
    /// running app reads the topic.
    ///
    /// ```
    /// use slipstream::Kind;
    /// use slipstream::prelude::*;
    /// use slipstream::topic::SeekTo;
    ///
    /// # slipstream::testing::block_on(async {
    /// let numbers: Topic<u32> = Topic::named("numbers");
    /// assert_eq!(numbers.seek(SeekTo::End).await.unwrap_err().kind(), Kind::Closed); // nobody reads it
    ///
    /// let run = App::new()
    ///     .conf(Conf::isolated().with("broker", "memory:"))
    ///     .handle(stream::iter(0..3), |n: u32| n, numbers.clone())
    ///     .handle(numbers.clone(), |n: u32| n, print)
    ///     .run();
    /// let handle = run.handle();
    /// let again = async move |_stop| {
    ///     slipstream::testing::until(|| handle.stats().handled("numbers") == 3).await;
    ///     numbers.seek(SeekTo::Beginning).await?;
    ///     slipstream::testing::until(|| handle.stats().handled("numbers") == 6).await;
    ///     Ok(handle.trigger())
    /// };
    /// run.beside(again).await
    /// # }).unwrap();
    /// ```
    pub async fn seek(&self, to: SeekTo) -> Result<()> {
        self.slot().seek(self.name(), to).await
    }

    /// Pauses reading: what is in hand is finished, nothing more is begun, in this and later assignments, until
    /// [`resume`](Self::resume). The group membership is kept and nothing is lost.
    ///
    /// ```
    /// use slipstream::Topic;
    ///
    /// static WORDS: Topic<String> = Topic::new("words");
    ///
    /// WORDS.pause();
    /// assert_eq!(WORDS.gate().reasons(), ["user"]);
    /// WORDS.resume();
    /// assert!(WORDS.gate().is_open());
    /// ```
    pub fn pause(&self) {
        self.gate().pause("user");
    }

    /// Ends the pause of [`pause`](Self::pause).
    pub fn resume(&self) {
        self.gate().resume("user");
    }

    /// By whom the topic is paused.
    pub fn gate(&self) -> &Gate {
        self.slot().gate()
    }

    /// Management of the topic on its broker; opens it like [`send`](Self::send).
    ///
    /// # Errors
    /// Errors of opening.
    pub fn admin(&self) -> Result<Admin> {
        let open = self.slot().open_or(|| OpenTopic::on_demand(self))?;
        Admin::new(&open)
    }
}

impl<V, K> Clone for Topic<V, K> {
    /// The same topic: clones share what is open of it.
    fn clone(&self) -> Self {
        let slot = OnceLock::from(Arc::clone(self.slot()));
        Self { name: self.name.clone(), slot, ..*self }
    }
}

impl<V, K> std::fmt::Debug for Topic<V, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topic").field("name", &self.name()).finish_non_exhaustive()
    }
}
