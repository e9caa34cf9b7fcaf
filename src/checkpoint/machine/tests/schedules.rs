//! Random schedules, without threads or clocks: messages, heartbeats, crashes and moves in any order. The last value of
//! each message is that of the batch join, in hold mode every one is.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "small numbers as partitions and offsets"
)]

use std::collections::BTreeMap;

use super::*;

struct World {
    random: fastrand::Rng,
    machine: Machine,
    rules: Rules,
    /// Markers of both sides, per partition, in order on the dependencies' side.
    dependent: Vec<Vec<u64>>,
    dependencies: Vec<Vec<Vec<u64>>>,
    /// How far each is read, done and committed.
    next: Vec<usize>,
    committed: Vec<(usize, Kept)>,
    done: Vec<Vec<usize>>,
    kept: Vec<Vec<(usize, Option<KeptMark>)>>,
    /// The last value that left: how much of each dependency was there.
    left: BTreeMap<(usize, usize), Vec<usize>>,
    wrong: usize,
    rewinds: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut line = |len: usize, step: u64, sorted: bool| {
            let mut time = 0;
            (0..len)
                .map(|_| {
                    time += random.u64(0..step);
                    if sorted { time } else { time + random.u64(0..4) }
                })
                .collect::<Vec<_>>()
        };
        let partitions = 1 + (seed % 4) as usize;
        let dependent: Vec<_> = (0..partitions).map(|_| line(12, 4, false)).collect();
        let count = 1 + (seed / 4 % 2) as usize;
        let dependencies: Vec<Vec<Vec<u64>>> = (0..count)
            .map(|at| {
                (0..=(seed / 8 + at as u64) % 3)
                    .map(|_| {
                        let mut marks = line(10, 5, true);
                        marks.push(u64::MAX);
                        marks
                    })
                    .collect()
            })
            .collect();
        let mode = if seed.is_multiple_of(3) { Mode::Hold } else { Mode::Detect };
        let names = (0..count).map(|at| dependency(&format!("d{at}"), 0));
        let rules = Rules {
            mode,
            rewinds: mode == Mode::Detect,
            pauses: mode == Mode::Hold || !seed.is_multiple_of(5),
            ..rules(names.collect())
        };
        let mut world = Self {
            random,
            machine: Machine::new(rules.clone()),
            rules,
            next: vec![0; dependent.len()],
            committed: vec![(0, Kept::default()); dependent.len()],
            done: dependencies.iter().map(|parts| vec![0; parts.len()]).collect(),
            kept: dependencies.iter().map(|parts| vec![(0, None); parts.len()]).collect(),
            dependent,
            dependencies,
            left: BTreeMap::new(),
            wrong: 0,
            rewinds: 0,
        };
        world.restart();
        world
    }

    /// Everything in memory is gone; positions and what is kept with them are not.
    fn restart(&mut self) {
        self.machine = Machine::new(self.rules.clone());
        let parts: Vec<usize> = (0..self.dependent.len()).collect();
        let mut order: Vec<usize> = (0..=self.dependencies.len()).collect();
        self.random.shuffle(&mut order);
        for side in order {
            match side.checked_sub(1) {
                None => parts.iter().for_each(|partition| self.assign(*partition)),
                Some(at) => {
                    self.done[at] = self.kept[at].iter().map(|(next, _)| *next).collect();
                    let marks = self.kept[at].iter().enumerate();
                    let marks: Vec<_> = marks.map(|(partition, (_, mark))| (partition as i32, *mark)).collect();
                    self.machine.assigned(at, &marks, T0);
                }
            }
        }
    }

    /// A partition comes, to this member or back to it.
    fn assign(&mut self, partition: usize) {
        let (next, kept) = self.committed[partition];
        let kept = Kept::decode(&kept.encode());
        self.machine.begin(partition as i32, kept, T0);
        self.next[partition] = next;
        if let Some(begin) = self.machine.begins_at(partition as i32) {
            self.next[partition] = next.min(begin as usize);
            self.machine.moved(partition as i32, Some(begin), None, T0);
            self.commit(partition);
        }
    }

    fn commit(&mut self, partition: usize) {
        let next = self.next[partition];
        self.committed[partition] = (next, self.machine.keep(partition as i32, next as i64));
    }

    /// How much of each dependency partition a message needs.
    fn needs(&self, mark: u64) -> Vec<usize> {
        let parts = self.dependencies.iter().flatten();
        parts.map(|marks| marks.iter().filter(|own| **own <= mark).count()).collect()
    }

    fn handle(&mut self, partition: usize) {
        let offset = self.next[partition];
        let Some(mark) = self.dependent[partition].get(offset).copied() else { return };
        let at = partition as i32;
        if self.machine.comes(at, offset as i64, mark.mark(), T0) == Verdict::Wait {
            return;
        }
        let needs = self.needs(mark);
        let found: Vec<usize> = self.done.iter().flatten().zip(&needs).map(|(done, needs)| *done.min(needs)).collect();
        self.wrong += usize::from(found != needs);
        self.left.insert((partition, offset), found);
        self.next[partition] += 1;
    }

    fn advance(&mut self, at: usize, partition: usize) {
        let done = self.done[at][partition];
        let Some(mark) = self.dependencies[at][partition].get(done) else { return };
        self.done[at][partition] += 1;
        self.machine.advance(at, partition as i32, (mark.mark(), -1), None, T0);
        if self.random.bool() {
            self.kept[at][partition] = (done + 1, self.machine.kept_of(at, partition as i32));
        }
    }

    fn recover(&mut self) {
        if self.machine.phase() != Phase::Recovering {
            return;
        }
        for (partition, offset) in self.machine.targets() {
            let partition = partition as usize;
            // Revoked in the middle of it: the next owner finds what is kept.
            if self.random.u8(..4) == 0 {
                self.commit(partition);
                continue;
            }
            assert!(offset as usize <= self.next[partition], "never forward");
            self.next[partition] = offset as usize;
            self.rewinds += 1;
            self.machine.moved(partition as i32, Some(offset), Some(self.machine.outages()), T0);
            if self.random.bool() {
                self.commit(partition);
            }
        }
        self.machine.resume(T0);
        for partition in 0..self.dependent.len() {
            if self.machine.keep(partition as i32, self.next[partition] as i64).safe.is_some() {
                self.assign(partition);
            }
        }
    }

    fn step(&mut self) {
        let partition = self.random.usize(..self.dependent.len());
        let at = self.random.usize(..self.dependencies.len());
        let own = self.random.usize(..self.dependencies[at].len());
        match self.random.u8(..40) {
            0 => self.restart(),
            1 => {
                self.commit(partition);
                self.assign(partition);
            }
            2..=5 => self.commit(partition),
            6..=22 => self.handle(partition),
            23..=35 => self.advance(at, own),
            _ => self.recover(),
        }
        self.machine.take_events();
    }

    fn finish(&mut self) {
        for _ in 0..4 {
            for at in 0..self.dependencies.len() {
                for partition in 0..self.dependencies[at].len() {
                    while self.done[at][partition] < self.dependencies[at][partition].len() {
                        self.advance(at, partition);
                    }
                }
            }
            self.recover();
            for partition in 0..self.dependent.len() {
                (0..self.dependent[partition].len()).for_each(|_| self.handle(partition));
            }
        }
    }
}

#[test]
fn the_last_value_is_that_of_the_batch_join_and_in_hold_mode_every_one_is() {
    let (mut wrong, mut rewinds) = (0, 0);
    for seed in 0..4_000 {
        let mut world = World::new(seed);
        (0..120).for_each(|_| world.step());
        world.finish();
        for partition in 0..world.dependent.len() {
            for (offset, mark) in world.dependent[partition].iter().enumerate() {
                let last = world.left.get(&(partition, offset));
                assert_eq!(last, Some(&world.needs(*mark)), "seed {seed}: {partition}@{offset}, marker {mark}");
            }
        }
        assert!(world.rules.mode == Mode::Detect || world.wrong == 0, "seed {seed}: wrong values left");
        wrong += world.wrong;
        rewinds += world.rewinds;
    }
    assert!(wrong > 5_000 && rewinds > 1_000, "the schedules tested nothing: {wrong} wrong, {rewinds} rewinds");
}
