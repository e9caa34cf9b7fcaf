//! The backend of `memory:`: what an app asks for readers, writers and management.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use super::broker::{Broker, Memory};
use super::limits::MemoryLimits;
use super::member::MemoryDriver;
use super::writer::MemoryWriter;
use crate::error::Result;
use crate::flow::fold::FoldHome;
use crate::topic::driver::{Backend, Driver, EventSender, Home, Manage, Subscription, TopicDescription, Writer};

/// An app's use of a broker in memory.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBackend {
    memory: Memory,
}

impl MemoryBackend {
    /// The broker that is shared by `name`, or one of its own without a name.
    pub(crate) fn open(name: Option<&str>) -> Self {
        Self::over(name.map_or_else(|| Memory::unnamed(MemoryLimits::default()), Memory::named))
    }

    /// This broker.
    pub(crate) fn over(memory: Memory) -> Self {
        Self { memory }
    }
}

impl Backend for MemoryBackend {
    fn subscribe(&self, subscription: Subscription, events: EventSender) -> Result<Arc<dyn Driver>> {
        Ok(Arc::new(MemoryDriver::start(Arc::clone(self.memory.broker()), subscription, events)?))
    }

    fn writer(&self) -> Result<Arc<dyn Writer>> {
        Ok(Arc::new(MemoryWriter::new(Arc::clone(self.memory.broker()))))
    }

    fn manage(&self) -> Result<Arc<dyn Manage>> {
        Ok(Arc::new(MemoryManage(Arc::clone(self.memory.broker()))))
    }

    fn lasts(&self) -> bool {
        false
    }

    fn tables_home(&self, app: &Path) -> Result<Option<FoldHome>> {
        self.memory.broker().tables_home(app).map(Some)
    }

    fn own_positions(&self) -> BoxFuture<'static, Result<Home>> {
        ready(Ok(Home::Here(Arc::clone(&self.memory.broker().kept)))).boxed()
    }
}

struct MemoryManage(Arc<Broker>);

impl Manage for MemoryManage {
    fn create(&self, topic: Arc<str>, partitions: u32) -> BoxFuture<'static, Result<()>> {
        ready(self.0.with(|state| state.create(&topic, partitions))).boxed()
    }

    fn delete(&self, topic: Arc<str>) -> BoxFuture<'static, Result<()>> {
        ready(self.0.with(|state| state.delete(&topic))).boxed()
    }

    fn describe(&self, topic: Arc<str>) -> BoxFuture<'static, Result<Option<TopicDescription>>> {
        ready(self.0.answers().map(|()| self.0.with(|state| state.describe(&topic)))).boxed()
    }
}
