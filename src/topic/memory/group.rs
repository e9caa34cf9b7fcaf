//! One group: its members, who owns which partition, how far it has got. Decides only; the members' tasks ask for
//! their next [`Step`] and tell when they have taken it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::assign::{Interests, MemberId, Tp, balance};

/// How groups are told apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupId {
    /// Stays, with its positions, when its last member has gone.
    Named(Arc<str>),
    /// Of one member that reads everything; goes with it.
    Solo(MemberId),
}

/// Where an owner stands with its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Chosen, not told yet.
    Chosen,
    /// Told, and reading.
    Owned,
    /// To be given up, not told yet.
    Unwanted,
    /// Told to give it up.
    Revoking,
}

#[derive(Debug)]
struct Owner {
    member: MemberId,
    phase: Phase,
}

/// What a member has to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// These are gone already.
    Lost(Vec<Tp>),
    /// These are to be given up; [`Group::release`] follows.
    Revoke(Vec<Tp>),
    /// These are its own from now on.
    Own(Vec<Tp>),
}

#[derive(Debug, Default)]
pub(super) struct Group {
    members: Interests,
    owners: BTreeMap<Tp, Owner>,
    /// What members have lost and have not been told about.
    lost: BTreeMap<MemberId, BTreeSet<Tp>>,
    /// Positions, and the first offset that may be read again after each.
    offsets: BTreeMap<Tp, (i64, i64)>,
    /// What was committed with some of them.
    notes: BTreeMap<Tp, Arc<str>>,
    /// Every topic that a member has ever subscribed to, while it exists.
    known: BTreeSet<Arc<str>>,
}

impl Group {
    pub(super) fn join(&mut self, member: MemberId, topics: BTreeSet<Arc<str>>) {
        self.known.extend(topics.iter().cloned());
        self.members.insert(member, topics);
    }

    /// What the member owned is free at once.
    pub(super) fn leave(&mut self, member: MemberId) {
        self.members.remove(&member);
        self.lost.remove(&member);
        self.owners.retain(|_, owner| owner.member != member);
    }

    pub(super) fn is_interested(&self, topic: &str) -> bool {
        self.members.values().any(|topics| topics.contains(topic))
    }

    /// Whether records of the topic have to wait for this group.
    pub(super) fn knows(&self, topic: &str) -> bool {
        self.known.contains(topic)
    }

    pub(super) fn offset(&self, tp: &Tp) -> Option<i64> {
        self.offsets.get(tp).map(|(next, _)| *next)
    }

    /// Records from here on may be read again.
    pub(super) fn needed(&self, tp: &Tp) -> Option<i64> {
        self.offsets.get(tp).map(|(_, needed)| *needed)
    }

    pub(super) fn set_offset(&mut self, tp: Tp, next: i64, needed: i64) {
        self.offsets.insert(tp, (next, needed.min(next)));
    }

    pub(super) fn note(&self, tp: &Tp) -> Option<Arc<str>> {
        self.notes.get(tp).cloned()
    }

    pub(super) fn set_note(&mut self, tp: Tp, note: Option<Arc<str>>) {
        match note {
            Some(note) => self.notes.insert(tp, note),
            None => self.notes.remove(&tp),
        };
    }

    /// Whether the member may commit it: also while it is giving it up.
    pub(super) fn holds(&self, member: MemberId, tp: &Tp) -> bool {
        self.owners.get(tp).is_some_and(|owner| owner.member == member && owner.phase != Phase::Chosen)
    }

    /// Whether the member may go on reading it.
    pub(super) fn reads(&self, member: MemberId, tp: &Tp) -> bool {
        self.holds(member, tp) && self.owners.get(tp).is_some_and(|owner| owner.phase != Phase::Revoking)
    }

    /// Shares the existing partitions of the members' topics anew. What has to change hands is marked; it stays with
    /// its owner until that one has let go.
    pub(super) fn rebalance(&mut self, partitions: &[Tp]) {
        let keeps = |tp: &Tp| self.owners.get(tp).filter(|owner| owner.phase != Phase::Revoking);
        let wanted = balance(&self.members, partitions, |tp| keeps(tp).map(|owner| owner.member));
        for (tp, member) in wanted {
            let owner = self.owners.entry(tp).or_insert(Owner { member, phase: Phase::Chosen });
            owner.phase = match owner.phase {
                Phase::Chosen => {
                    owner.member = member;
                    Phase::Chosen
                }
                Phase::Owned | Phase::Unwanted if owner.member == member => Phase::Owned,
                Phase::Owned | Phase::Unwanted => Phase::Unwanted,
                Phase::Revoking => Phase::Revoking,
            };
        }
    }

    /// The topic is gone, with its positions.
    pub(super) fn forget(&mut self, topic: &Arc<str>) {
        self.offsets.retain(|(own, _), _| own != topic);
        self.notes.retain(|(own, _), _| own != topic);
        if !self.is_interested(topic) {
            self.known.remove(topic);
        }
        let gone: Vec<Tp> = self.owners.keys().filter(|(own, _)| own == topic).cloned().collect();
        for tp in gone {
            self.take_away(tp);
        }
    }

    /// The member did not hear or answer in time: it loses what it should have given up.
    pub(super) fn expire(&mut self, member: MemberId) {
        let unheard = |owner: &Owner| owner.member == member && owner.phase == Phase::Unwanted;
        let gone: Vec<Tp> = self.owners.iter().filter(|(_, owner)| unheard(owner)).map(|(tp, _)| tp.clone()).collect();
        for tp in gone {
            self.take_away(tp);
        }
    }

    fn take_away(&mut self, tp: Tp) {
        if let Some(Owner { member, phase: Phase::Owned | Phase::Unwanted }) = self.owners.remove(&tp) {
            self.lost.entry(member).or_default().insert(tp);
        }
    }

    /// The member has let go of these.
    pub(super) fn release(&mut self, member: MemberId, tps: &[Tp]) {
        for tp in tps {
            if self.owners.get(tp).is_some_and(|owner| owner.member == member && owner.phase == Phase::Revoking) {
                self.owners.remove(tp);
            }
        }
    }

    pub(super) fn has_step(&self, member: MemberId) -> bool {
        let waits = |owner: &Owner| owner.member == member && matches!(owner.phase, Phase::Chosen | Phase::Unwanted);
        self.lost.contains_key(&member) || self.owners.values().any(waits)
    }

    /// The next thing that the member has to do: bad news first.
    pub(super) fn next_step(&mut self, member: MemberId) -> Option<Step> {
        if let Some(lost) = self.lost.remove(&member) {
            return Some(Step::Lost(lost.into_iter().collect()));
        }
        if let Some(tps) = self.advance(member, Phase::Unwanted, Phase::Revoking) {
            return Some(Step::Revoke(tps));
        }
        self.advance(member, Phase::Chosen, Phase::Owned).map(Step::Own)
    }

    /// The member's partitions that were in phase `from` and are now in phase `to`; `None` without any.
    fn advance(&mut self, member: MemberId, from: Phase, to: Phase) -> Option<Vec<Tp>> {
        let mut tps = Vec::new();
        for (tp, owner) in &mut self.owners {
            if owner.member == member && owner.phase == from {
                owner.phase = to;
                tps.push(tp.clone());
            }
        }
        (!tps.is_empty()).then_some(tps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(numbers: std::ops::Range<i32>) -> Vec<Tp> {
        numbers.map(|partition| (Arc::from("t"), partition)).collect()
    }

    fn join(group: &mut Group, member: MemberId) {
        group.join(member, BTreeSet::from([Arc::from("t")]));
        group.rebalance(&partitions(0..4));
    }

    fn group_of_two() -> Group {
        let mut group = Group::default();
        join(&mut group, 1);
        assert_eq!(group.next_step(1), Some(Step::Own(partitions(0..4))));
        join(&mut group, 2);
        group
    }

    #[test]
    fn what_moves_is_given_up_before_it_is_assigned() {
        let mut group = group_of_two();
        assert!(!group.has_step(2));
        assert_eq!(group.next_step(1), Some(Step::Revoke(partitions(2..4))));
        assert!(!group.has_step(2), "the owner has not answered");
        assert!(group.holds(1, &partitions(2..3)[0]) && !group.reads(1, &partitions(2..3)[0]));
        group.release(1, &partitions(2..4));
        group.rebalance(&partitions(0..4));
        assert_eq!(group.next_step(2), Some(Step::Own(partitions(2..4))));
        assert!(!group.holds(1, &partitions(2..3)[0]));
    }

    #[test]
    fn a_change_of_mind_before_anybody_heard_changes_nothing() {
        let mut group = group_of_two();
        group.leave(2);
        group.rebalance(&partitions(0..4));
        assert_eq!(group.next_step(1), None);
        assert!(partitions(0..4).iter().all(|tp| group.reads(1, tp)));
    }

    #[test]
    fn what_was_given_up_for_one_that_has_left_comes_back() {
        let mut group = group_of_two();
        let Some(Step::Revoke(moved)) = group.next_step(1) else { panic!("nothing to revoke") };
        group.leave(2);
        group.rebalance(&partitions(0..4));
        assert_eq!(group.next_step(1), None, "it is still giving up");
        group.release(1, &moved);
        group.rebalance(&partitions(0..4));
        assert_eq!(group.next_step(1), Some(Step::Own(moved)));
    }

    #[test]
    fn one_that_does_not_hear_loses_and_is_told_later() {
        let mut group = group_of_two();
        group.expire(1);
        group.rebalance(&partitions(0..4));
        assert_eq!(group.next_step(2), Some(Step::Own(partitions(2..4))));
        assert_eq!(group.next_step(1), Some(Step::Lost(partitions(2..4))));
        assert_eq!(group.next_step(1), None);
    }

    #[test]
    fn a_deleted_topic_is_lost_with_its_positions() {
        let mut group = group_of_two();
        group.set_offset(partitions(0..1).remove(0), 7, 7);
        group.forget(&Arc::from("t"));
        group.rebalance(&[]);
        assert_eq!(group.next_step(1), Some(Step::Lost(partitions(0..4))));
        assert_eq!(group.offset(&partitions(0..1)[0]), None);
        assert!(group.knows("t"), "its members still want it");
    }
}
