//! Taking in connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use super::Shared;
use super::counts::{Gauge, count};
use super::session::{End, Session};

/// How long to wait after a failure, for example because there are too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes in connections until the server stops. No failure ends it.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => admit(stream, &shared, &tasks, peer),
            Err(error) => {
                count(&shared.counts.accept_failed);
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn admit(stream: TcpStream, shared: &Arc<Shared>, tasks: &TaskTracker, peer: std::net::SocketAddr) {
    if shared.counts.connections.load(Ordering::Relaxed) >= shared.options.max_connections {
        count(&shared.counts.turned_away);
        let limit = shared.options.max_connections;
        tracing::warn!("{peer} is turned away: {limit} connections are open");
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
            End::Stopped => tracing::debug!("{peer} is closed: the server stops"),
            End::Dropped(reason) => {
                count(&counts.dropped);
                tracing::info!("{peer} is dropped: {reason}");
            }
        }
    });
}
