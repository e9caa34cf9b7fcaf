//! The task that moves a member's records from the logs to its feeds.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio_util::sync::CancellationToken;

use super::assign::MemberId;
use super::broker::Broker;
use crate::topic::driver::Feed;

pub(super) async fn run(broker: Arc<Broker>, member: MemberId, stop: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = poll_fn(|cx| poll_round(&broker, member, cx)) => {}
        }
        // A lane on the same thread gets its turn between two rounds.
        tokio::task::yield_now().await;
    }
}

/// Ready when something was moved, or when it is worth another look; else registered for records and for room.
fn poll_round(broker: &Broker, member: MemberId, cx: &Context<'_>) -> Poll<()> {
    broker.data.register(cx);
    let mut blocked = Vec::new();
    let deliveries = broker.with(|state| state.deliver(member, &mut blocked));
    let mut moved = !deliveries.is_empty();
    for mut delivery in deliveries {
        delivery.feed.queue.push_batch(&mut delivery.records, delivery.bytes);
    }
    for feed in blocked {
        moved |= has_room_after_all(broker, member, &feed, cx);
    }
    if moved { Poll::Ready(()) } else { Poll::Pending }
}

fn has_room_after_all(broker: &Broker, member: MemberId, feed: &Arc<Feed>, cx: &Context<'_>) -> bool {
    if feed.queue.poll_room(1, cx).is_pending() {
        return false;
    }
    if feed.queue.room() > 0 {
        return true;
    }
    // Only a queue whose reader has closed it is ready and takes nothing.
    broker.with(|state| state.end_feed(member, feed));
    false
}
