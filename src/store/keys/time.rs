//! Points in time and lengths of time. A time zone other than UTC is not part of a key: convert first.

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike, Utc};

use super::{AsKey, Key, malformed};
use crate::error::Result;

const NANOS_PER_SECOND: i32 = 1_000_000_000;

impl AsKey<DateTime<Utc>> for DateTime<Utc> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.timestamp().encode(out);
        // Up to 1,999,999,999 within a leap second, which chrono orders the same way.
        self.timestamp_subsec_nanos().encode(out);
    }
}

impl Key for DateTime<Utc> {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        let (seconds, nanos) = Key::decode(bytes)?;
        Self::from_timestamp(seconds, nanos).ok_or_else(|| malformed::<Self>("out of range"))
    }
}

impl AsKey<NaiveDateTime> for NaiveDateTime {
    fn encode(&self, out: &mut Vec<u8>) {
        AsKey::<DateTime<Utc>>::encode(&self.and_utc(), out);
    }
}

impl Key for NaiveDateTime {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        DateTime::<Utc>::decode(bytes).map(|time| time.naive_utc())
    }
}

impl AsKey<NaiveDate> for NaiveDate {
    fn encode(&self, out: &mut Vec<u8>) {
        self.num_days_from_ce().encode(out);
    }
}

impl Key for NaiveDate {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        let days = i32::decode(bytes)?;
        Self::from_num_days_from_ce_opt(days).ok_or_else(|| malformed::<Self>("out of range"))
    }
}

impl AsKey<NaiveTime> for NaiveTime {
    fn encode(&self, out: &mut Vec<u8>) {
        self.num_seconds_from_midnight().encode(out);
        self.nanosecond().encode(out);
    }
}

impl Key for NaiveTime {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        let (seconds, nanos) = Key::decode(bytes)?;
        Self::from_num_seconds_from_midnight_opt(seconds, nanos).ok_or_else(|| malformed::<Self>("out of range"))
    }
}

impl AsKey<TimeDelta> for TimeDelta {
    fn encode(&self, out: &mut Vec<u8>) {
        // Both parts of a negative length are negative; with the seconds rounded down they sort.
        let (mut seconds, mut nanos) = (self.num_seconds(), self.subsec_nanos());
        if nanos < 0 {
            seconds -= 1;
            nanos += NANOS_PER_SECOND;
        }
        seconds.encode(out);
        nanos.unsigned_abs().encode(out);
    }
}

impl Key for TimeDelta {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        let (seconds, nanos) = Key::decode(bytes)?;
        Self::new(seconds, nanos).ok_or_else(|| malformed::<Self>("out of range"))
    }
}

impl AsKey<std::time::Duration> for std::time::Duration {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_secs().encode(out);
        self.subsec_nanos().encode(out);
    }
}

impl Key for std::time::Duration {
    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        let (seconds, nanos): (u64, u32) = Key::decode(bytes)?;
        if nanos < NANOS_PER_SECOND.unsigned_abs() {
            Ok(Self::new(seconds, nanos))
        } else {
            Err(malformed::<Self>("out of range"))
        }
    }
}
