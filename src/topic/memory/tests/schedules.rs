//! Random schedules of members that join, leave, are lost, read and commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt as _;
use proptest::prelude::*;
use tokio::sync::oneshot;

use super::super::assign::Tp;
use super::super::{Memory, MemoryBackend, MemoryLimits};
use super::harness::{App, fill, group, record, settle, tp};
use crate::flow::Position;
use crate::topic::driver::{Ack, Event};
use crate::topic::sink::poll_write;

const PARTITIONS: i32 = 3;

#[derive(Debug, Clone)]
enum Op {
    Write(i32, usize),
    Join,
    Close(usize),
    Lose(usize),
    Read(usize, usize),
    Commit(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..PARTITIONS, 1_usize..20).prop_map(|(partition, count)| Op::Write(partition, count)),
        2 => Just(Op::Join),
        1 => (0_usize..4).prop_map(Op::Close),
        1 => (0_usize..4).prop_map(Op::Lose),
        4 => (0_usize..4, 1_usize..30).prop_map(|(member, count)| Op::Read(member, count)),
        2 => (0_usize..4).prop_map(Op::Commit),
    ]
}

/// A member and the next offset that it has not handled, of each partition of its own.
struct Worker {
    app: App,
    handled: BTreeMap<Tp, i64>,
}

#[derive(Default)]
struct World {
    workers: Vec<Worker>,
    written: BTreeMap<i32, i64>,
    seen: BTreeSet<(i32, i64)>,
    committed: BTreeMap<Tp, i64>,
}

impl World {
    /// Takes every event that is there; what was committed must hold at each assignment.
    async fn take_events(&mut self) {
        loop {
            settle().await;
            let mut quiet = true;
            for index in 0..self.workers.len() {
                while let Ok(event) = self.workers[index].app.events.try_recv() {
                    quiet = false;
                    self.take_event(index, event);
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn take_event(&mut self, index: usize, event: Event) {
        match event {
            Event::Assigned(assignments) => {
                for tp in self.workers[index].app.take(assignments) {
                    let shared = self.workers.iter().any(|other| other.handled.contains_key(&tp));
                    assert!(!shared, "{tp:?} has two owners");
                    let worker = &mut self.workers[index];
                    let from = worker.app.from(tp.1);
                    assert_eq!(from, self.committed.get(&tp).copied().unwrap_or(0));
                    worker.handled.insert(tp, from);
                }
            }
            Event::Revoked { partitions, lost, answer } => {
                assert!(!lost);
                let mut positions = Vec::new();
                for tp in partitions {
                    self.workers[index].app.lanes.remove(&tp);
                    let next = self.workers[index].handled.remove(&tp).unwrap();
                    positions.push(Position {
                        topic: Arc::clone(&tp.0),
                        partition: tp.1,
                        next,
                        needed: next,
                        note: None,
                    });
                    self.committed.insert(tp, next);
                }
                answer.send(positions).unwrap();
            }
            _ => panic!("nothing can fail here"),
        }
    }

    fn read(&mut self, index: usize, count: usize) {
        let Some(worker) = self.workers.get_mut(index) else { return };
        for (tp, next) in &mut worker.handled {
            for _ in 0..count {
                let Some(record) = worker.app.next(tp.1).now_or_never() else { break };
                assert_eq!(record.offset, *next, "in order, without a gap");
                self.seen.insert((tp.1, record.offset));
                *next += 1;
            }
        }
    }

    async fn commit(&mut self, index: usize) {
        let Some(worker) = self.workers.get(index) else { return };
        let handled = worker.handled.iter();
        let positions = handled.map(|((topic, partition), next)| Position {
            topic: Arc::clone(topic),
            partition: *partition,
            next: *next,
            needed: *next,
            note: None,
        });
        worker.app.driver.commit(positions.collect()).await.unwrap();
        self.committed.extend(worker.handled.clone());
    }

    async fn run(&mut self, backend: &MemoryBackend, op: Op) {
        match op {
            Op::Write(partition, count) => {
                fill(backend, partition, count);
                *self.written.entry(partition).or_default() += i64::try_from(count).unwrap();
            }
            Op::Join if self.workers.len() < 4 => {
                self.workers.push(Worker { app: App::start(backend, group("g")), handled: BTreeMap::new() });
            }
            Op::Close(index) if index < self.workers.len() => {
                self.commit(index).await;
                self.workers.remove(index).app.driver.close().await.unwrap();
            }
            Op::Lose(index) if index < self.workers.len() => drop(self.workers.remove(index)),
            Op::Read(index, count) => self.read(index, count),
            Op::Commit(index) => self.commit(index).await,
            Op::Join | Op::Close(_) | Op::Lose(_) => {}
        }
        self.take_events().await;
    }
}

async fn play(ops: Vec<Op>) {
    let backend = MemoryBackend::over(Memory::unnamed(MemoryLimits::default().partitions(PARTITIONS.unsigned_abs())));
    let mut world = World::default();
    for op in ops {
        world.run(&backend, op).await;
    }
    world.run(&backend, Op::Join).await;
    for index in 0..world.workers.len() {
        world.read(index, usize::MAX);
    }
    for (partition, count) in &world.written {
        for offset in 0..*count {
            assert!(world.seen.contains(&(*partition, offset)), "{partition}@{offset} was never delivered");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_record_is_delivered_and_nothing_below_a_commit_again(ops in prop::collection::vec(op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(ops));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_between_threads_while_the_topic_is_nearly_always_full() {
    const EACH: usize = 20_000;
    let limits = MemoryLimits::default().topic_bytes(200 * 65).partitions(2);
    let backend = MemoryBackend::over(Memory::unnamed(limits));
    let mut app = App::ready(&backend, group("g")).await;
    for partition in 0..2 {
        let backend = backend.clone();
        tokio::spawn(async move {
            let writer = crate::topic::driver::Backend::writer(&backend).unwrap();
            for _ in 0..EACH {
                let mut waiting = Some((record(Some(partition), "x"), Ack::Reply(oneshot::channel().0)));
                std::future::poll_fn(|cx| poll_write(&*writer, &mut waiting, cx)).await.unwrap();
            }
        });
    }
    let mut next = BTreeMap::from([(0, 0_i64), (1, 0)]);
    while next.values().any(|next| *next < i64::try_from(EACH).unwrap()) {
        for (partition, next) in &mut next {
            while let Some(record) = app.next(*partition).now_or_never() {
                assert_eq!(record.offset, *next);
                *next += 1;
            }
            app.commit(*partition, *next).await;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(app.lanes[&tp(0)].feed.queue.len(), 0);
}
