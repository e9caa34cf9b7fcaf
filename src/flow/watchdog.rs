//! The watchdog: work at hand, not held by a pause, and nothing done for too long. Said once as an error event, and seen
//! in `health()` as long as it lasts.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Env, SourceStats};

/// Between two looks, at most; a quarter of the limit where that is less.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks at all sources until the run gives up.
pub(crate) async fn watch(env: Env) {
    let limit = env.parts().settings.watchdog_timeout();
    let pause = (limit / 4).clamp(Duration::from_millis(1), LOOK_EVERY);
    let looks = async {
        loop {
            sleep(pause).await;
            look(&env.sources(), limit, Instant::now());
        }
    };
    tokio::select! {
        () = env.kill().cancelled() => {}
        () = looks => {}
    }
}

fn look(sources: &[Arc<SourceStats>], limit: Duration, now: Instant) {
    // What waits in a channel that is paused may be what any other source waits for.
    let is_held = sources.iter().any(|source| source.holds_others());
    for source in sources {
        let is_excused = is_held || !source.is_open();
        let lanes = source.lanes();
        let stuck = lanes.iter().find(|lane| lane.is_stuck(is_excused, limit, now));
        source.set_stalled(stuck.map(|lane| {
            let (in_flight, position) = lane.open();
            let place = position.map_or_else(String::new, |(partition, offset)| format!("[{partition}]@{offset}"));
            format!("{}{place}: no progress for {limit:?}, {in_flight} in flight", source.name)
        }));
    }
}
