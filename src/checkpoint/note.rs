//! What a checkpoint keeps with positions, as words of a note.

use super::mark::Mark;

/// Kept with the dependent's position in a partition: `epoch,safe,highest,down,last`, `-` for what there is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kept {
    /// How often the partition was sent back.
    pub epoch: u64,
    /// The first message that was handled too early.
    pub safe: Option<i64>,
    /// The highest marker that waits for dependencies, where one does.
    pub highest: Option<Mark>,
    /// A dependency was down.
    pub is_down: bool,
    /// The last outage that was over; 0 before the first. In notes of older versions it is the epoch.
    pub last: u64,
}

impl Kept {
    pub(super) fn encode(self) -> String {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let safe = or_none(self.safe.map(|offset| offset.to_string()));
        let highest = or_none(self.highest.map(Mark::encode));
        let down = if self.is_down { "down" } else { "-" };
        format!("{},{safe},{highest},{down},{}", self.epoch, self.last)
    }

    pub(super) fn decode(payload: &str) -> Option<Self> {
        let mut words = payload.split(',');
        let epoch = words.next()?.parse().ok()?;
        let safe = match words.next()? {
            "-" => None,
            offset => Some(offset.parse().ok()?),
        };
        let highest = match words.next()? {
            "-" => None,
            mark => Some(Mark::decode(mark)?),
        };
        let is_down = words.next()? == "down";
        let last = words.next().map_or(Some(epoch), |last| last.parse().ok())?;
        Some(Self { epoch, safe, highest, is_down, last })
    }
}

/// Kept with a dependency's position in a partition: its marker; behind a `?`, as `marker@offset`, the one that is too far
/// ahead to be believed before the next one says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct KeptMark {
    pub mark: Option<Mark>,
    pub doubt: Option<(Mark, i64)>,
}

impl KeptMark {
    pub(super) fn encode(self) -> String {
        let mark = self.mark.map(Mark::encode).unwrap_or_default();
        match self.doubt {
            None => mark,
            Some((doubt, offset)) => format!("{mark}?{}@{offset}", doubt.encode()),
        }
    }

    pub(super) fn decode(payload: &str) -> Option<Self> {
        let Some((mark, doubt)) = payload.split_once('?') else { return Mark::decode(payload).map(Self::from) };
        let mark = if mark.is_empty() { None } else { Some(Mark::decode(mark)?) };
        let (doubt, offset) = doubt.split_once('@')?;
        Some(Self { mark, doubt: Some((Mark::decode(doubt)?, offset.parse().ok()?)) })
    }
}

impl From<Mark> for KeptMark {
    fn from(mark: Mark) -> Self {
        Self { mark: Some(mark), doubt: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Marker as _;

    #[test]
    fn markers_come_back_with_those_that_are_in_doubt() {
        let (mark, doubt) = (Some(7.mark()), Some((i128::MIN.mark(), i64::MAX)));
        for kept in [KeptMark { mark, doubt: None }, KeptMark { mark, doubt }, KeptMark { mark: None, doubt }] {
            let text = kept.encode();
            assert_eq!(KeptMark::decode(&text), Some(kept));
            assert!(!text.contains([' ', '=']) && text.len() <= crate::flow::tap::PAYLOAD_MAX_BYTES);
        }
        assert!(
            ["", "?", "c7?", "c7?c8", "c7?c8@", "c7?c8@x", "x?c8@1"]
                .iter()
                .all(|text| KeptMark::decode(text).is_none())
        );
    }

    #[test]
    fn what_is_kept_comes_back_and_damage_is_noticed() {
        let kept = Kept { epoch: 3, safe: Some(120), highest: Some(1.5.mark()), is_down: true, last: 4 };
        for kept in [kept, Kept::default(), Kept { safe: None, ..kept }] {
            assert_eq!(Kept::decode(&kept.encode()), Some(kept));
            assert!(!kept.encode().contains([' ', '=', '\t']));
        }
        assert_eq!(
            Kept::decode("3,120,-,down"),
            Some(Kept { highest: None, last: 3, ..kept }),
            "of the version before"
        );
        assert!(
            ["", "1", "x,-,-,-", "1,x,-,-", "1,-,q,-", "1,-,-", "1,-,-,-,x"]
                .iter()
                .all(|text| Kept::decode(text).is_none())
        );
    }
}
