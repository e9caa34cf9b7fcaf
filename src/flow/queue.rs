//! A bounded queue between tasks of one process: many writers, one reader that takes everything at once.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;

use super::WakerSet;

/// What became of a value offered to a [`Queue`].
pub(crate) enum Push<T> {
    Taken,
    /// No room: here it is back.
    Full(T),
    /// The reader is gone or the queue was closed: here it is back.
    Closed(T),
}

/// Bounded by count and by bytes; the reader swaps the whole queue out, so that a message costs one short lock.
/// What the reader has swapped out no longer counts, so at most twice the bound is in memory.
pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    max_items: usize,
    max_bytes: usize,
    reader: AtomicWaker,
    writers: WakerSet,
}

struct Inner<T> {
    items: VecDeque<T>,
    bytes: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new(max_items: usize, max_bytes: usize) -> Self {
        let inner = Inner { items: VecDeque::new(), bytes: 0, closed: false };
        Self {
            inner: Mutex::new(inner),
            max_items,
            max_bytes,
            reader: AtomicWaker::new(),
            writers: WakerSet::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, inner: &Inner<T>, bytes: usize) -> bool {
        inner.items.is_empty() || (inner.items.len() < self.max_items && inner.bytes + bytes <= self.max_bytes)
    }

    /// Offers a value without waiting.
    #[inline]
    pub(crate) fn push(&self, item: T, bytes: usize) -> Push<T> {
        let mut inner = self.lock();
        if inner.closed {
            return Push::Closed(item);
        }
        if !self.has_room(&inner, bytes) {
            return Push::Full(item);
        }
        inner.bytes += bytes;
        inner.items.push_back(item);
        let first = inner.items.len() == 1;
        drop(inner);
        if first {
            self.reader.wake();
        }
        Push::Taken
    }

    /// Drops the oldest values until `item` fits; returns what was dropped.
    pub(crate) fn push_dropping_oldest(&self, item: T, bytes: usize) -> (Push<T>, Vec<T>) {
        let mut dropped = Vec::new();
        let mut inner = self.lock();
        while !inner.closed && !self.has_room(&inner, bytes) {
            dropped.extend(inner.items.pop_front());
        }
        drop(inner);
        (self.push(item, bytes), dropped)
    }

    /// Puts everything of `batch` in, whatever the bound; for a writer that asks [`Self::room`] first.
    pub(crate) fn push_batch(&self, batch: &mut Vec<T>, bytes: usize) {
        if batch.is_empty() {
            return;
        }
        let mut inner = self.lock();
        if inner.closed {
            batch.clear();
            return;
        }
        inner.bytes += bytes;
        let first = inner.items.is_empty();
        inner.items.extend(batch.drain(..));
        drop(inner);
        if first {
            self.reader.wake();
        }
    }

    /// How many more values fit now, by the two bounds; 0 when it is full.
    pub(crate) fn room(&self) -> usize {
        let inner = self.lock();
        if inner.closed || (inner.bytes >= self.max_bytes && !inner.items.is_empty()) {
            return 0;
        }
        self.max_items.saturating_sub(inner.items.len())
    }

    /// Registers a writer to be woken when there is room; ready if there is some now (or the queue is closed).
    pub(crate) fn poll_room(&self, bytes: usize, cx: &Context<'_>) -> Poll<()> {
        self.writers.register(cx);
        let inner = self.lock();
        if inner.closed || self.has_room(&inner, bytes) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Moves all that is queued into `batch`, which must be empty. `Ready(false)`: closed and nothing left.
    pub(crate) fn poll_take(&self, batch: &mut VecDeque<T>, cx: &Context<'_>) -> Poll<bool> {
        if let Some(open) = self.try_take(batch) {
            return Poll::Ready(open);
        }
        self.reader.register(cx.waker());
        match self.try_take(batch) {
            Some(open) => Poll::Ready(open),
            None => Poll::Pending,
        }
    }

    fn try_take(&self, batch: &mut VecDeque<T>) -> Option<bool> {
        let mut inner = self.lock();
        if inner.items.is_empty() {
            return inner.closed.then_some(false);
        }
        std::mem::swap(&mut inner.items, batch);
        inner.bytes = 0;
        drop(inner);
        self.writers.wake_all();
        Some(true)
    }

    /// No more values; what is queued can still be read.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.reader.wake();
        self.writers.wake_all();
    }

    /// Closes and drops what is queued.
    pub(crate) fn discard(&self) {
        let dropped = {
            let mut inner = self.lock();
            inner.closed = true;
            inner.bytes = 0;
            std::mem::take(&mut inner.items)
        };
        drop(dropped);
        self.reader.wake();
        self.writers.wake_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::Arc;

    async fn take(queue: &Queue<u32>) -> Option<VecDeque<u32>> {
        let mut batch = VecDeque::new();
        poll_fn(|cx| queue.poll_take(&mut batch, cx)).await.then_some(batch)
    }

    #[tokio::test]
    async fn a_full_queue_makes_its_writer_wait_until_it_is_read() {
        let queue = Arc::new(Queue::new(2, 100));
        assert!(matches!(queue.push(1, 1), Push::Taken));
        assert!(matches!(queue.push(2, 1), Push::Taken));
        assert!(matches!(queue.push(3, 1), Push::Full(3)));
        let writer = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { poll_fn(|cx| queue.poll_room(1, cx)).await }
        });
        tokio::task::yield_now().await;
        assert!(!writer.is_finished());
        assert_eq!(take(&queue).await, Some(VecDeque::from([1, 2])));
        assert!(writer.await.is_ok());
    }

    #[tokio::test]
    async fn a_closed_queue_gives_what_it_has_and_then_ends() {
        let queue = Queue::new(2, 100);
        assert!(matches!(queue.push(1, 1), Push::Taken));
        queue.close();
        assert!(matches!(queue.push(2, 1), Push::Closed(2)));
        assert_eq!(take(&queue).await, Some(VecDeque::from([1])));
        assert_eq!(take(&queue).await, None);
    }

    #[tokio::test]
    async fn one_value_larger_than_the_bound_passes_alone() {
        let queue = Queue::new(8, 10);
        assert!(matches!(queue.push(1, 50), Push::Taken));
        assert!(matches!(queue.push(2, 1), Push::Full(2)));
        let (push, dropped) = queue.push_dropping_oldest(3, 1);
        assert!(matches!(push, Push::Taken));
        assert_eq!(dropped, [1]);
    }
}
