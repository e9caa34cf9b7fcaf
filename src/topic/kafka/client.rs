//! What all librdkafka clients of this crate have in common: configuration, log, errors.

use std::sync::atomic::{AtomicUsize, Ordering};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::conf::KafkaConfig;
use crate::error::{Error, Kind, Result};

/// A partition of a topic.
pub(super) type Place = (std::sync::Arc<str>, i32);

/// librdkafka's form of a configuration.
pub(super) fn client_config(config: &KafkaConfig) -> ClientConfig {
    let mut client: ClientConfig = config.clone().into_iter().collect();
    // The wrapper asks the `log` crate otherwise, and drops every line when the program does not use it.
    client.set_log_level(match config.get("log_level").and_then(|level| level.trim().parse::<u8>().ok()) {
        Some(0..=3) => RDKafkaLogLevel::Error,
        Some(4) => RDKafkaLogLevel::Warning,
        Some(5) => RDKafkaLogLevel::Notice,
        Some(7..) => RDKafkaLogLevel::Debug,
        None | Some(6) => RDKafkaLogLevel::Info,
    });
    client
}

/// Makes a client; an error names what librdkafka refused, without secret values.
pub(super) fn create<C, T>(client: &ClientConfig, context: C, config: &KafkaConfig) -> Result<T>
where
    C: ClientContext,
    T: FromClientConfigAndContext<C>,
{
    client.create_with_context(context).map_err(|error| refused(&error, config))
}

/// Has librdkafka look at each property.
pub(super) fn check(config: &KafkaConfig) -> Result<()> {
    client_config(config).create_native_config().map(drop).map_err(|error| refused(&error, config))
}

fn refused(error: &KafkaError, config: &KafkaConfig) -> Error {
    Error::new(Kind::Config, format!("no Kafka client: {}", config.without_secrets(&error.to_string())))
}

/// Passes a line of librdkafka's log on.
pub(super) fn log(level: RDKafkaLogLevel, facility: &str, text: &str) {
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
            tracing::error!(target: "librdkafka", facility, "{text}");
        }
        // What it does about by itself, as while a new cluster's coordinator loads, is nothing to warn of.
        RDKafkaLogLevel::Warning if text.ends_with(": retrying") => {
            tracing::info!(target: "librdkafka", facility, "{text}");
        }
        RDKafkaLogLevel::Warning => tracing::warn!(target: "librdkafka", facility, "{text}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::info!(target: "librdkafka", facility, "{text}"),
        RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{text}"),
    }
}

/// Counts what a client's queue had for its callbacks: a poll that served one looks like a poll of an empty queue.
#[derive(Default)]
pub(super) struct Served(AtomicUsize);

impl Served {
    pub(super) fn one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Polls without waiting until the queue is empty or `max` events are served; whether it is empty. What a poll
    /// returns goes to `take`.
    pub(super) fn drain<T>(&self, max: usize, mut poll: impl FnMut() -> Option<T>, mut take: impl FnMut(T)) -> bool {
        for _ in 0..max {
            let before = self.count();
            match poll() {
                Some(event) => take(event),
                None if self.count() == before => return true,
                None => {}
            }
        }
        false
    }
}

/// The context of clients that only look things up: their errors come back from the calls.
#[derive(Default)]
pub(super) struct Quiet {
    pub(super) served: Served,
}

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.served.one();
        log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", "{error}: {reason}");
    }

    fn stats_raw(&self, _: &[u8]) {
        self.served.one();
    }
}

impl rdkafka::consumer::ConsumerContext for Quiet {}

/// An error of librdkafka as one of ours. It is retryable when the same call may succeed once the broker is well.
pub(super) fn to_error(error: &KafkaError, doing: &str) -> Error {
    let message = format!("{doing}: {}", text(error));
    match code_of(error) {
        Some(code) => by_code(code, message),
        None => Error::new(Kind::Broker, message),
    }
}

/// The code in an error, also where the wrapper's own accessor leaves it out.
pub(super) fn code_of(error: &KafkaError) -> Option<RDKafkaErrorCode> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        _ => error.rdkafka_error_code(),
    }
}

/// The error of `code`.
pub(super) fn by_code(code: RDKafkaErrorCode, message: String) -> Error {
    use RDKafkaErrorCode as Code;
    match code {
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
            Error::new(Kind::UnknownTopic, message)
        }
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => Error::new(Kind::TooLarge, message),
        Code::PurgeQueue | Code::PurgeInflight => Error::new(Kind::Abandoned, message),
        code if is_final(code) => Error::new(Kind::Broker, message),
        _ => Error::new(Kind::Broker, message).retryable(),
    }
}

/// Whether waiting cannot help: the broker refuses this client, or the client is broken for good.
pub(super) fn is_final(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::Fatal
            | Code::Fenced
            | Code::FencedInstanceId
            | Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::UnsupportedSASLMechanism
            | Code::IllegalSASLState
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::InconsistentGroupProtocol
            | Code::InvalidGroupId
            | Code::InvalidTopic
            | Code::InvalidSessionTimeout
            | Code::UnsupportedVersion
            | Code::UnsupportedFeature
    )
}

/// What went wrong, without the wrapper's prefix.
pub(super) fn text(error: &KafkaError) -> String {
    code_of(error).map_or_else(|| error.to_string(), |code| code.to_string())
}
