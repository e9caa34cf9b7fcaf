//! The `envelope` encoding: key, headers, timestamp and the difference between null and empty, in the bytes of one
//! record. Pure: bytes in, bytes out.
//!
//! Integers are big-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 3 | the mark `F5 62 65`: `F5` begins no UTF-8 |
//! | 1 | the version: 1 |
//! | 1 | what there is: 1 a key, 2 a value, 4 headers; the other bits are 0 |
//! | 8 | when the record was made, `i64` milliseconds since 1970-01-01 UTC |
//! | 4 | bytes of the key, `u32`; only with a key |
//! | 4 | bytes of the headers, `u32`; only with headers |
//! | 4 | CRC-32C of all bytes above, followed by the length of the whole envelope as `u32` |
//! | … | the key, the headers, the value: what is left is the value's |
//!
//! A header is `u32` bytes of its name, the name in UTF-8, `i32` bytes of its value or −1 for null, the value.
//!
//! What is not exactly this is no envelope: its bytes are the value of a record without a key. That holds also for
//! records of others that begin with the mark by chance.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use crc32c::{crc32c, crc32c_append};

use crate::message::{Headers, Record, Timestamp};
use crate::topic::driver::Outgoing;

const MARK: [u8; 3] = [0xF5, b'b', b'e'];
const VERSION: u8 = 1;
const KEY: u8 = 1;
const VALUE: u8 = 2;
const HEADERS: u8 = 4;
/// Mark, version, flags, timestamp.
#[cfg(test)]
const FIXED_BYTES: usize = 13;
const NULL: i32 = -1;

/// Puts the envelope of `record` into `out`, in the place of what is there; `now` is the time of a record that has none.
/// A record that no log takes is cut short in its lengths: the log refuses it by its size.
pub(super) fn encode(record: &Outgoing, now: i64, out: &mut Vec<u8>) {
    let (key, value) = (record.key.as_ref(), record.value.as_ref());
    let has_headers = !record.headers.is_empty();
    let headers_bytes = record.headers.iter().map(|(name, value)| header_bytes(name, value.as_ref())).sum();
    let flags = flag(key.is_some(), KEY) | flag(value.is_some(), VALUE) | flag(has_headers, HEADERS);
    out.clear();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&[VERSION, flags]);
    out.extend_from_slice(&record.timestamp.unwrap_or(now).to_be_bytes());
    if let Some(key) = key {
        out.extend_from_slice(&size(key.len()));
    }
    if has_headers {
        out.extend_from_slice(&size(headers_bytes));
    }
    let total = out.len() + 4 + key.map_or(0, Bytes::len) + headers_bytes + value.map_or(0, Bytes::len);
    let crc = checksum(out, total);
    out.reserve(total - out.len());
    out.extend_from_slice(&crc.to_be_bytes());
    out.extend_from_slice(key.map_or(&[][..], |key| key));
    for (name, value) in &record.headers {
        put_header(name, value.as_ref(), out);
    }
    out.extend_from_slice(value.map_or(&[][..], |value| value));
}

/// The time of a record that has none, in milliseconds since 1970-01-01 UTC.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The record at `offset` whose payload is `stored[at]`; its parts share the memory of `stored`.
pub(super) fn decode(stored: &Bytes, at: Range<usize>, offset: i64) -> Record {
    let payload = stored.get(at.clone()).unwrap_or_default();
    let slice = |part: Range<usize>| stored.slice(at.start + part.start..at.start + part.end);
    match parse(payload) {
        Some(found) => Record {
            key: found.key.map(slice),
            value: found.value.map(slice),
            headers: found.headers.map(|part| headers(stored, at.start + part.start, part.len())).unwrap_or_default(),
            timestamp: Timestamp::Created(found.timestamp),
            offset,
        },
        None => Record { value: Some(slice(0..payload.len())), offset, ..Record::default() },
    }
}

/// Where the parts of an envelope are.
#[derive(Debug)]
struct Found {
    timestamp: i64,
    key: Option<Range<usize>>,
    headers: Option<Range<usize>>,
    value: Option<Range<usize>>,
}

/// `None` for what is no envelope.
#[inline]
fn parse(payload: &[u8]) -> Option<Found> {
    let mut rest = payload.strip_prefix(&MARK)?;
    let [version, flags] = take(&mut rest)?;
    if version != VERSION || flags & !(KEY | VALUE | HEADERS) != 0 {
        return None;
    }
    let timestamp = i64::from_be_bytes(take(&mut rest)?);
    let key_bytes = if flags & KEY == 0 { 0 } else { u32::from_be_bytes(take(&mut rest)?) as usize };
    let headers_bytes = if flags & HEADERS == 0 { 0 } else { u32::from_be_bytes(take(&mut rest)?) as usize };
    let prefix = payload.get(..payload.len() - rest.len())?;
    if u32::from_be_bytes(take(&mut rest)?) != checksum(prefix, payload.len()) {
        return None;
    }
    let key = prefix.len() + 4..(prefix.len() + 4).checked_add(key_bytes)?;
    let headers = key.end..key.end.checked_add(headers_bytes)?;
    let value = headers.end..payload.len();
    if value.start > value.end || (flags & VALUE == 0 && !value.is_empty()) {
        return None;
    }
    if flags & HEADERS != 0 && !are_headers(payload.get(headers.clone())?) {
        return None;
    }
    let part = |bit, range| (flags & bit != 0).then_some(range);
    Some(Found { timestamp, key: part(KEY, key), headers: part(HEADERS, headers), value: part(VALUE, value) })
}

fn checksum(prefix: &[u8], total: usize) -> u32 {
    crc32c_append(crc32c(prefix), &size(total))
}

fn flag(is_set: bool, bit: u8) -> u8 {
    if is_set { bit } else { 0 }
}

fn size(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()
}

#[inline]
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}

// ---- headers --------------------------------------------------------------------------------------------------------

fn header_bytes(name: &str, value: Option<&Bytes>) -> usize {
    8 + name.len() + value.map_or(0, Bytes::len)
}

fn put_header(name: &str, value: Option<&Bytes>, out: &mut Vec<u8>) {
    let value_bytes = value.map_or(NULL, |value| i32::try_from(value.len()).unwrap_or(i32::MAX));
    out.extend_from_slice(&size(name.len()));
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&value_bytes.to_be_bytes());
    out.extend_from_slice(value.map_or(&[][..], |value| value));
}

/// The next header of `rest`, which moves behind it: its name, and the bytes of its value.
fn next_header<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, Option<usize>)> {
    let name_bytes = u32::from_be_bytes(take(rest)?) as usize;
    let (name, tail) = rest.split_at_checked(name_bytes)?;
    *rest = tail;
    let value_bytes = match i32::from_be_bytes(take(rest)?) {
        NULL => None,
        bytes => Some(usize::try_from(bytes).ok()?),
    };
    *rest = rest.get(value_bytes.unwrap_or(0)..)?;
    Some((std::str::from_utf8(name).ok()?, value_bytes))
}

fn are_headers(mut section: &[u8]) -> bool {
    while !section.is_empty() {
        if next_header(&mut section).is_none() {
            return false;
        }
    }
    true
}

fn headers(stored: &Bytes, start: usize, bytes: usize) -> Headers {
    let section = stored.get(start..start + bytes).unwrap_or_default();
    let mut rest = section;
    let mut headers = Headers::new();
    while let Some((name, value_bytes)) = next_header(&mut rest) {
        let end = start + section.len() - rest.len();
        headers.push(name.to_owned(), value_bytes.map(|bytes| stored.slice(end - bytes..end)));
    }
    headers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(record: &Outgoing) -> Bytes {
        let mut out = Vec::new();
        encode(record, 7, &mut out);
        out.into()
    }

    fn read(payload: &Bytes) -> Record {
        decode(payload, 0..payload.len(), 3)
    }

    fn bytes() -> impl Strategy<Value = Option<Bytes>> {
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from))
    }

    fn outgoing() -> impl Strategy<Value = Outgoing> {
        let headers = proptest::collection::vec((".{0,8}", bytes()), 0..4);
        (bytes(), bytes(), headers, proptest::option::of(any::<i64>())).prop_map(|(key, value, pairs, timestamp)| {
            let mut headers = Headers::new();
            pairs.into_iter().for_each(|(name, value)| headers.push(name, value));
            Outgoing { topic: "t".into(), partition: None, key, value, headers, timestamp }
        })
    }

    /// What another program wrote: only a value.
    fn is_plain(record: &Record, payload: &Bytes) -> bool {
        *record == Record { value: Some(payload.clone()), offset: 3, ..Record::default() }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(record in outgoing()) {
            let read = read(&encoded(&record));
            prop_assert_eq!(read.key, record.key);
            prop_assert_eq!(read.value, record.value);
            prop_assert_eq!(read.headers, record.headers);
            prop_assert_eq!(read.timestamp, Timestamp::Created(record.timestamp.unwrap_or(7)));
        }

        #[test]
        fn any_bytes_are_a_record(payload in proptest::collection::vec(any::<u8>(), 1..200)) {
            let payload = Bytes::from(payload);
            prop_assert!(is_plain(&read(&payload), &payload));
        }

        #[test]
        fn a_foreign_record_that_begins_alike_is_a_value(tail in proptest::collection::vec(any::<u8>(), 0..60), flags in 0_u8..8) {
            let payload = Bytes::from([&MARK[..], &[VERSION, flags], &tail].concat());
            prop_assert!(is_plain(&read(&payload), &payload));
        }

        #[test]
        fn a_change_in_front_of_the_key_or_of_the_length_makes_it_a_value(
            record in outgoing(), at in 0_usize..17, bit in 0_u8..8, cut in 1_usize..9,
        ) {
            let good = encoded(&record);
            let mut bad = good.to_vec();
            bad[at] ^= 1 << bit;
            let bad = Bytes::from(bad);
            prop_assert!(is_plain(&read(&bad), &bad));
            let short = good.slice(..good.len() - cut);
            prop_assert!(is_plain(&read(&short), &short));
        }

        #[test]
        fn lengths_that_do_not_add_up_are_a_value_even_with_their_checksum(
            key in any::<u32>(), headers in any::<u32>(), tail in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut payload = [&MARK[..], &[VERSION, KEY | HEADERS | VALUE], &[0; 8]].concat();
            payload.extend_from_slice(&(key % 80).to_be_bytes());
            payload.extend_from_slice(&(headers % 80).to_be_bytes());
            let total = payload.len() + 4 + tail.len();
            let crc = checksum(&payload, total);
            payload.extend_from_slice(&crc.to_be_bytes());
            payload.extend_from_slice(&tail);
            let payload = Bytes::from(payload);
            let record = read(&payload);
            let fits = (key % 80) as usize + (headers % 80) as usize <= tail.len();
            prop_assert!(fits || is_plain(&record, &payload));
        }
    }

    #[test]
    fn the_bytes_are_those_that_are_documented() {
        let record = Outgoing {
            topic: "t".into(),
            partition: None,
            key: Some("k".into()),
            value: Some("value".into()),
            headers: Headers::new().with_null("h"),
            timestamp: Some(258),
        };
        let payload = encoded(&record);
        let (prefix, rest) = payload.split_at(FIXED_BYTES + 8);
        assert_eq!(prefix, b"\xF5be\x01\x07\0\0\0\0\0\0\x01\x02\0\0\0\x01\0\0\0\x09");
        let (crc, rest) = rest.split_at(4);
        assert_eq!(crc, crc32c(&[prefix, &[0, 0, 0, 40]].concat()).to_be_bytes());
        assert_eq!((payload.len(), rest), (40, &b"k\0\0\0\x01h\xFF\xFF\xFF\xFFvalue"[..]));
    }

    #[test]
    fn null_and_empty_are_told_apart() {
        let record = |value| Outgoing {
            topic: "t".into(),
            partition: None,
            key: None,
            value,
            headers: Headers::new(),
            timestamp: None,
        };
        assert_eq!(read(&encoded(&record(None))).value, None);
        assert_eq!(read(&encoded(&record(Some(Bytes::new())))).value, Some(Bytes::new()));
    }
}
