//! The preludes of the neighbours beside ours: no name of ours is ambiguous. (`Result` is everyone's, so it is named.)

#![expect(clippy::print_stdout, clippy::unused_async, reason = "what it prints is compared")]

use anyhow::*;
use axum::extract::*;
use axum::response::*;
use axum::routing::*;
use futures::prelude::*;
use slipstream::prelude::*;
use tokio::time::*;

static LENGTHS: Proxy<usize> = Proxy::new("lengths");

pub(crate) struct Limit(pub(crate) usize);

fn short(words: impl Stream<Item = String>) -> impl Stream<Item = String> {
    words.filter(|word| std::future::ready(word.len() < 5))
}

#[handle(
    stream::iter([String::from("one"), String::from("seven")]),
    pipe = short,
    timeout = Duration::from_secs(50),
    sink = [|n| println!("all preludes: {n}")]
)]
async fn length(
    word: String,
    unit: Unit,
    Ext(limit): Ext<Limit>,
    downtime: Option<Downtime>,
    checkpoint: Option<CheckpointHandle>,
) -> anyhow::Result<usize> {
    ensure!(downtime.is_none() && checkpoint.is_none(), "no checkpoint guards these words");
    ensure!(word.len() <= limit.0, "too long");
    Some(word.len()).with_context(|| unit.place())
}

fn app() -> (App, Router<()>) {
    let words = stream! { yield String::from("one") };
    let app = App::new().conf(Conf::isolated()).handle(words, |word: String| One(word), print);
    let lengths = App::new().handle(&LENGTHS, |n: usize| n, print);
    let _: (Option<Message<Bytes>>, Option<DateTime<Utc>>, App) = (None, None, lengths);
    let _: Option<Headers> = None;
    (app, Router::new().route("/", get(async |State(()): State<()>| Html("ok"))).with_state(()))
}

#[test]
fn a_program_with_all_preludes_compiles_and_runs() {
    let (app, _router) = app();
    slipstream::testing::block_on(async { timeout(Duration::from_secs(50), app.run().into_future()).await })
        .unwrap()
        .unwrap();
}
