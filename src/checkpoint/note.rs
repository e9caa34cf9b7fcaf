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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Marker as _;

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
