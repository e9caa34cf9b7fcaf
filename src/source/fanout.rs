//! `concurrency = n`: several lanes behind one, order kept per key, acknowledgements still contiguous.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::{Carried, CarriedLane, KeyHash, SourceOptions};
use crate::error::{Error, Kind, Result};
use crate::flow::tap::tapped;
use crate::flow::{BoxStage, Env, Gate, Guard, Push, Queue, SourceStats, Stage, UnitCx};

/// Messages that may wait in front of one lane.
const WAITING_MAX: usize = 256;

/// A stage that hands each message to one of several lanes, chosen by its key.
pub(crate) struct Fanout<In> {
    lanes: Vec<Arc<Queue<Carried<In>>>>,
    key: Option<KeyHash<In>>,
    /// A message whose lane is full, and that lane.
    waiting: Option<(usize, Carried<In>)>,
    let_go: bool,
}

// Messages are moved through, never pinned.
impl<In> Unpin for Fanout<In> {}

/// Starts `count` lanes with a stage each from `make`; they end when the stage that is returned is dropped:
/// what they have is given up, unless the stage was told to let go.
pub(crate) fn fan_out<In: Send + 'static, St: Stage<In> + 'static>(
    count: usize,
    key: Option<KeyHash<In>>,
    mut make: impl FnMut() -> St,
    stats: &Arc<SourceStats>,
    env: &Env,
) -> Fanout<In> {
    let lanes = (0..count.max(1)).map(|_| {
        let queue = Arc::new(Queue::new(WAITING_MAX, usize::MAX));
        let lane_stats = stats.add_lane(-1);
        let lane =
            CarriedLane::new(Arc::clone(&queue), make(), Arc::clone(&stats.name), Gate::new(), Arc::clone(&lane_stats));
        let (env, stats) = (env.clone(), Arc::clone(stats));
        env.clone().tasks().spawn(async move {
            let result = lane.run(&env).await;
            stats.remove_lane(&lane_stats);
            result
        });
        queue
    });
    Fanout { lanes: lanes.collect(), key, waiting: None, let_go: false }
}

/// The stage that the options ask for: behind their taps, one lane or several. Boxed, for lanes whose type must not depend
/// on what that is.
pub(crate) fn boxed_stage<In: Send + 'static, St: Stage<In> + 'static>(
    options: SourceOptions<In>,
    partition: i32,
    mut make: impl FnMut() -> St,
    stats: &Arc<SourceStats>,
    env: &Env,
) -> BoxStage<In> {
    let SourceOptions { concurrency, key, taps, .. } = options;
    match (taps.is_empty(), concurrency > 1) {
        (true, false) => Box::pin(make()),
        (true, true) => Box::pin(fan_out(concurrency, key, make, stats, env)),
        (false, false) => tapped(&taps, partition, make(), stats.gate.clone(), env),
        (false, true) => {
            let stage = fan_out(concurrency, key, make, stats, env);
            tapped(&taps, partition, stage, stats.gate.clone(), env)
        }
    }
}

impl<In: Send> Fanout<In> {
    fn lane_of(&self, input: &In, unit: &UnitCx) -> usize {
        let hash = self.key.as_ref().map_or_else(|| unit.key_hash(), |key| Some(key(input)));
        #[expect(clippy::cast_possible_truncation, reason = "below the number of lanes")]
        hash.map_or(0, |hash| (hash % self.lanes.len() as u64) as usize)
    }

    fn poll_offer(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some((lane, carried)) = self.waiting.take() {
            let Some(queue) = self.lanes.get(lane) else { break };
            match queue.push(carried, 0) {
                Push::Taken => {}
                Push::Closed(_) => {
                    return Poll::Ready(Err(Error::new(Kind::Closed, "a lane of this source has ended")));
                }
                Push::Full(carried) => {
                    let room = queue.poll_room(0, cx);
                    self.waiting = Some((lane, carried));
                    ready!(room);
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<In: Send> Stage<In> for Fanout<In> {
    fn start(mut self: Pin<&mut Self>, input: In, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let lane = self.lane_of(&input, unit);
        let guard: Guard = unit.guard();
        let (partition, offset, outage) = (unit.partition(), unit.offset(), unit.outage());
        let views = unit.views().clone();
        let carried = Carried { item: input, guard, partition, offset, outage, views };
        self.waiting = Some((lane, carried));
        self.poll_offer(cx)
    }

    fn hands_over(&self) -> bool {
        true
    }

    fn finish(mut self: Pin<&mut Self>, _unit: &mut UnitCx, _cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.as_mut().let_go();
        Poll::Ready(Ok(()))
    }

    fn let_go(mut self: Pin<&mut Self>) {
        self.let_go = true;
        self.lanes.iter().for_each(|lane| lane.close());
    }

    fn resume(mut self: Pin<&mut Self>, _unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_offer(cx)
    }
}

impl<In> Drop for Fanout<In> {
    fn drop(&mut self) {
        if !self.let_go {
            self.lanes.iter().for_each(|lane| lane.discard());
        }
    }
}
