//! The app that `make chaos` kills, stops and cuts off. For each record of the input, which is a number, its handler
//! waits a little and echoes the number, where it came from, and which life of the process that was.
//!
//! It is of use only to `tests/chaos`, which sets its `CHAOS_…` variables.

mod commands;
#[cfg(feature = "rocksdb")]
mod counting;
#[cfg(feature = "kafka")]
mod early;
#[cfg(feature = "rocksdb")]
mod joined;
mod settings;
mod web;

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use slipstream::prelude::*;

use crate::commands::tell;
use crate::settings::{Settings, echo};

/// What handlers, commands and the HTTP server know together.
pub struct Shared {
    settings: Settings,
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Shared {
    /// A handler begins; the first one is told, since from there on a kill is worth it.
    fn begin(&self) {
        if self.begun.fetch_add(1, Ordering::Relaxed) == 0 {
            tell("event first");
        }
    }

    fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    slipstream::log::init();
    let settings = Settings::read()?;
    #[cfg(feature = "rocksdb")]
    if !settings.joins.is_empty() {
        return joined::run(settings).await;
    }
    let shared = Arc::new(Shared { settings, begun: AtomicU64::new(0), ended: AtomicU64::new(0) });
    #[cfg(feature = "kafka")]
    if shared.settings.commits_early {
        return tokio::task::block_in_place(|| early::run(&shared));
    }
    #[cfg(feature = "rocksdb")]
    if shared.settings.tables {
        return counting::run(shared).await;
    }
    anyhow::ensure!(!shared.settings.tables, "there are no tables without the feature rocksdb");
    run(shared).await
}

async fn run(shared: Arc<Shared>) -> Result<()> {
    let input: Topic<String> = Topic::named(shared.settings.input.as_str());
    let output: Topic<String> = Topic::named(shared.settings.output.as_str()).conf(elsewhere(&shared.settings));
    let of_handler = Arc::clone(&shared);
    let handler = move |message: Message<String>| handle(Arc::clone(&of_handler), message);
    let mut app = App::new()
        .handle(input.clone(), handler, output)
        .concurrency(shared.settings.concurrency)
        .conf(shared.settings.conf());
    if shared.settings.http {
        let of_server = Arc::clone(&shared);
        app = app.beside(move |stop| web::serve(of_server, stop));
    }
    let run = app.run();
    commands::obey(run.handle(), input, shared, || None);
    let result = run.into_future().await;
    tell("event ended");
    Ok(result?)
}

/// Settings of the output alone. They are made once, and a topic's settings are part of its declaration.
fn elsewhere(settings: &Settings) -> &'static [(&'static str, &'static str)] {
    let Some(servers) = &settings.output_servers else { return &[] };
    let broker: &'static str = String::leak(format!("kafka://{servers}"));
    Vec::leak(vec![("broker", broker)])
}

async fn handle(shared: Arc<Shared>, message: Message<String>) -> Result<(String, String)> {
    let id: u64 = message.value.parse().context("not an id")?;
    shared.begin();
    tokio::time::sleep(shared.settings.delay(id)).await;
    shared.end();
    Ok((message.value, echo(id, message.partition, message.offset, shared.settings.life)))
}
