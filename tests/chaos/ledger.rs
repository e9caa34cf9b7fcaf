//! What came out, held against what went in.

use std::collections::{BTreeMap, HashSet};

/// One record of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    pub id: u64,
    pub partition: i32,
    pub offset: i64,
    /// Which life of an app wrote it.
    pub life: u32,
}

impl Echo {
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let id = parts.next()?.parse().ok()?;
        let partition = parts.next()?.parse().ok()?;
        let offset = parts.next()?.parse().ok()?;
        Some(Self { id, partition, offset, life: parts.next()?.parse().ok()? })
    }
}

/// Which ids came out, and how often too many.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub missing: Vec<u64>,
    /// Echoes of an id that had come out before, by the life that wrote them.
    pub repeats: BTreeMap<u32, u64>,
}

impl Verdict {
    pub fn of(echoes: &[Echo], ids: std::ops::Range<u64>) -> Self {
        // Lives run one after the other, but their echoes lie in several partitions.
        let mut sorted = echoes.to_vec();
        sorted.sort_by_key(|echo| echo.life);
        let mut seen = HashSet::new();
        let mut repeats = BTreeMap::new();
        for echo in sorted {
            if !seen.insert(echo.id) {
                *repeats.entry(echo.life).or_default() += 1;
            }
        }
        Self { missing: ids.filter(|id| !seen.contains(id)).collect(), repeats }
    }

    pub fn repeated(&self) -> u64 {
        self.repeats.values().sum()
    }
}

#[test]
fn the_verdict_names_missing_ids_and_counts_repeats_by_life() {
    let echo = |id, life| Echo { id, partition: 0, offset: 0, life };
    let verdict = Verdict::of(&[echo(0, 2), echo(0, 1), echo(3, 2), echo(3, 2), echo(1, 1)], 0..5);
    assert_eq!(verdict, Verdict { missing: vec![2, 4], repeats: BTreeMap::from([(2, 2)]) });
}
