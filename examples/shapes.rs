//! Everything a handler can return. The compiler chooses by the type, so aliases and boxed types work as well.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(
    clippy::unnecessary_wraps,
    clippy::unused_async,
    reason = "what a handler may return is shown without a need for it"
)]

use futures::stream::BoxStream;
use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

/// One output.
#[handle(numbers(), sink = [|text| println!("one: {text}")])]
fn one(n: u32) -> String {
    n.to_string()
}

/// Nothing, so there is no sink.
#[handle(numbers())]
fn nothing(n: u32) {
    println!("nothing: {n}");
}

/// Nothing, or an error.
#[handle(numbers())]
async fn nothing_fallible(n: u32) -> Result<()> {
    println!("nothing_fallible: {n}");
    Ok(())
}

/// None or one.
#[handle(numbers(), sink = [|n| println!("option: {n}")])]
fn option(n: u32) -> Option<u32> {
    (n == 2).then_some(n)
}

/// Each.
#[handle(numbers(), sink = [|n| println!("vector: {n}")])]
fn vector(n: u32) -> Vec<u32> {
    vec![n, n * 10]
}

/// Each.
#[handle(numbers(), sink = [|n| println!("array: {n}")])]
fn array(n: u32) -> [u32; 2] {
    [n, n * 10]
}

/// Each.
#[handle(numbers(), sink = [|n| println!("iterator: {n}")])]
fn iterator(n: u32) -> impl Iterator<Item = u32> {
    (0..n).map(move |m| n * 10 + m)
}

/// Each.
#[handle(numbers(), sink = [|n| println!("boxed_iterator: {n}")])]
fn boxed_iterator(n: u32) -> Box<dyn Iterator<Item = u32> + Send> {
    Box::new(0..n)
}

/// Each as it is produced.
#[handle(numbers(), sink = [|text| println!("generator: {text}")])]
fn generator(n: u32) -> impl Stream<Item = String> {
    stream! {
        yield format!("{n} first");
        tokio::task::yield_now().await;
        yield format!("{n} second");
    }
}

/// Each, until one fails.
#[handle(numbers(), sink = [|n| println!("try_generator: {n}")])]
fn try_generator(n: u32) -> impl Stream<Item = Result<u32>> {
    try_stream! {
        for m in 0..n {
            yield m;
        }
    }
}

/// Each.
#[handle(numbers(), sink = [|n| println!("boxed_stream: {n}")])]
fn boxed_stream(n: u32) -> BoxStream<'static, u32> {
    stream::iter(0..n).boxed()
}

/// Several of one future.
#[handle(numbers(), sink = [|n| println!("async_vector: {n}")])]
async fn async_vector(n: u32) -> Vec<u32> {
    tokio::task::yield_now().await;
    vec![n, n]
}

/// Several, or an error.
#[handle(numbers(), sink = [|n| println!("result_of_vector: {n}")])]
fn result_of_vector(n: u32) -> Result<Vec<u32>> {
    Ok(vec![n; 2])
}

type Out = std::result::Result<Option<u32>, std::num::ParseIntError>;

/// A `Result` by another name.
#[handle(numbers(), sink = [|n| println!("alias: {n}")])]
fn alias(n: u32) -> Out {
    n.to_string().parse().map(Some)
}

/// Any error that is one.
#[handle(numbers(), sink = [|n| println!("any_error: {n}")])]
async fn any_error(n: u32) -> anyhow::Result<u32> {
    anyhow::ensure!(n > 0, "nothing to do");
    Ok(n)
}

/// A vector as one output.
#[handle(numbers(), sink = [|pair: Vec<u32>| println!("wrapped: {pair:?}")])]
fn wrapped(n: u32) -> One<Vec<u32>> {
    One(vec![n, n])
}

/// An own type, which needs nothing for it.
struct Ticket {
    number: u32,
}

#[handle(numbers(), sink = [|ticket: Ticket| println!("own_type: {}", ticket.number)])]
fn own_type(n: u32) -> Ticket {
    Ticket { number: n }
}

/// No message at all is needed from a timer; see `timer.rs`. The tests of a handler just call it.
#[tokio::main]
async fn main() -> Result<()> {
    stream().await
}

#[test]
fn a_handler_is_an_ordinary_function() {
    assert_eq!(vector(3), [3, 30]);
    assert_eq!(option(1), None);
}
