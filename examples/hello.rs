//! The first program: a stream, a handler, a sink.

use slipstream::prelude::*;

fn messages() -> impl Stream<Item = char> {
    stream::iter("🏆📞🐟👌".chars())
}

#[handle(messages(), sink = [print])]
fn greet(emoji: char) -> String {
    format!("Hello {emoji}!")
}

#[tokio::main]
async fn main() -> Result<()> {
    slipstream::log::init();
    stream().await
}
