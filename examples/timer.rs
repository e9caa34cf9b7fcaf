//! A handler without a message, called by a timer. A timer does not keep a run alive: this one ends with the stream.

use std::time::Duration;

use slipstream::prelude::*;
use tokio::sync::Semaphore;

static TICKS: Semaphore = Semaphore::const_new(0);

#[handle(every(Duration::from_millis(5)))]
fn tick() {
    TICKS.add_permits(1);
}

fn three_ticks() -> impl Stream<Item = u32> {
    stream! {
        for n in 1..=3 {
            let Ok(tick) = TICKS.acquire().await else { return };
            tick.forget();
            yield n;
        }
    }
}

#[handle(three_ticks(), sink = [print])]
fn count(n: u32) -> String {
    format!("tick {n}")
}

#[tokio::main]
async fn main() -> Result<()> {
    stream().await
}
