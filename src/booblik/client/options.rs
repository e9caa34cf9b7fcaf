//! The settings of a client.

use std::time::Duration;

use super::{Address, Client, ClientError};

/// Whether to send a produce again when it is not known what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Resend {
    /// Only when no byte of it was sent; otherwise the caller learns that it
    /// [may have been done](ClientError::is_ambiguous). The default.
    #[default]
    Unsent,
    /// Until it is acknowledged or its time is over: at least once, perhaps more often.
    Always,
}

/// The settings of a [`Client`].
///
/// ```
/// use std::time::Duration;
/// use slipstream::booblik::client::Client;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), slipstream::booblik::client::ClientError> {
/// // Nothing is connected yet: the first call does that.
/// let client = Client::builder("[::1]:9092").request_timeout(Duration::from_secs(5)).max_in_flight(64).build()?;
/// assert_eq!(client.stats().connections, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ClientBuilder {
    address: String,
    pub(super) options: Options,
}

/// What is set, checked.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) request_timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) first_backoff: Duration,
    pub(super) max_backoff: Duration,
    pub(super) max_in_flight: usize,
    pub(super) max_waiting: usize,
    pub(super) resend: Resend,
}

impl ClientBuilder {
    pub(super) fn new(address: String) -> Self {
        let options = Options {
            request_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            first_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(5),
            max_in_flight: 256,
            max_waiting: 64,
            resend: Resend::default(),
        };
        Self { address, options }
    }

    /// How long a call may take, connecting and waiting for room included: 30 s unless set. A fetch has its wait on top.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.options.request_timeout = timeout;
        self
    }

    /// How long one attempt to connect may take: 10 s unless set.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = timeout;
        self
    }

    /// The wait after a first failed attempt to connect, and the cap up to which it doubles: 50 ms and 5 s unless set. A
    /// random part of up to a half is taken off.
    pub fn backoff(mut self, first: Duration, cap: Duration) -> Self {
        self.options.first_backoff = first;
        self.options.max_backoff = cap;
        self
    }

    /// The requests that may be in flight on a connection, 1 to 65,536: 256 unless set. Further ones wait.
    pub fn max_in_flight(mut self, requests: usize) -> Self {
        self.options.max_in_flight = requests;
        self
    }

    /// The connections for fetches that wait, 1 to 65,536: 64 unless set. A [`Consumer`](super::Consumer) and a
    /// [`Producer`](super::Producer) have one of their own beside them.
    pub fn max_waiting(mut self, connections: usize) -> Self {
        self.options.max_waiting = connections;
        self
    }

    /// What to do with a [`Client::produce`] whose answer was lost: [`Resend::Unsent`] unless set.
    pub fn resend(mut self, resend: Resend) -> Self {
        self.options.resend = resend;
        self
    }

    /// The client, without a connection: the first call makes one.
    ///
    /// # Errors
    ///
    /// [`ClientError::Address`] and [`ClientError::Setting`].
    pub fn build(self) -> Result<Client, ClientError> {
        let address: Address = self.address.parse()?;
        let options = self.options;
        let counts = [options.max_in_flight, options.max_waiting];
        if counts.iter().any(|count| !(1..=65_536).contains(count)) {
            return Err(ClientError::Setting("max_in_flight and max_waiting must be 1 to 65536"));
        }
        let times = [options.request_timeout, options.connect_timeout, options.first_backoff, options.max_backoff];
        if times.iter().any(|time| time.is_zero() || *time > MAX_TIME) {
            return Err(ClientError::Setting("timeouts and back-offs must be above 0 and at most an hour"));
        }
        Ok(Client::new(address, options))
    }

    /// The client, connected.
    ///
    /// # Errors
    ///
    /// Those of [`build`](Self::build), and [`ClientError::Connect`] after the first failed attempt.
    pub async fn connect(self) -> Result<Client, ClientError> {
        let client = self.build()?;
        client.dial().await?;
        Ok(client)
    }
}

/// A timeout beyond this is none.
const MAX_TIME: Duration = Duration::from_hours(1);
