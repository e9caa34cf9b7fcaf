//! A pipe for another message than the source gives.

use slipstream::prelude::*;

fn numbers() -> impl Stream<Item = u32> {
    stream::iter([1, 2])
}

fn skip(names: Piped<String>) -> impl Stream<Item = String> {
    names.skip(1)
}

#[handle(numbers(), pipe = skip, sink = [print])]
fn label(n: String) -> String {
    n
}

fn main() {}
