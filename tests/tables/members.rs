//! Members of a group, each with its own store: partitions that move are rebuilt where they arrive, and each record is
//! counted once in the store of its present owner.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipstream::prelude::*;
use slipstream::{RunHandle, Signals};
use tokio::task::JoinHandle;

use crate::support::{World, count, keyed, rows_of};

struct Member {
    counts: Table<String, u64>,
    handle: RunHandle,
    task: JoinHandle<Result<()>>,
    outputs: Arc<Mutex<u64>>,
}

impl Member {
    fn start(world: &World, dir: &std::path::Path, name: &str) -> Self {
        let counts: Table<String, u64> = Table::named("counts");
        let outputs: Arc<Mutex<u64>> = Arc::default();
        let seen = Arc::clone(&outputs);
        let fold = |message: Message<u64>, counts: &mut Rows<String, u64>| count(message, counts).map(|()| 1_u64);
        let run = App::new()
            .conf(world.conf().with("state.dir", dir.join(name).display().to_string()).with("revoke.timeout", "2s"))
            .handle(world.input.clone(), fold, move |n: u64| *seen.lock().unwrap() += n)
            .name("fold")
            .table(&counts)
            .signals(Signals::Ignore)
            .run();
        let handle = run.handle();
        Self { counts, handle, task: tokio::spawn(run.into_future()), outputs }
    }

    /// The partitions that are here and current.
    fn partitions(&self) -> Vec<(i32, i64)> {
        self.counts.partitions().unwrap_or_default()
    }

    async fn stop(self) {
        self.handle.trigger();
        self.task.await.unwrap().unwrap();
    }
}

/// Waits until each has its share, and each partition is current with somebody, up to its end, and with nobody else.
async fn settled(world: &World, members: &[&Member]) {
    let ends = world.ends().await;
    let settled = || {
        let share = ends.len() / members.len();
        if members.iter().any(|member| member.partitions().len() != share) {
            return false;
        }
        let mut all: Vec<_> = members.iter().flat_map(|member| member.partitions()).collect();
        all.sort_unstable();
        all.into_iter().eq(ends.iter().zip(0..).map(|((_, end), partition)| (partition, *end)))
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), slipstream::testing::until(settled)).await;
    let found: Vec<_> = members.iter().map(|member| member.partitions()).collect();
    assert!(waited.is_ok(), "{found:?} {ends:?}");
}

fn sum(members: &[&Member]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (key, n) in members.iter().flat_map(|member| rows_of(&member.counts).unwrap()) {
        *all.entry(key).or_insert(0) += n;
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_move_are_counted_once_by_their_owner() {
    let world = World::with_partitions(6);
    let dir = tempfile::tempdir().unwrap();
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut fold: BTreeMap<String, u64> = BTreeMap::new();
    let mut fed = 0;
    let mut write = async || {
        world.feed(keyed(&keys)).await;
        keys.iter().for_each(|key| *fold.entry((*key).to_owned()).or_insert(0) += 1);
        fed += 8;
        (fold.clone(), fed)
    };

    write().await;
    let one = Member::start(&world, dir.path(), "one");
    settled(&world, &[&one]).await;
    let two = Member::start(&world, dir.path(), "two");
    let (expected, _) = write().await;
    settled(&world, &[&one, &two]).await;
    assert_eq!(two.partitions().len(), 3, "half of them moved");
    assert_eq!(sum(&[&one, &two]), expected);

    let three = Member::start(&world, dir.path(), "three");
    write().await;
    let (expected, fed) = write().await;
    settled(&world, &[&one, &two, &three]).await;
    assert_eq!(sum(&[&one, &two, &three]), expected);
    let outputs: u64 = [&one, &two, &three].iter().map(|member| *member.outputs.lock().unwrap()).sum();
    assert_eq!(outputs, fed, "nothing was taken away in the middle: what was rebuilt says nothing");

    one.stop().await;
    let (expected, _) = write().await;
    settled(&world, &[&two, &three]).await;
    assert_eq!(sum(&[&two, &three]), expected);
    // Comes back to a store that is behind.
    let one = Member::start(&world, dir.path(), "one");
    let (expected, _) = write().await;
    settled(&world, &[&one, &two, &three]).await;
    assert_eq!(sum(&[&one, &two, &three]), expected);
    two.stop().await;
    three.stop().await;
    settled(&world, &[&one]).await;
    assert_eq!(sum(&[&one]), expected);
    one.stop().await;
}
