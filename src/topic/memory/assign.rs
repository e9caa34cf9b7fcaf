//! Who should own which partition: balanced, and as it is now as far as balance allows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A member of a group, unique in its broker.
pub(super) type MemberId = u64;
/// A topic and a partition of it.
pub(super) type Tp = (Arc<str>, i32);
/// Which topics each member wants.
pub(super) type Interests = BTreeMap<MemberId, BTreeSet<Arc<str>>>;

/// The owner that each of `partitions` should have. Those that nobody wants have none.
pub(super) fn balance(
    members: &Interests,
    partitions: &[Tp],
    now: impl Fn(&Tp) -> Option<MemberId>,
) -> BTreeMap<Tp, MemberId> {
    let wants = |member: MemberId, tp: &Tp| members.get(&member).is_some_and(|topics| topics.contains(&tp.0));
    let mut shares: BTreeMap<MemberId, Vec<Tp>> = members.keys().map(|member| (*member, Vec::new())).collect();
    let (kept, free): (Vec<&Tp>, Vec<&Tp>) =
        partitions.iter().partition(|tp| now(tp).is_some_and(|member| wants(member, tp)));
    for tp in kept {
        if let Some(share) = now(tp).and_then(|member| shares.get_mut(&member)) {
            share.push(tp.clone());
        }
    }
    for tp in free {
        let candidates = shares.iter_mut().filter(|(member, _)| wants(**member, tp));
        if let Some((_, share)) = candidates.min_by_key(|(_, share)| share.len()) {
            share.push(tp.clone());
        }
    }
    while let Some((from, index, to)) = next_move(&shares, wants) {
        let Some(tp) = shares.get_mut(&from).map(|share| share.remove(index)) else { break };
        shares.entry(to).or_default().push(tp);
    }
    shares.into_iter().flat_map(|(member, share)| share.into_iter().map(move |tp| (tp, member))).collect()
}

/// A partition whose move makes the shares more even: its owner, its place in the share, its new owner. Every move
/// brings the shares nearer to each other, so there is a last one.
fn next_move(
    shares: &BTreeMap<MemberId, Vec<Tp>>,
    wants: impl Fn(MemberId, &Tp) -> bool,
) -> Option<(MemberId, usize, MemberId)> {
    let mut by_size: Vec<_> = shares.iter().collect();
    by_size.sort_by_key(|(_, share)| share.len());
    for (from, large) in by_size.iter().rev() {
        for (to, small) in by_size.iter().take_while(|(_, small)| small.len() + 1 < large.len()) {
            let index = large.iter().rposition(|tp| wants(**to, tp));
            if let Some(index) = index {
                debug_assert!(small.len() < large.len());
                return Some((**from, index, **to));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tps(topic: &str, count: i32) -> Vec<Tp> {
        (0..count).map(|partition| (Arc::from(topic), partition)).collect()
    }

    fn interested(members: &[MemberId], topics: &[&str]) -> Interests {
        members.iter().map(|member| (*member, topics.iter().map(|topic| Arc::from(*topic)).collect())).collect()
    }

    fn share_sizes(owners: &BTreeMap<Tp, MemberId>) -> BTreeMap<MemberId, usize> {
        owners.values().fold(BTreeMap::new(), |mut sizes, member| {
            *sizes.entry(*member).or_default() += 1;
            sizes
        })
    }

    #[test]
    fn a_newcomer_takes_its_share_and_the_rest_stays() {
        let partitions = tps("a", 4);
        let owners = balance(&interested(&[1, 2], &["a"]), &partitions, |_| Some(1));
        assert_eq!(share_sizes(&owners), BTreeMap::from([(1, 2), (2, 2)]));
        let again = balance(&interested(&[1, 2], &["a"]), &partitions, |tp| owners.get(tp).copied());
        assert_eq!(owners, again);
    }

    #[test]
    fn nobody_gets_what_it_does_not_want() {
        let mut members = interested(&[1], &["a", "b"]);
        members.extend(interested(&[2], &["b"]));
        let partitions = [tps("a", 2), tps("b", 2), tps("c", 1)].concat();
        let owners = balance(&members, &partitions, |_| None);
        assert_eq!(share_sizes(&owners), BTreeMap::from([(1, 2), (2, 2)]));
        assert!(owners.iter().all(|(tp, member)| *tp.0 == *"b" || (*tp.0 == *"a" && *member == 1)));
    }

    proptest! {
        #[test]
        fn shares_differ_by_at_most_one_and_only_the_surplus_moves(
            before in 1_u64..6, after in 1_u64..6, count in 1_i32..30,
        ) {
            let partitions = tps("a", count);
            let ids = |n| (1..=n).collect::<Vec<_>>();
            let first = balance(&interested(&ids(before), &["a"]), &partitions, |_| None);
            let second = balance(&interested(&ids(after), &["a"]), &partitions, |tp| first.get(tp).copied());
            prop_assert_eq!(second.len(), partitions.len());
            let sizes = share_sizes(&second);
            let most = sizes.values().max().copied().unwrap_or(0);
            let least = ids(after).iter().map(|id| sizes.get(id).copied().unwrap_or(0)).min().unwrap_or(0);
            prop_assert!(most - least <= 1);
            let moved = first.iter().filter(|(tp, owner)| **owner <= after && second.get(*tp) != Some(owner)).count();
            // What the staying members hold above the new, smaller share.
            let floor = partitions.len() / usize::try_from(after).unwrap();
            let surplus: usize = share_sizes(&first).iter().filter(|(id, _)| **id <= after).map(|(_, n)| n.saturating_sub(floor)).sum();
            prop_assert!(moved <= surplus, "{moved} > {surplus}");
        }
    }
}
