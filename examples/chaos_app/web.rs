//! An HTTP server beside the sources, which is to stop before they do.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use slipstream::{BoxError, Error, Kind, Result};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::Shared;
use crate::commands::tell;

/// How long the slow page takes: longer than the harness needs to send a signal meanwhile.
const SLOW: Duration = Duration::from_secs(2);

pub async fn serve(shared: Arc<Shared>, stop: CancellationToken) -> Result<()> {
    let slow = || async {
        tell("event http asked");
        tokio::time::sleep(SLOW).await;
        "done"
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    tell(&format!("event http port {}", listener.local_addr().map_err(failed)?.port()));
    let (told, counts) = (Arc::clone(&shared), stop.clone());
    let stopping = async move {
        counts.cancelled().await;
        tell(&format!("event http stopping {}", told.ended()));
    };
    let served = axum::serve(listener, Router::new().route("/slow", get(slow))).with_graceful_shutdown(stopping).await;
    tell(&format!("event http stopped {}", shared.ended()));
    served.map_err(failed)
}

fn failed(error: impl Into<BoxError>) -> Error {
    Error::new(Kind::Io, "the HTTP server failed").because(error)
}
