//! What a topic takes as a sink and in `send`.

use crate::error::Result;
use crate::handler::One;
use crate::message::{Headers, Message};

/// A record before it is encoded.
#[derive(Debug, Clone)]
pub struct Parts<V, K> {
    /// The key.
    pub key: Option<K>,
    /// The value.
    pub value: V,
    /// Its headers.
    pub headers: Headers,
    /// When it was made, in milliseconds since 1970-01-01 UTC; `None` or 0: now.
    pub timestamp: Option<i64>,
}

/// What a `Topic<V, K>` takes: `V`, `(K, V)`, `(Option<K>, V)`, `(K, V, Headers)`, `(Option<K>, V, Headers)` or a
/// [`Message`]. A bare value that is itself a pair is wrapped in [`One`].
#[diagnostic::on_unimplemented(
    message = "a `Topic<{V}, {K}>` cannot take `{Self}`",
    note = "it takes the value, `(key, value)`, `(Option<key>, value)`, `(key, value, Headers)` or a `Message`"
)]
pub trait IntoRecord<V, K> {
    /// Its parts.
    fn into_parts(self) -> Parts<V, K>;
}

fn parts<V, K>(key: Option<K>, value: V, headers: Headers) -> Parts<V, K> {
    Parts { key, value, headers, timestamp: None }
}

impl<V, K> IntoRecord<V, K> for V {
    fn into_parts(self) -> Parts<V, K> {
        parts(None, self, Headers::new())
    }
}

impl<V, K> IntoRecord<V, K> for One<V> {
    fn into_parts(self) -> Parts<V, K> {
        parts(None, self.0, Headers::new())
    }
}

impl<V, K> IntoRecord<V, K> for (K, V) {
    fn into_parts(self) -> Parts<V, K> {
        parts(Some(self.0), self.1, Headers::new())
    }
}

impl<V, K> IntoRecord<V, K> for (Option<K>, V) {
    fn into_parts(self) -> Parts<V, K> {
        parts(self.0, self.1, Headers::new())
    }
}

impl<V, K> IntoRecord<V, K> for (K, V, Headers) {
    fn into_parts(self) -> Parts<V, K> {
        parts(Some(self.0), self.1, self.2)
    }
}

impl<V, K> IntoRecord<V, K> for (Option<K>, V, Headers) {
    fn into_parts(self) -> Parts<V, K> {
        parts(self.0, self.1, self.2)
    }
}

impl<V, K> IntoRecord<V, K> for Message<V, K> {
    fn into_parts(self) -> Parts<V, K> {
        let timestamp = self.timestamp.millis();
        Parts { key: self.key, value: self.value, headers: self.headers, timestamp }
    }
}

/// A key and a codec that may fail on it.
pub(crate) fn transpose<T>(option: Option<Result<Option<T>>>) -> Result<Option<T>> {
    option.transpose().map(Option::flatten)
}
