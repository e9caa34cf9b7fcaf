//! A reading app: its driver, and the task that tells it what becomes its own and what it has to give up.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::assign::{MemberId, Tp};
use super::broker::Broker;
use super::feeder;
use super::reading::Todo;
use crate::error::{Error, Kind, Result};
use crate::flow::Position;
use crate::topic::driver::{Assignment, Driver, Event, EventSender, SeekTo, Subscription};

/// An app that takes no events is asked again after its revoke timeout, which therefore cannot be zero.
const REVOKE_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// Leaves the group when it is closed or dropped.
pub(super) struct MemoryDriver {
    broker: Arc<Broker>,
    member: MemberId,
    stop: CancellationToken,
}

impl MemoryDriver {
    /// Joins and begins to read.
    ///
    /// Errors: `Kind::Unsupported` outside a tokio runtime, `Kind::Config` for a topic that cannot be.
    pub(super) fn start(broker: Arc<Broker>, subscription: Subscription, events: EventSender) -> Result<Self> {
        let no_runtime = |_| Error::new(Kind::Unsupported, "`memory:` topics are read in a tokio runtime only");
        let runtime = Handle::try_current().map_err(no_runtime)?;
        let revoke_timeout = subscription.revoke_timeout.max(REVOKE_TIMEOUT_MIN);
        let member = broker.with(|state| state.join(subscription))?;
        let stop = CancellationToken::new();
        runtime.spawn(feeder::run(Arc::clone(&broker), member, stop.clone()));
        let teller = Teller { broker: Arc::clone(&broker), member, stop: stop.clone(), events, revoke_timeout };
        runtime.spawn(teller.run());
        Ok(Self { broker, member, stop })
    }

    fn leave(&self) {
        self.broker.with(|state| state.leave(self.member));
        self.stop.cancel();
    }
}

impl Drop for MemoryDriver {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Driver for MemoryDriver {
    fn commit(&self, positions: Vec<Position>) -> BoxFuture<'static, Result<()>> {
        self.broker.with(|state| state.commit(self.member, positions));
        ready(Ok(())).boxed()
    }

    fn stored(&self, positions: Vec<Position>) {
        self.broker.with(|state| state.commit(self.member, positions));
    }

    fn resolve(&self, topic: Arc<str>, partition: i32, to: SeekTo) -> BoxFuture<'static, Result<i64>> {
        let resolve = || self.broker.with(|state| state.resolve(self.member, &(topic, partition), to));
        ready(self.broker.answers().and_then(|()| resolve())).boxed()
    }

    fn seek(&self, topic: Arc<str>, partition: i32, offset: i64) -> BoxFuture<'static, Result<Assignment>> {
        ready(self.broker.with(|state| state.seek(self.member, (topic, partition), offset))).boxed()
    }

    fn close(&self) -> BoxFuture<'static, Result<()>> {
        self.leave();
        ready(Ok(())).boxed()
    }
}

/// The task that tells an app what its group has decided, one event after the other.
struct Teller {
    broker: Arc<Broker>,
    member: MemberId,
    stop: CancellationToken,
    events: EventSender,
    revoke_timeout: Duration,
}

impl Teller {
    /// Ends when the driver is closed or dropped, or when nobody takes the events: then the member is lost.
    async fn run(self) {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = self.events.closed() => {}
            () = self.tell() => {}
        }
        self.broker.with(|state| state.leave(self.member));
        self.stop.cancel();
    }

    async fn tell(&self) {
        loop {
            self.something_to_do().await;
            // The step is taken only with a place for its event: until then the group may still change its mind.
            let place = match tokio::time::timeout(self.revoke_timeout, self.events.reserve()).await {
                Ok(Ok(place)) => place,
                Ok(Err(_)) => return,
                Err(_) => {
                    self.broker.with(|state| state.expire(self.member));
                    continue;
                }
            };
            match self.broker.with(|state| state.next_step(self.member)) {
                None => {}
                Some(Todo::Assigned(assignments)) => place.send(Event::Assigned(assignments)),
                Some(Todo::Lost(partitions)) => {
                    let (answer, _) = oneshot::channel();
                    place.send(Event::Revoked { partitions, lost: true, answer });
                }
                Some(Todo::Revoke(partitions)) => {
                    let (answer, answered) = oneshot::channel();
                    place.send(Event::Revoked { partitions: partitions.clone(), lost: false, answer });
                    self.let_go(&partitions, answered).await;
                }
                Some(Todo::Failed(error)) => {
                    place.send(Event::Failed(error));
                    return;
                }
            }
        }
    }

    async fn something_to_do(&self) {
        poll_fn(|cx| {
            self.broker.steps.register(cx);
            let ready = self.broker.with(|state| state.has_step(self.member));
            if ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Waits for the app's last positions, within the bound, and hands the partitions over.
    async fn let_go(&self, partitions: &[Tp], answered: oneshot::Receiver<Vec<Position>>) {
        let answer = tokio::time::timeout(self.revoke_timeout, answered).await;
        if answer.is_err() {
            tracing::warn!(?partitions, timeout = ?self.revoke_timeout, "not given up in time: taken away");
        }
        // An app that dropped the question has nothing to commit.
        let positions = answer.ok().and_then(std::result::Result::ok).unwrap_or_default();
        self.broker.with(|state| state.release(self.member, partitions, positions));
    }
}
