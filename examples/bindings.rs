//! Everything a handler can be bound to: sources, pipes, arguments, sinks, options.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(
    clippy::unnecessary_wraps,
    clippy::unused_async,
    clippy::needless_pass_by_value,
    reason = "every kind of function is shown without a need for it"
)]

use std::time::Duration;

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter(1..=4)
}

static LINKED: Proxy<u32> = Proxy::new("linked");
static WIDE: Proxy<u64> = Proxy::new("wide");

// Sources

/// Several of one type.
#[handle(stream::iter([1]), stream::iter([2]), stream::iter(vec![3]), sink = [|n| println!("several: {n}")])]
fn several(n: u32) -> u32 {
    n
}

/// Items that are results: the handler takes what is inside.
#[handle(stream::iter(["1", "2"]).map(str::parse::<u32>), sink = [|n| println!("fallible: {n}")])]
fn fallible(n: u32) -> u32 {
    n + 1
}

/// Any expression.
#[handle({ let start = 7; stream::iter([start]) })]
fn block(n: u32) {
    println!("block: {n}");
}

// Pipes

fn evens(numbers: impl Stream<Item = u32>) -> impl Stream<Item = u32> {
    numbers.filter(|n| std::future::ready(n % 2 == 0))
}

fn pairs(numbers: impl Stream<Item = u32>) -> impl Stream<Item = Vec<u32>> {
    numbers.chunks(2)
}

#[handle(numbers(), pipe = evens, sink = [|n| println!("piped: {n}")])]
fn piped(n: u32) -> u32 {
    n
}

#[handle(numbers(), pipe = [evens, pairs], sink = [|sum| println!("piped_twice: {sum}")])]
fn piped_twice(pair: Vec<u32>) -> u32 {
    pair.iter().sum()
}

#[handle(numbers(), pipe = |numbers| numbers.skip(3), sink = [|n| println!("piped_closure: {n}")])]
fn piped_closure(n: u32) -> u32 {
    n
}

// Sinks

mod stores {
    pub mod nested {
        pub fn store(n: u32) {
            println!("store: {n}");
        }
    }
}

async fn store_later(n: u32) -> std::result::Result<(), std::fmt::Error> {
    tokio::task::yield_now().await;
    println!("store_later: {n}");
    Ok(())
}

fn store_any<T: std::fmt::Debug>(value: T) -> Result<()> {
    println!("store_any: {value:?}");
    Ok(())
}

fn make_sink(name: &'static str) -> impl Fn(u32) + Send + Sync {
    move |n| println!("{name}: {n}")
}

#[handle(
    numbers(),
    sink = [
        stores::nested::store,
        store_later,
        store_any,
        make_sink("made"),
        |n| async move { println!("async_closure: {n}") },
        LINKED,
        LINKED.map(|n| n * 100),
        WIDE.map(u64::from),
    ]
)]
fn many_sinks(n: u32) -> Option<u32> {
    (n < 3).then_some(n)
}

#[handle(WIDE, sink = |n| println!("wide: {n}"))]
fn wide(n: u64) -> u64 {
    n
}

// Several handlers of one declaration: it is read once, and each message goes through them in the order of their place.

#[handle(LINKED)]
fn linked_first(n: u32) {
    println!("linked: {n} first");
}

#[handle(LINKED)]
async fn linked_second(n: u32) {
    tokio::task::yield_now().await;
    println!("linked: {n} second");
}

// Arguments and options

pub(crate) struct Greeting(pub(crate) &'static str);

#[handle(stream::iter(["Ada"]), timeout = Duration::from_secs(5), sink = [print])]
async fn arguments(name: &'static str, unit: Unit, Ext(greeting): Ext<Greeting>) -> String {
    format!("arguments: {} {name} from {}, try {}", greeting.0, unit.handler(), unit.attempt())
}

#[handle(numbers(), concurrency = 2, key = |n| n % 2, sink = [|n| println!("lanes {}: {n}", n % 2)])]
async fn lanes(n: u32) -> u32 {
    tokio::task::yield_now().await;
    n
}

#[tokio::main]
async fn main() -> Result<()> {
    /// A handler can stand in a function.
    #[handle(stream::iter([1]), sink = [|n| println!("inside: {n}")])]
    fn inside(mut n: u32) -> u32 {
        n += 1;
        n
    }
    stream().with(Greeting("Hello")).await
}
