//! A connection that is made again when it has ended.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::{Mutex as AsyncMutex, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::backoff::Backoff;
use super::connection::{Ask, Connection, Reply, Unanswered};
use super::error::{Ended, Fate};
use super::options::Options;
use super::stats::Counters;
use super::{Address, ClientError};

/// How to reach a broker.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) address: Address,
    pub(super) options: Options,
    pub(super) counters: Arc<Counters>,
    /// Why the last attempt to connect failed; nothing after one that did not.
    pub(super) away: watch::Sender<Option<Arc<str>>>,
}

/// The time that a call has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) after: Duration,
}

impl Deadline {
    pub(super) fn after(after: Duration) -> Self {
        Self { at: Instant::now() + after, after }
    }

    pub(super) fn passed(self, broker: &Address, fate: Fate) -> ClientError {
        ClientError::Timeout { broker: broker.to_string().into(), after: self.after, fate }
    }
}

/// Which failures of a call are tried again, on a new connection, as long as there is time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// All: it can be done twice.
    Always,
    /// Those after which it is certain that nothing was sent.
    Unsent,
}

/// One connection to a broker at a time.
pub(super) struct Link {
    dialer: Arc<Dialer>,
    current: Mutex<Option<Arc<Connection>>>,
    /// Held by the one who connects; the others wait for the outcome.
    backoff: AsyncMutex<Backoff>,
}

/// A request on its way.
pub(super) struct Pending {
    dialer: Arc<Dialer>,
    connection: Arc<Connection>,
    reply: oneshot::Receiver<Reply>,
    deadline: Deadline,
}

impl Link {
    pub(super) fn new(dialer: Arc<Dialer>) -> Self {
        let options = &dialer.options;
        let backoff = AsyncMutex::new(Backoff::new(options.first_backoff, options.max_backoff));
        Self { dialer, current: Mutex::new(None), backoff }
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn call(&self, ask: &Ask<'_>, again: Again, deadline: Deadline) -> Result<Bytes, ClientError> {
        loop {
            let error = match self.submit(ask, deadline).await?.answer().await {
                Ok(body) => return Ok(body),
                Err(error) => error,
            };
            let may_repeat =
                matches!(error, ClientError::Lost { fate, .. } if again == Again::Always || fate == Fate::NotSent);
            if !may_repeat || matches!(error, ClientError::Lost { ended: Ended::ByClient, .. }) {
                return Err(error);
            }
        }
    }

    /// Sends a request on a connection that lives.
    ///
    /// Dropped before it returns, it has sent nothing.
    pub(super) async fn submit(&self, ask: &Ask<'_>, deadline: Deadline) -> Result<Pending, ClientError> {
        if let Some(connection) = self.living() {
            // Nearly always, and then without a timer.
            match connection.try_submit(ask) {
                Some(Ok(reply)) => return Ok(self.pending(connection, reply, deadline)),
                Some(Err(error @ Unanswered::Unwritable(_))) => return Err(error.into()),
                Some(Err(_)) | None => {}
            }
        }
        Box::pin(self.submit_later(ask, deadline)).await
    }

    async fn submit_later(&self, ask: &Ask<'_>, deadline: Deadline) -> Result<Pending, ClientError> {
        let mut unreachable = None;
        let sent = timeout_at(deadline.at, async {
            loop {
                let connection = self.connection(&mut unreachable).await;
                match connection.submit(ask).await {
                    Ok(reply) => return Ok(self.pending(connection, reply, deadline)),
                    Err(Unanswered::Lost { ended: Ended::ByClient, fate }) => {
                        return Err(ClientError::Lost { ended: Ended::ByClient, fate });
                    }
                    // It ended before anything was sent.
                    Err(Unanswered::Lost { .. }) => {}
                    Err(other) => return Err(other.into()),
                }
            }
        });
        let sent = sent.await;
        sent.unwrap_or_else(
            |_| Err(unreachable.unwrap_or_else(|| deadline.passed(&self.dialer.address, Fate::NotSent))),
        )
    }

    fn pending(&self, connection: Arc<Connection>, reply: oneshot::Receiver<Reply>, deadline: Deadline) -> Pending {
        Pending { dialer: Arc::clone(&self.dialer), connection, reply, deadline }
    }

    /// The connection; a new one when there is none that lives, after as many attempts as it takes. Why the last one
    /// failed is left in `unreachable`.
    async fn connection(&self, unreachable: &mut Option<ClientError>) -> Arc<Connection> {
        if let Some(connection) = self.living() {
            return connection;
        }
        let mut backoff = self.backoff.lock().await;
        loop {
            if let Some(connection) = self.living() {
                return connection;
            }
            self.judge_ended(&mut backoff);
            if let Some(not_before) = backoff.not_before() {
                sleep_until(not_before).await;
            }
            match self.dial().await {
                Ok(connection) => return connection,
                Err(error) => *unreachable = Some(error),
            }
            backoff.failed(Instant::now(), fastrand::f64());
        }
    }

    fn living(&self) -> Option<Arc<Connection>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|connection| !connection.is_ended()).cloned()
    }

    /// A connection that ended without an answer counts as a failed attempt: what accepts and closes is no broker.
    fn judge_ended(&self, backoff: &mut Backoff) {
        let ended = self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        match ended {
            Some(connection) if connection.has_answered() => backoff.succeeded(),
            Some(_) => backoff.failed(Instant::now(), fastrand::f64()),
            None => {}
        }
    }

    /// Makes a connection, once.
    pub(super) async fn dial(&self) -> Result<Arc<Connection>, ClientError> {
        let dialed = self.dialer.dial().await;
        let connection = Arc::new(dialed.map_err(|error| self.dialer.unreachable(error))?);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Ends the connection; the next call makes a new one at once.
    pub(super) fn hang_up(&self) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connection) = current {
            connection.close(&Ended::ByClient);
        }
    }

    /// Ends the connection for a reason; the next call makes a new one.
    pub(super) fn end(&self, ended: &Ended) {
        if let Some(connection) = self.living() {
            connection.close(ended);
        }
    }
}

impl Dialer {
    async fn dial(&self) -> io::Result<Connection> {
        let address = (self.address.host(), self.address.port());
        let connecting = tokio::time::timeout(self.options.connect_timeout, TcpStream::connect(address));
        let stream = connecting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut)).flatten();
        let connection =
            stream.and_then(|stream| Connection::start(stream, self.options.max_in_flight, Arc::clone(&self.counters)));
        match &connection {
            Ok(_) => self.counters.connected(),
            Err(_) => self.counters.failed_to_connect(),
        }
        let away = connection.as_ref().err().map(|error| Arc::from(error.to_string()));
        self.away.send_if_modified(|known| {
            let is_news = *known != away;
            *known = away;
            is_news
        });
        connection
    }

    fn unreachable(&self, error: io::Error) -> ClientError {
        ClientError::Connect { address: self.address.to_string(), source: Arc::new(error) }
    }
}

impl Pending {
    /// The body of the answer.
    ///
    /// When the deadline passes the connection is closed: the answer may still come, and nobody would know whose it is.
    /// Dropped, it keeps its place in the queue, and the answer is thrown away.
    pub(super) async fn answer(&mut self) -> Result<Bytes, ClientError> {
        match timeout_at(self.deadline.at, &mut self.reply).await {
            Ok(Ok(reply)) => reply.map_err(ClientError::from),
            // Dropped with the task that had it.
            Ok(Err(_)) => Err(ClientError::Lost { ended: self.connection.ended(), fate: Fate::Unknown }),
            Err(_) => {
                self.connection.close(&Ended::Overdue);
                Err(self.deadline.passed(&self.dialer.address, Fate::Unknown))
            }
        }
    }
}

impl From<Unanswered> for ClientError {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Refused(code) => Self::Refused { code, place: None },
            Unanswered::Lost { ended, fate } => Self::Lost { ended, fate },
            Unanswered::Unwritable(error) => Self::Request(error),
        }
    }
}
