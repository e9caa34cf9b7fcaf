//! Kafka, through librdkafka: one consumer and one reading thread per subscription, one producer for all writing.

mod client;
mod commits;
mod context;
mod events;
mod leftover;
mod lookup;
mod manage;
mod part;
mod produce;
mod reader;
mod reading;
mod rebalance;
mod record;
mod shared;
#[cfg(test)]
mod tests;
mod wake;
mod watch;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use self::lookup::Lookup;
use self::manage::{Admin, KafkaManage};
use self::writer::KafkaWriter;
use super::driver::{Backend, Driver, EventSender, Home, Manage, Subscription, Writer};
use crate::conf::{KafkaConfig, Settings};
use crate::error::Result;

/// A Kafka cluster that an app uses. Its clients are made when they are first needed.
pub(crate) struct KafkaBackend {
    consumer: KafkaConfig,
    producer: Arc<KafkaConfig>,
    admin: Admin,
    lookup: Mutex<Option<Arc<Lookup>>>,
    writer: Mutex<Option<Arc<KafkaWriter>>>,
}

impl KafkaBackend {
    /// The cluster that the settings name. Connects to nothing yet; what librdkafka refuses in the settings is an error
    /// here already.
    pub(crate) fn new(settings: &Settings) -> Result<Arc<Self>> {
        let (consumer, producer) = (settings.kafka_consumer(), Arc::new(settings.kafka_producer()));
        client::check(&consumer)?;
        client::check(&producer)?;
        let admin = Admin::new(Arc::clone(&producer));
        Ok(Arc::new(Self { consumer, producer, admin, lookup: Mutex::default(), writer: Mutex::default() }))
    }

    /// The identity of the cluster, which stays when its addresses change. Blocks, for at most `timeout`.
    #[cfg(test)]
    pub(crate) fn cluster_id(&self, timeout: Duration) -> Option<String> {
        self.lookup().ok()?.cluster_id(timeout)
    }

    fn lookup(&self) -> Result<Arc<Lookup>> {
        let mut slot = self.lookup.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lookup) = &*slot {
            return Ok(Arc::clone(lookup));
        }
        let lookup = Arc::new(Lookup::new(&self.consumer)?);
        *slot = Some(Arc::clone(&lookup));
        Ok(lookup)
    }
}

/// How long a broker may take to tell the cluster's identity before it is asked again.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(5);

/// The default of brokers' `offset.metadata.max.bytes`.
const OFFSET_METADATA_MAX_BYTES: usize = 4096;

impl Backend for KafkaBackend {
    fn note_max_bytes(&self) -> Option<usize> {
        Some(OFFSET_METADATA_MAX_BYTES)
    }

    fn subscribe(&self, subscription: Subscription, events: EventSender) -> Result<Arc<dyn Driver>> {
        Ok(reading::subscribe(self, subscription, events)?)
    }

    fn writer(&self) -> Result<Arc<dyn Writer>> {
        let mut slot = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = &*slot {
            return Ok(Arc::clone(writer) as _);
        }
        let writer = Arc::new(KafkaWriter::new(&self.producer, self.admin.clone(), self.lookup()?)?);
        *slot = Some(Arc::clone(&writer));
        Ok(writer)
    }

    fn manage(&self) -> Result<Arc<dyn Manage>> {
        Ok(Arc::new(KafkaManage { admin: self.admin.clone(), lookup: self.lookup()? }))
    }

    fn own_positions(&self) -> BoxFuture<'static, Result<Home>> {
        let lookup = self.lookup();
        async move {
            let lookup = lookup?;
            loop {
                let ask = |lookup: &Lookup| Ok(lookup.cluster_id(IDENTITY_TIMEOUT));
                if let Some(id) = lookup::blocking(&lookup, "cannot ask which cluster it is", ask).await? {
                    return Ok(Home::Named(format!("kafka-{id}")));
                }
                tracing::warn!("positions of broadcast topics wait for a broker to tell which cluster it is");
            }
        }
        .boxed()
    }
}
