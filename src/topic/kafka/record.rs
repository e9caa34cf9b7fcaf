//! Copies a record out of librdkafka's memory.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Bytes, BytesMut};
use rdkafka::Timestamp as Stamp;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Headers as _, Message as _};

use crate::message::{Headers, Record, Timestamp};

/// The name of a header whose own name is not UTF-8.
const UNREADABLE: &str = "\u{fffd}";

/// The record with its own copy of everything.
#[inline]
pub(super) fn copy(message: &BorrowedMessage<'_>) -> Record {
    let (key, value) = payload(message.key(), message.payload());
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

/// Key and value in one buffer when there are both.
#[inline]
fn payload(key: Option<&[u8]>, value: Option<&[u8]>) -> (Option<Bytes>, Option<Bytes>) {
    let (Some(key), Some(value)) = (key, value) else {
        return (key.map(Bytes::copy_from_slice), value.map(Bytes::copy_from_slice));
    };
    if key.is_empty() || value.is_empty() {
        return (Some(Bytes::copy_from_slice(key)), Some(Bytes::copy_from_slice(value)));
    }
    let mut buffer = BytesMut::with_capacity(key.len() + value.len());
    buffer.extend_from_slice(key);
    buffer.extend_from_slice(value);
    let mut value = buffer.freeze();
    (Some(value.split_to(key.len())), Some(value))
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
