//! The server: one task per connection, requests answered in their order.

mod accept;
mod answers;
mod counts;
mod fetch;
mod metadata;
mod options;
mod partial;
mod produce;
mod session;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Error, Kind, Result};

use super::descriptors::room_for_connections;
use super::handle::Broker;
use counts::Counts;

pub use counts::ServerMetrics;
pub use options::ServerOptions;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A broker that answers to the network. It stops when this is dropped; [`shutdown`](Self::shutdown) stops it gently.
///
/// ```
/// # use slipstream::booblik::broker::{Broker, BrokerOptions, ServerOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> slipstream::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// let broker = Broker::open(dir.path(), BrokerOptions::default()).await?;
/// broker.ensure_topic("words", 4).await?;
/// let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await?;
/// println!("booblik listening on {}", server.local_addr());
/// # assert_eq!(server.metrics().connections, 0);
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    local_addr: SocketAddr,
    counts: Arc<Counts>,
    tasks: TaskTracker,
    stop: CancellationToken,
    drain: std::time::Duration,
}

/// What all connections share.
struct Shared {
    broker: Broker,
    options: ServerOptions,
    counts: Arc<Counts>,
    /// A permit is a KiB of a request that is not complete yet.
    partial: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Broker {
    /// Answers on `address`, for example `127.0.0.1:9092`, until the server is shut down or dropped. There is no
    /// authentication and no encryption.
    ///
    /// # Errors
    ///
    /// `Kind::Io` when the address cannot be listened on; `Kind::Config` for options that cannot work.
    pub async fn listen(&self, address: &str, options: ServerOptions) -> Result<Server> {
        let error = |error: std::io::Error| {
            Error::new(Kind::Io, "cannot be listened on").at(format!("address {address}")).because(error)
        };
        let mut last = std::io::ErrorKind::AddrNotAvailable.into();
        for address in tokio::net::lookup_host(address).await.map_err(error)? {
            match listener(address) {
                Ok(listener) => return self.serve(listener, options),
                Err(error) => last = error,
            }
        }
        Err(error(last))
    }

    /// Answers on a listener, until the server is shut down or dropped.
    ///
    /// # Errors
    ///
    /// `Kind::Config` for options that cannot work; `Kind::Io` when the listener is broken.
    pub fn serve(&self, listener: TcpListener, mut options: ServerOptions) -> Result<Server> {
        options.check()?;
        let segments = self.metrics().iter().map(|partition| partition.segments).sum();
        if let Some(room) = room_for_connections(segments).filter(|room| *room < options.max_connections) {
            let wanted = options.max_connections;
            tracing::warn!(
                "{room} connections at a time, not {wanted}: the limit of open files leaves no more (`ulimit -n`)"
            );
            options.max_connections = room;
        }
        let local_addr = listener.local_addr()?;
        if local_addr.ip().is_unspecified() {
            tracing::warn!("booblik listens on {local_addr}: all interfaces, for everyone who can reach this machine");
        }
        let (counts, tasks, stop) = (Arc::new(Counts::default()), TaskTracker::new(), CancellationToken::new());
        let partial = Arc::new(Semaphore::new(options.max_partial_bytes >> 10));
        let drain = options.drain;
        let shared = Shared { broker: self.clone(), options, counts: Arc::clone(&counts), partial, stop: stop.clone() };
        tasks.spawn(accept::accept(listener, Arc::new(shared), tasks.clone()));
        Ok(Server { local_addr, counts, tasks, stop, drain })
    }
}

fn listener(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Server {
    /// Where it listens, with the port that was given to it.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// What it has done and how it stands.
    pub fn metrics(&self) -> ServerMetrics {
        self.counts.read()
    }

    /// Accepts nothing more, answers what was accepted, held fetches with what is there, and closes the connections.
    /// Takes at most `ServerOptions::drain`; a client that does not read its answers by then loses them.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(self.drain, self.tasks.wait()).await.is_err() {
            let open = self.metrics().connections;
            tracing::warn!("{open} connections did not take their answers in time, or went on sending: they are cut");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
