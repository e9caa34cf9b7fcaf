//! "Did you mean": the candidate that takes the fewest typing slips.

/// The candidate nearest to `word`, if one is near enough to have been meant.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // One slip per three characters reads as a typo; more is another word.
    let limit = (word.chars().count() / 3).max(1);
    let scored = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    scored.filter(|(slips, _)| *slips <= limit).min_by_key(|(slips, _)| *slips).map(|(_, candidate)| candidate)
}

/// Insertions, deletions, substitutions and swaps of neighbours that lead from `a` to `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut last_a = None;
    for (row, ca) in a.chars().enumerate() {
        let mut current = vec![row + 1];
        let mut last_b = None;
        for (col, &cb) in b.iter().enumerate() {
            let at = |line: &[usize], i: usize| line.get(i).copied().unwrap_or(usize::MAX - 1);
            let mut best =
                (at(&above, col) + usize::from(ca != cb)).min(at(&above, col + 1) + 1).min(at(&current, col) + 1);
            if last_a == Some(cb) && last_b == Some(ca) {
                best = best.min(at(&before, col - 1) + 1);
            }
            current.push(best);
            last_b = Some(cb);
        }
        before = std::mem::replace(&mut above, current);
        last_a = Some(ca);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_each_kind_counts_one() {
        assert_eq!(distance("acks", "acks"), 0);
        assert_eq!(distance("ack", "acks"), 1);
        assert_eq!(distance("ackss", "acks"), 1);
        assert_eq!(distance("axks", "acks"), 1);
        assert_eq!(distance("caks", "acks"), 1);
        assert_eq!(distance("", "acks"), 4);
    }

    #[test]
    fn only_a_near_word_is_suggested() {
        assert_eq!(nearest("sasl.passwd", ["sasl.password", "ssl.key.password"]), Some("sasl.password"));
        assert_eq!(nearest("colour", ["acks", "linger.ms"]), None);
    }
}
