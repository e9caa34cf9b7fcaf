//! A broker in its process.

mod basics;
mod writing;

use super::{Broker, BrokerOptions};

async fn open(dir: &tempfile::TempDir) -> Broker {
    Broker::open(dir.path(), BrokerOptions::default()).await.unwrap()
}
