//! The app of the checkpoint's tests: activities, which are the ids of the input, joined with the weather of their time.
//! The harness says when weather comes. Told so, it kills itself at a step of an outage or of a rewind.

use std::future::IntoFuture as _;
use std::io::BufRead as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use slipstream::app::State;
use slipstream::prelude::*;
use slipstream::{Checkpoint, Dependency};

use crate::commands::tell;
use crate::settings::Settings;

/// Times as markers: so many activities come at one.
const PER_TIME: u64 = 4;
/// Behind all times.
const CLOSING: u64 = u64::MAX;

/// Seeks of this process so far: what a handler began before one must not leave after it.
static EPOCH: AtomicU64 = AtomicU64::new(0);
/// The steps that are still to come before the process kills itself, the next one last.
static DEADLY: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// When an activity was, somewhat out of order.
fn time_of(id: u64) -> u64 {
    id / PER_TIME + id * 7 % 5
}

fn on_step(step: &'static str) {
    if step == "sought" {
        EPOCH.fetch_add(1, Ordering::SeqCst);
    }
    let Ok(mut deadly) = DEADLY.lock() else { return };
    if deadly.last().is_none_or(|next| next != step) {
        return;
    }
    deadly.pop();
    if deadly.is_empty() {
        kill_self();
    }
}

#[expect(unsafe_code, reason = "the standard library cannot send a signal to this process")]
fn kill_self() {
    // SAFETY: takes two integers; SIGKILL lets nothing run after it.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::thread::park();
    }
}

pub async fn run(settings: Settings) -> Result<()> {
    slipstream::__private::watch_steps(on_step);
    if let Ok(mut deadly) = DEADLY.lock() {
        deadly.extend(settings.kill_at.split(',').filter(|step| !step.is_empty()).rev().map(str::to_owned));
    }
    let weather: Topic<u64> = Topic::named(format!("{}-weather", settings.input)).partitions(2).broadcast();
    let input: Topic<String> = Topic::named(settings.input.as_str());
    let output: Topic<String> = Topic::named(settings.output.as_str());
    let kept: Cache<u64, u64> = Cache::named("weather");
    let (dependent, dependency, mode) = (input.clone(), weather.clone(), settings.joins.clone());
    let checkpoint = Checkpoint::named("join", move |it| {
        let id = |message: &Message<String>| message.value.parse().map_or(0, time_of);
        let weather = Dependency::new("weather", dependency.clone(), |message: &Message<u64>| message.value / 2);
        // With a state and a callback outages are written down before they are told.
        let handled = |_: &Message<String>, before: Option<&u64>| before.map_or(1, |before| before + 1);
        let guard = it.dependent(dependent.clone(), id).dependency(weather).threshold(0).state(handled);
        let guard = guard.on_recovery(|outage| assert!(outage.number > 0 && outage.recovered.is_some()));
        match &*mode {
            "hold" | "fold" => guard.hold(),
            "never" => guard.no_rewind(),
            _ => guard,
        }
    });
    let (of_join, life) = (kept.clone(), settings.life);
    let delays = settings.clone();
    let join = move |message: Message<String>| {
        let (kept, delays) = (of_join.clone(), delays.clone());
        async move {
            let epoch = EPOCH.load(Ordering::SeqCst);
            let id: u64 = message.value.parse().context("not an id")?;
            let seen = kept.values().from(time_of(id)).rev().iter().next().transpose()?;
            tokio::time::sleep(delays.delay(id)).await;
            let seen = seen.map_or(-1, u64::cast_signed);
            anyhow::Ok((message.value, format!("{id} {seen} {} {life} {epoch}", message.partition)))
        }
    };
    let (before, of_fold) = (kept.clone(), kept.clone());
    let keep = move |message: Message<u64>| -> slipstream::Result<Option<(u64, u64)>> {
        let time = message.value / 2;
        // The harness brings again what it does not know to have come.
        let is_news = before.get(time)?.is_none_or(|known| known < message.value);
        Ok(is_news.then_some((time, message.value)))
    };
    let mut app = App::new().handle(weather.clone(), keep, kept).handle(checkpoint.clone(), join, output);
    let folded: Joined = Table::named("joined");
    if settings.joins == "fold" {
        let fold = move |message: Message<String>, rows: &mut Rows<u64, (u64, i64)>| fold(&message, &of_fold, rows);
        app = app.handle(checkpoint.clone(), fold, ()).name("fold").table(&folded);
    }
    let run = app.conf(settings.conf()).run();
    let of_input = settings.input.clone();
    let handle = run.handle();
    let status = move || {
        let health = handle.health();
        if health.state != State::Running {
            return None; // a topic that is written now would not be the app's
        }
        let input = health.sources.iter().filter(|source| source.name == of_input);
        let done: i64 =
            input.flat_map(|source| &source.lanes).filter_map(|lane| lane.committed).map(|at| at.max(0)).sum();
        let doing = checkpoint.status().ok()?.doing;
        Some(format!("{doing:?} {done}"))
    };
    obey(tokio::runtime::Handle::current(), weather, status, move || wrong_rows(&folded));
    let result = run.into_future().await;
    tell("event ended");
    Ok(result?)
}

/// Of each id how often it came, and what the weather was.
type Joined = Table<u64, (u64, i64)>;

fn fold(message: &Message<String>, kept: &Cache<u64, u64>, rows: &mut Rows<u64, (u64, i64)>) -> slipstream::Result<()> {
    let not_an_id = |error| slipstream::Error::new(slipstream::Kind::Decode, "not an id").because(error);
    let id: u64 = message.value.parse().map_err(not_an_id)?;
    let seen = kept.values().from(time_of(id)).rev().iter().next().transpose()?.map_or(-1, u64::cast_signed);
    rows.update(id, |row| (row.map_or(0, |(times, _)| times) + 1, seen))
}

/// How many rows there are, and how many of them are not those of one message each with the weather of its time.
fn wrong_rows(rows: &Joined) -> Result<String> {
    let (mut all, mut wrong) = (0, 0);
    for row in rows.items() {
        let (id, (times, seen)) = row?;
        all += 1;
        wrong += u64::from(times != 1 || u64::try_from(seen) != Ok(2 * time_of(id) + 1));
    }
    Ok(format!("{all} rows, {wrong} wrong"))
}

/// Obeys until standard input ends.
fn obey(
    runtime: tokio::runtime::Handle,
    weather: Topic<u64>,
    status: impl Fn() -> Option<String> + Send + 'static,
    rows: impl Fn() -> Result<String> + Send + 'static,
) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            let reply = match (status(), words.as_slice()) {
                (None, _) => Ok("not yet".to_owned()),
                (_, ["weather", from, to]) => runtime.block_on(bring(&weather, from, to)),
                (_, ["close"]) => runtime.block_on(close(&weather)),
                (_, ["rows"]) => rows(),
                (Some(status), _) => Ok(status),
            };
            tell(&format!("reply {}", reply.unwrap_or_else(|error| format!("failed: {error:#}"))));
        }
        std::process::exit(70);
    });
}

/// Weather of these times, in order: of each a forecast, which is twice the time, and then what came, which is one more.
/// What came at the last of these times is left for the next piece.
async fn bring(weather: &Topic<u64>, from: &str, to: &str) -> Result<String> {
    let (from, to): (u64, u64) = (from.parse()?, to.parse()?);
    for value in (2 * from).saturating_sub(1)..2 * to - 1 {
        weather.send(((value / 2).to_string(), value)).await?;
    }
    Ok("brought".to_owned())
}

/// The last message of each partition.
async fn close(weather: &Topic<u64>) -> Result<String> {
    let mut open = vec![0, 1];
    for key in 0.. {
        let receipt = weather.send((format!("close {key}"), CLOSING)).await?;
        open.retain(|partition| *partition != receipt.partition);
        if open.is_empty() {
            break;
        }
    }
    Ok("closed".to_owned())
}
