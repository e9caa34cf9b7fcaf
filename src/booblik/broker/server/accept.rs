//! Taking in connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::super::descriptors::is_too_many;
use super::Shared;
use super::counts::{Gauge, count};
use super::session::{End, Session};

/// How long to wait after a failure, for example because there are too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// What happens again and again is said this often.
const SAY_AGAIN: Duration = Duration::from_secs(10);

/// When something was said last.
#[derive(Debug, Default)]
struct Seldom(Option<Instant>);

impl Seldom {
    /// Whether it is time to say it.
    fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|last| last.elapsed() >= SAY_AGAIN);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}

/// Takes in connections until the server stops. No failure ends it.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, tasks: TaskTracker) {
    let (mut failed, mut full) = (Seldom::default(), Seldom::default());
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => admit(stream, &shared, &tasks, peer, &mut full),
            Err(error) => {
                count(&shared.counts.accept_failed);
                if failed.is_due() {
                    let total = shared.counts.accept_failed.load(Ordering::Relaxed);
                    let hint = if is_too_many(&error) { " (`ulimit -n`)" } else { "" };
                    tracing::warn!("a connection could not be accepted: {error}{hint}; {total} so far");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn admit(stream: TcpStream, shared: &Arc<Shared>, tasks: &TaskTracker, peer: SocketAddr, full: &mut Seldom) {
    if shared.counts.connections.load(Ordering::Relaxed) >= shared.options.max_connections {
        count(&shared.counts.turned_away);
        if full.is_due() {
            let (limit, total) = (shared.options.max_connections, shared.counts.turned_away.load(Ordering::Relaxed));
            tracing::warn!("{peer} is turned away: {limit} connections are open; {total} so far");
        }
        return;
    }
    count(&shared.counts.accepted);
    shared.counts.connections.fetch_add(1, Ordering::Relaxed);
    let shared = Arc::clone(shared);
    tasks.spawn(async move {
        let counts = Arc::clone(&shared.counts);
        let _open = Gauge::raised(&counts.connections);
        match Session::new(stream, shared).run().await {
            End::Clean => tracing::debug!("{peer} has left"),
            End::Stopped(0) => tracing::debug!("{peer} is closed: the server stops"),
            End::Stopped(late) => {
                tracing::warn!(
                    "{peer} is closed: {late} bytes of its requests came after the stop and are not answered"
                );
            }
            End::Dropped(reason) => {
                count(&counts.dropped);
                tracing::info!("{peer} is dropped: {reason}");
            }
        }
    });
}
