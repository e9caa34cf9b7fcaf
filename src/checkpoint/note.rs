//! What a checkpoint keeps with positions, as words of a note.

use super::mark::Mark;

/// Kept with the dependent's position in a partition: `number,safe,highest,down`, `-` for what there is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kept {
    /// The outage that the partition was rewound for last; 0 before the first.
    pub outage: u64,
    /// The first message that was handled too early.
    pub safe: Option<i64>,
    /// The highest marker of the dependent, where there is a safe offset.
    pub highest: Option<Mark>,
    /// A dependency was down.
    pub is_down: bool,
}

impl Kept {
    pub(super) fn encode(self) -> String {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let safe = or_none(self.safe.map(|offset| offset.to_string()));
        let highest = or_none(self.highest.map(Mark::encode));
        format!("{},{safe},{highest},{}", self.outage, if self.is_down { "down" } else { "-" })
    }

    pub(super) fn decode(payload: &str) -> Option<Self> {
        let mut words = payload.split(',');
        let outage = words.next()?.parse().ok()?;
        let safe = match words.next()? {
            "-" => None,
            offset => Some(offset.parse().ok()?),
        };
        let highest = match words.next()? {
            "-" => None,
            mark => Some(Mark::decode(mark)?),
        };
        let is_down = words.next()? == "down";
        Some(Self { outage, safe, highest, is_down })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Marker as _;

    #[test]
    fn what_is_kept_comes_back_and_damage_is_noticed() {
        let kept = Kept { outage: 3, safe: Some(120), highest: Some(1.5.mark()), is_down: true };
        for kept in [kept, Kept::default(), Kept { safe: None, ..kept }] {
            assert_eq!(Kept::decode(&kept.encode()), Some(kept));
            assert!(!kept.encode().contains([' ', '=', '\t']));
        }
        assert!(["", "1", "x,-,-,-", "1,x,-,-", "1,-,q,-", "1,-,-"].iter().all(|text| Kept::decode(text).is_none()));
    }
}
