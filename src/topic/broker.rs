//! Which backend a topic's settings mean, and who shares it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::driver::Backend;
use super::memory::MemoryBackend;
use crate::conf::{BrokerUrl, KafkaConfig, Settings};
use crate::error::{Error, Kind, Result};
use crate::flow::Env;

/// A broker as somebody uses it. Two that are equal share connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Broker {
    url: String,
    /// Everything its connections are configured with; never shown.
    how: String,
    /// The part of that which concerns reading.
    reads: String,
}

impl Broker {
    /// The same for topics that one connection can read, however they are written.
    pub(crate) fn reading(&self) -> String {
        let how = if self.url == "memory:" { &self.how } else { &self.reads };
        format!("{} {how}", self.url)
    }

    fn say_if_default(&self, settings: &Settings) {
        if settings.broker().is_none() {
            tracing::info!("no broker is configured: topics live in {}", self.url);
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether both mean the same topics. Apps with ids or settings of their own may share a declaration as long as it
    /// is the same cluster to all of them; a broker without a name belongs to one run.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        self.url == other.url && (self.url != "memory:" || self.how == other.how)
    }
}

impl std::fmt::Display for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url)
    }
}

/// Brokers are closed after their writers were flushed.
const CLOSE_RANK: u8 = 1;

/// One backend behind a name that [`Env::single`] can keep.
struct Kept(Arc<dyn Backend>);

/// The backend for a topic of a run; topics with equal settings share it.
pub(crate) fn in_app(settings: &Settings, env: &Env) -> Result<(Broker, Arc<dyn Backend>)> {
    let mut broker = describe(settings)?;
    if broker.url == "memory:" {
        // Belongs to one run.
        broker.how = format!("{:p}", env.parts());
    }
    let kept = env.single(&format!("{} {}", broker.url, broker.how), || {
        let backend = open(settings)?;
        backend.durable().into_iter().for_each(|durable| env.add_durable(durable));
        let closing = Arc::clone(&backend);
        env.on_close(CLOSE_RANK, move || Box::pin(async move { closing.close().await }));
        broker.say_if_default(settings);
        Ok(Arc::new(Kept(backend)))
    })?;
    Ok((broker, Arc::clone(&kept.0)))
}

/// The backend for a topic outside of any app; shared while anything outside of apps has it open.
pub(crate) fn on_demand(settings: &Settings) -> Result<(Broker, Arc<dyn Backend>)> {
    static OPEN: Mutex<Option<HashMap<Broker, Weak<dyn Backend>>>> = Mutex::new(None);
    let broker = describe(settings)?;
    let mut open_ones = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let map = open_ones.get_or_insert_default();
    if let Some(found) = map.get(&broker).and_then(Weak::upgrade) {
        return Ok((broker, found));
    }
    let backend = open(settings)?;
    broker.say_if_default(settings);
    map.retain(|_, weak| weak.strong_count() > 0);
    map.insert(broker.clone(), Arc::downgrade(&backend));
    Ok((broker, backend))
}

fn describe(settings: &Settings) -> Result<Broker> {
    let url = place(settings)?;
    let (how, reads) = match &url {
        BrokerUrl::Kafka { .. } => {
            let [reads, writes] = [settings.kafka_consumer(), settings.kafka_producer()].map(|config| lines(&config));
            (format!("{reads}{writes}"), reads)
        }
        _ => Default::default(),
    };
    Ok(Broker { url: url.to_string(), how, reads })
}

fn lines(config: &KafkaConfig) -> String {
    let mut lines = String::new();
    config.iter().for_each(|(key, value)| lines.extend([key, "=", value, "\n"]));
    lines
}

/// Where the topics are: as configured, else in a log of this process's own. One directory has one name, wherever the
/// program was started.
fn place(settings: &Settings) -> Result<BrokerUrl> {
    let directory = match settings.broker() {
        Some(BrokerUrl::Embedded { directory }) => directory.clone(),
        Some(other) => return Ok(other.clone()),
        None if cfg!(feature = "booblik") => settings.state_dir().join("_broker"),
        None => {
            let message = "no broker is configured: set `broker` to `kafka://host:port` or `memory:` (in the \
                           environment: SLIPSTREAM_BROKER)";
            return Err(Error::new(Kind::Config, message));
        }
    };
    Ok(BrokerUrl::Embedded { directory: std::path::absolute(directory)? })
}

fn open(settings: &Settings) -> Result<Arc<dyn Backend>> {
    match place(settings)? {
        BrokerUrl::Memory { name } => Ok(Arc::new(MemoryBackend::open(name.as_deref()))),
        #[cfg(feature = "kafka")]
        BrokerUrl::Kafka { .. } => Ok(super::kafka::KafkaBackend::new(settings)?),
        #[cfg(not(feature = "kafka"))]
        BrokerUrl::Kafka { .. } => Err(missing("kafka")),
        #[cfg(feature = "booblik")]
        BrokerUrl::Embedded { directory } => Ok(Arc::new(super::booblik::EmbeddedBackend::new(&directory, settings))),
        #[cfg(feature = "booblik")]
        ref url @ BrokerUrl::Booblik { ref host, port, ref id } => {
            Ok(Arc::new(super::booblik::RemoteBackend::new(url.to_string(), host, port, id.as_deref())?))
        }
        #[cfg(not(feature = "booblik"))]
        BrokerUrl::Embedded { .. } | BrokerUrl::Booblik { .. } => Err(missing("booblik")),
    }
}

#[cfg(not(all(feature = "booblik", feature = "kafka")))]
fn missing(feature: &str) -> Error {
    Error::new(Kind::Unsupported, format!("this program was built without the cargo feature `{feature}`"))
}
