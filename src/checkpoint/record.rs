//! What a checkpoint writes into a file of its own: the last outage that callbacks were told of, and the user's state.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use crc32c::crc32c;

use super::mark::{Mark, Span};
use super::outage::{Downtime, Lag, Outage, Snapshot, State, StateCodec};
use crate::error::{Error, Kind, Result};

const HEADER: &str = "slipstream-checkpoint\t1";
/// Begins the last line.
const CHECKSUM: &str = "checksum";

/// Lines of words between tabulators: a header with the version of the format, `number`, `state` in hexadecimal digits,
/// and while an outage is not over what is told of it; the last line is the CRC-32C of all bytes above it, in 8 hexadecimal digits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    /// Of the last outage that has begun.
    pub number: u64,
    /// That outage, until it is over.
    pub unfinished: Option<Arc<Outage>>,
    pub state: Option<State>,
}

impl Record {
    /// # Errors
    /// What the state's codec says.
    pub(super) fn encode(&self, codec: Option<StateCodec>) -> Result<String> {
        let mut text = format!("{HEADER}\nnumber\t{}\n", self.number);
        let state = |state: Option<&State>| encode_state(state, codec);
        text.push_str(&line("state", state(self.state.as_ref())?));
        if let Some(outage) = &self.unfinished {
            text.push_str(&line("outage", Some(outage.dependency.to_string())));
            for (name, lag) in outage.downtime.iter().flat_map(Downtime::iter) {
                text.push_str(&line("lag", Some(format!("{name}\t{}", encode_lag(lag)))));
            }
            for (which, snapshot) in [("healthy", &outage.healthy), ("detected", &outage.detected)] {
                text.push_str(&line(&format!("{which}.marker"), snapshot.marker.map(Mark::encode)));
                text.push_str(&line(&format!("{which}.state"), state(snapshot.state.as_ref())?));
                for (name, mark) in &snapshot.dependencies {
                    let mark = mark.map_or_else(|| "-".to_owned(), Mark::encode);
                    text.push_str(&line(&format!("{which}.dependency"), Some(format!("{name}\t{mark}"))));
                }
            }
        }
        let checksum = checksum(&text);
        Ok(text + &checksum)
    }

    /// # Errors
    /// [`Kind::Corrupt`] for what was not written like that; what the state's codec says.
    pub(super) fn decode(text: &str, checkpoint: &Arc<str>, codec: Option<StateCodec>) -> Result<Self> {
        let cut = || Error::new(Kind::Corrupt, "it was cut or edited");
        let last = text.trim_end_matches('\n').rfind('\n').ok_or_else(cut)? + 1;
        let (above, last) = text.split_at_checked(last).ok_or_else(cut)?;
        if last != checksum(above) || above.lines().next() != Some(HEADER) {
            return Err(cut());
        }
        let mut found = Found::default();
        for text in above.lines().skip(1) {
            found.take(text, codec)?.ok_or_else(cut)?;
        }
        let Found { number, state, outage, lags, healthy, detected } = found;
        let unfinished = outage.map(|dependency| {
            Arc::new(Outage {
                number,
                checkpoint: Arc::clone(checkpoint),
                dependency,
                downtime: Downtime::new(lags),
                healthy,
                detected,
                recovered: None,
                safe_offsets: Vec::new(),
            })
        });
        Ok(Self { number, unfinished, state })
    }
}

fn checksum(above: &str) -> String {
    format!("{CHECKSUM}\t{:08x}\n", crc32c(above.as_bytes()))
}

fn line(key: &str, value: Option<String>) -> String {
    value.map(|value| format!("{key}\t{value}\n")).unwrap_or_default()
}

fn encode_state(state: Option<&State>, codec: Option<StateCodec>) -> Result<Option<String>> {
    let Some((state, codec)) = state.zip(codec) else { return Ok(None) };
    let hex = |bytes: Bytes| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // into a string that does not fail
            text
        })
    };
    Ok((codec.encode)(state)?.map(hex))
}

fn decode_state(hex: &str, codec: Option<StateCodec>) -> Result<Option<State>> {
    // Of a version of the program that kept one.
    let Some(codec) = codec else { return Ok(None) };
    let digits: Option<Vec<u8>> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect();
    let bytes = digits.ok_or_else(|| Error::new(Kind::Corrupt, "its state is no hexadecimal number"))?;
    (codec.decode)(&bytes.into()).map(Some)
}

fn encode_lag(lag: Lag) -> String {
    match lag {
        Lag::By(span) => span.encode(),
        Lag::Unknown => "unknown".to_owned(),
        Lag::Recovering => "recovering".to_owned(),
    }
}

fn decode_lag(word: &str) -> Option<Lag> {
    match word {
        "unknown" => Some(Lag::Unknown),
        "recovering" => Some(Lag::Recovering),
        span => Span::decode(span).map(Lag::By),
    }
}

#[derive(Default)]
struct Found {
    number: u64,
    state: Option<State>,
    outage: Option<Arc<str>>,
    lags: BTreeMap<Arc<str>, Lag>,
    healthy: Snapshot,
    detected: Snapshot,
}

impl Found {
    /// `Ok(None)`: the line is none of this version's.
    fn take(&mut self, text: &str, codec: Option<StateCodec>) -> Result<Option<()>> {
        let Some((key, value)) = text.split_once('\t') else { return Ok(None) };
        Ok(match key.split_once('.') {
            Some(("healthy", key)) => return snapshot(&mut self.healthy, key, value, codec),
            Some(("detected", key)) => return snapshot(&mut self.detected, key, value, codec),
            Some(_) => None,
            None if key == "state" => {
                self.state = decode_state(value, codec)?;
                Some(())
            }
            None => self.word(key, value),
        })
    }

    fn word(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "number" => self.number = value.parse().ok()?,
            "outage" => self.outage = Some(Arc::from(value)),
            "lag" => {
                let (name, lag) = value.split_once('\t')?;
                self.lags.insert(Arc::from(name), decode_lag(lag)?);
            }
            _ => return None,
        }
        Some(())
    }
}

fn snapshot(own: &mut Snapshot, key: &str, value: &str, codec: Option<StateCodec>) -> Result<Option<()>> {
    Ok(match key {
        "marker" => Mark::decode(value).map(|mark| own.marker = Some(mark)),
        "state" => {
            own.state = decode_state(value, codec)?;
            Some(())
        }
        "dependency" => value.split_once('\t').and_then(|(name, mark)| {
            let mark = if mark == "-" { None } else { Some(Mark::decode(mark)?) };
            own.dependencies.push((Arc::from(name), mark));
            Some(())
        }),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Marker as _;

    fn record() -> Record {
        let state = |offset: i64| Some(Arc::new(offset) as State);
        let snapshot = |mark: i64, offset| Snapshot {
            marker: Some(mark.mark()),
            dependencies: vec![(Arc::from("weather"), Some(7.mark())), (Arc::from("news"), None)],
            state: state(offset),
        };
        let lags =
            [("weather", Lag::By(Span::from(3))), ("news", Lag::Unknown)].map(|(name, lag)| (Arc::from(name), lag));
        let outage = Outage {
            number: 4,
            checkpoint: Arc::from("join"),
            dependency: Arc::from("weather"),
            downtime: Downtime::new(lags.into()),
            healthy: snapshot(7, 1),
            detected: snapshot(10, 2),
            recovered: None,
            safe_offsets: Vec::new(),
        };
        Record { number: 4, unfinished: Some(Arc::new(outage)), state: state(3) }
    }

    #[test]
    fn what_is_written_comes_back() -> Result<()> {
        let codec = Some(StateCodec::of::<i64>());
        let whole = record();
        for record in [Record { unfinished: None, ..whole.clone() }, Record { state: None, ..whole.clone() }, whole] {
            let text = record.encode(codec)?;
            let back = Record::decode(&text, &Arc::from("join"), codec)?;
            assert_eq!(back.encode(codec)?, text);
            assert_eq!(format!("{:?}", back.unfinished), format!("{:?}", record.unfinished));
            let states = |record: &Record| record.state.as_ref().and_then(|state| state.downcast_ref::<i64>()).copied();
            assert_eq!(states(&back), states(&record));
        }
        Ok(())
    }

    #[test]
    fn a_file_that_was_cut_or_edited_is_noticed() -> Result<()> {
        let codec = Some(StateCodec::of::<i64>());
        let text = record().encode(codec)?;
        let read = |text: &str| Record::decode(text, &Arc::from("join"), codec);
        for cut in 0..text.len() {
            assert_eq!(read(&text[..cut]).unwrap_err().kind(), Kind::Corrupt, "cut at {cut}");
        }
        for (from, to) in [("number", "numbers"), ("checkpoint\t1", "checkpoint\t2"), ("c10", "x10"), ("\t4", "\tfour")]
        {
            assert_eq!(read(&text.replace(from, to)).unwrap_err().kind(), Kind::Corrupt, "{from}");
        }
        Ok(())
    }

    #[test]
    fn without_a_state_the_one_that_an_older_program_kept_is_left_out() -> Result<()> {
        let text = record().encode(Some(StateCodec::of::<i64>()))?;
        assert!(Record::decode(&text, &Arc::from("join"), None)?.state.is_none());
        Ok(())
    }
}
