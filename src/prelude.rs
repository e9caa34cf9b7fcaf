//! What every program needs: `use slipstream::prelude::*;`. Names are chosen not to collide with those of axum, anyhow,
//! tokio and futures; traits come without a name.

pub use crate::app::{App, stream};
pub use crate::checkpoint::{Checkpoint, CheckpointHandle, Dependency, Downtime};
pub use crate::error::Result;
pub use crate::handler::{Ext, One, Output as _, Unit};
pub use crate::message::{Headers, Message};
pub use crate::proxy::Proxy;
pub use crate::sink::print;
pub use crate::source::{SharedStream, every};
pub use crate::topic::Topic;
#[cfg(feature = "rocksdb")]
pub use crate::{Cache, Rows, Table};
pub use crate::{Conf, Piped};

#[cfg(feature = "macros")]
pub use slipstream_macros::handle;

pub use async_stream::{stream, try_stream};
pub use bytes::Bytes;
pub use chrono::{DateTime, Utc};
pub use futures::stream;
pub use futures::{Stream, StreamExt as _, TryStreamExt as _};
