//! Copies a record out of librdkafka's memory.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Bytes, BytesMut};
use rdkafka::Timestamp as Stamp;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Headers as _, Message as _};

use crate::message::{Headers, Record, Timestamp};

/// The name of a header whose own name is not UTF-8.
const UNREADABLE: &str = "\u{fffd}";

/// Small payloads share buffers of this size: an allocation per record that another thread frees costs more than all
/// else that is done with it here.
const BUFFER_BYTES: usize = 4096;
/// What is larger has a buffer of its own, so that whoever keeps a record keeps at most a few kilobytes beside it.
const SHARED_MAX_BYTES: usize = 512;

/// Copies records.
#[derive(Default)]
pub(super) struct Copier {
    buffer: BytesMut,
}

impl Copier {
    /// The record with its own copy of everything.
    #[inline]
    pub(super) fn copy(&mut self, message: &BorrowedMessage<'_>) -> Record {
        let (key, value) = self.payload(message.key(), message.payload());
        Record {
            key,
            value,
            headers: message.headers().map(copy_headers).unwrap_or_default(),
            timestamp: match message.timestamp() {
                Stamp::NotAvailable => Timestamp::None,
                Stamp::CreateTime(millis) => Timestamp::Created(millis),
                Stamp::LogAppendTime(millis) => Timestamp::Appended(millis),
            },
            offset: message.offset(),
        }
    }

    #[inline]
    fn payload(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) -> (Option<Bytes>, Option<Bytes>) {
        let size = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        if size > SHARED_MAX_BYTES {
            return (key.map(Bytes::copy_from_slice), value.map(Bytes::copy_from_slice));
        }
        if self.buffer.capacity() - self.buffer.len() < size {
            self.buffer = BytesMut::with_capacity(BUFFER_BYTES);
        }
        (key.map(|key| self.piece(key)), value.map(|value| self.piece(value)))
    }

    #[inline]
    fn piece(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        self.buffer.extend_from_slice(bytes);
        self.buffer.split().freeze()
    }
}

fn copy_headers(headers: &BorrowedHeaders) -> Headers {
    let mut copy = Headers::new();
    for index in 0..headers.count() {
        // The wrapper panics on a name that is not UTF-8, which Kafka forbids and brokers let through.
        let header = catch_unwind(AssertUnwindSafe(|| headers.try_get(index)));
        match header {
            Ok(Some(header)) => copy.push(header.key.to_owned(), header.value.map(Bytes::copy_from_slice)),
            Ok(None) => break,
            Err(_) => copy.push(UNREADABLE.to_owned(), None),
        }
    }
    copy
}
