//! `embedded:`: a log on disk that this process owns. No sockets: records go to the log's writers and come from its
//! files.

mod place;
mod reader;
mod writer;

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use self::place::Place;
use self::writer::LogWriter;
use super::driver::LogDriver;
use super::format::Format;
use crate::conf::{Durability, Encoding, Settings, TopicSettings};
use crate::error::{Error, Kind, Result};
use crate::flow::durable::Durable;
use crate::topic::driver::{Backend, Driver, EventSender, Home, Manage, Subscription, TopicDescription, Writer};

/// An app's use of a log in this process, which is opened by the first who needs it.
pub(crate) struct EmbeddedBackend {
    place: Arc<Place>,
}

impl EmbeddedBackend {
    pub(crate) fn new(directory: &Path, settings: &Settings) -> Self {
        Self { place: Arc::new(Place::new(directory, settings)) }
    }

    fn writing(&self, encoding: Option<Encoding>, durability: Durability) -> Arc<dyn Writer> {
        let format = Format::new(encoding, Encoding::Envelope);
        Arc::new(LogWriter::new(Arc::clone(&self.place), format, durability))
    }
}

impl Backend for EmbeddedBackend {
    fn subscribe(&self, subscription: Subscription, events: EventSender) -> Result<Arc<dyn Driver>> {
        Ok(Arc::new(LogDriver::start(Arc::clone(&self.place), subscription, events)?))
    }

    fn writer(&self) -> Result<Arc<dyn Writer>> {
        Ok(self.writing(None, Durability::default()))
    }

    fn topic_writer(&self, settings: &TopicSettings) -> Result<Arc<dyn Writer>> {
        Ok(self.writing(settings.encoding(), settings.durability()))
    }

    fn manage(&self) -> Result<Arc<dyn Manage>> {
        Ok(Arc::new(LogManage(Arc::clone(&self.place))))
    }

    fn has_groups(&self) -> bool {
        false
    }

    fn own_positions(&self) -> BoxFuture<'static, Result<Home>> {
        let place = Arc::clone(&self.place);
        async move { Ok(Home::Named(format!("booblik-{}", place.broker().await?.id()))) }.boxed()
    }

    fn durable(&self) -> Option<Arc<dyn Durable>> {
        let runtime = Handle::try_current().ok()?;
        Some(Arc::new(Synced { place: Arc::clone(&self.place), runtime }))
    }

    fn close(&self) -> BoxFuture<'static, Result<()>> {
        let place = Arc::clone(&self.place);
        async move { place.close().await }.boxed()
    }
}

/// What units wrote to the log is on disk before their positions are.
struct Synced {
    place: Arc<Place>,
    runtime: Handle,
}

impl Durable for Synced {
    fn sync(&self) -> Result<()> {
        self.runtime.block_on(self.place.sync())
    }
}

struct LogManage(Arc<Place>);

impl Manage for LogManage {
    fn create(&self, topic: Arc<str>, partitions: u32) -> BoxFuture<'static, Result<()>> {
        let place = Arc::clone(&self.0);
        async move {
            let broker = place.broker().await?;
            if broker.topics().contains_key(&*topic) {
                return Err(Error::new(Kind::Broker, "the topic exists already").at(&*topic));
            }
            broker.ensure_topic(&topic, partitions as usize).await.map(drop)
        }
        .boxed()
    }

    fn delete(&self, topic: Arc<str>) -> BoxFuture<'static, Result<()>> {
        let place = Arc::clone(&self.0);
        async move {
            place.find(&topic).await?;
            let text = format!(
                "a topic of an embedded log cannot be deleted while the log is open: end the program, take its line out \
                 of `booblik.topics` and remove its directories, `{topic}-<partition>`, both in {}. Apps that have read \
                 it then go on by their out-of-range policy",
                place.directory().display()
            );
            Err(Error::new(Kind::Unsupported, text).at(&*topic))
        }
        .boxed()
    }

    fn describe(&self, topic: Arc<str>) -> BoxFuture<'static, Result<Option<TopicDescription>>> {
        let place = Arc::clone(&self.0);
        async move {
            let partitions = match place.find(&topic).await {
                Ok(partitions) => partitions,
                Err(error) if error.kind() == Kind::UnknownTopic => return Ok(None),
                Err(error) => return Err(error),
            };
            let ends = partitions.iter().map(|own| (own.log_start(), own.high_watermark())).collect();
            Ok(Some(TopicDescription { name: topic.to_string(), partitions: ends }))
        }
        .boxed()
    }
}
