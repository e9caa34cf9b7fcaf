//! A booblik broker on a directory: `booblik_broker DIR ADDRESS TOPIC:PARTITIONS…`
//!
//! Says `booblik listening on ADDRESS` when it is ready, and stops gently on ctrl-c.

#![expect(clippy::print_stdout, reason = "scripts wait for the line that says it is ready")]

use slipstream::booblik::broker::{Broker, BrokerOptions, ServerOptions};
use slipstream::{Error, Kind, Result};

fn usage() -> Error {
    Error::new(Kind::Config, "usage: booblik_broker DIR ADDRESS TOPIC:PARTITIONS…")
}

#[tokio::main]
async fn main() -> Result<()> {
    slipstream::log::init();
    let mut arguments = std::env::args().skip(1);
    let (directory, address) = arguments.next().zip(arguments.next()).ok_or_else(usage)?;
    let broker = Broker::open(directory, BrokerOptions::default()).await?;
    for topic in arguments {
        let (name, count) = topic.split_once(':').ok_or_else(usage)?;
        broker.ensure_topic(name, count.parse().map_err(|_| usage())?).await?;
    }
    let server = broker.listen(&address, ServerOptions::default()).await?;
    println!("booblik listening on {}", server.local_addr());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    broker.close().await
}
