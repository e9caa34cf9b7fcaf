//! Management of one topic on its broker.

use std::sync::Arc;

use super::driver::{Manage, TopicDescription};
use super::open::OpenTopic;
use crate::error::Result;

/// Creates, deletes and describes a topic; from [`Topic::admin`](super::Topic::admin).
///
/// ```
/// use slipstream::Topic;
/// use slipstream::topic::Memory;
///
/// # slipstream::testing::block_on(async {
/// let _kept = Memory::named("admin");
/// let words: Topic<String> = Topic::new("words").conf(&[("broker", "memory:admin")]);
/// let admin = words.admin()?;
/// admin.create(3).await?;
/// let description = admin.describe().await?.expect("it was just created");
/// assert_eq!(description.partitions, [(0, 0); 3]); // the oldest offset and the next one, of each
/// admin.delete().await?;
/// words.close().await
/// # }).unwrap();
/// ```
pub struct Admin {
    name: Arc<str>,
    manage: Arc<dyn Manage>,
}

impl Admin {
    pub(crate) fn new(open: &OpenTopic) -> Result<Self> {
        Ok(Self { name: Arc::clone(&open.name), manage: open.backend.manage()? })
    }

    /// Creates it.
    ///
    /// # Errors
    /// [`Kind::Broker`](crate::Kind::Broker), also when it exists.
    pub async fn create(&self, partitions: u32) -> Result<()> {
        self.manage.create(Arc::clone(&self.name), partitions).await
    }

    /// Deletes it with all its records.
    ///
    /// # Errors
    /// [`Kind::UnknownTopic`](crate::Kind::UnknownTopic), [`Kind::Broker`](crate::Kind::Broker).
    pub async fn delete(&self) -> Result<()> {
        self.manage.delete(Arc::clone(&self.name)).await
    }

    /// Its partitions with their offsets; `None` when there is no such topic.
    ///
    /// # Errors
    /// [`Kind::Broker`](crate::Kind::Broker).
    pub async fn describe(&self) -> Result<Option<TopicDescription>> {
        self.manage.describe(Arc::clone(&self.name)).await
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("topic", &self.name).finish_non_exhaustive()
    }
}
