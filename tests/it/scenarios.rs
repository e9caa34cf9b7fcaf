//! The acceptance scenarios of the model's documentation (S1–S12), as programs of ours.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipstream::prelude::*;
use slipstream::testing::until;
use slipstream::{Conf, Piped};

/// A sink that keeps what it gets.
pub fn collect<T: Send + 'static>() -> (Arc<Mutex<Vec<T>>>, impl Fn(T) + Clone + Send + Sync + 'static) {
    let list = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&list);
    (list, move |value| sink.lock().unwrap().push(value))
}

pub fn taken<T>(list: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *list.lock().unwrap())
}

pub fn memory() -> Conf {
    Conf::isolated().with("broker", "memory:")
}

#[tokio::test]
async fn s1_hello_greets_in_order() -> Result<()> {
    let (greetings, sink) = collect();
    App::new()
        .handle(stream::iter("🏆📞🐟👌".chars()), |c: char| format!("Hello {c}!"), sink)
        .conf(memory())
        .run()
        .await?;
    assert_eq!(taken(&greetings), ["Hello 🏆!", "Hello 📞!", "Hello 🐟!", "Hello 👌!"]);
    Ok(())
}

#[tokio::test]
async fn s2_a_generator_yields_none_one_or_several() -> Result<()> {
    fn parity(n: u32) -> impl Stream<Item = String> {
        stream! {
            if n == 0 { yield format!("zero: {n}"); }
            if n.is_multiple_of(2) { yield format!("even: {n}"); }
        }
    }
    let (lines, sink) = collect();
    App::new().handle(stream::iter(0..5), parity, sink).conf(memory()).run().await?;
    assert_eq!(taken(&lines), ["zero: 0", "even: 0", "even: 2", "even: 4"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s3_a_timer_runs_its_handler_each_period() -> Result<()> {
    let (ticks, sink) = collect();
    let run = App::new().handle(every(Duration::from_secs(3)), || 1_u32, sink).conf(memory()).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    tokio::time::sleep(Duration::from_secs(10)).await;
    handle.trigger();
    task.await.unwrap()?;
    assert_eq!(taken(&ticks).len(), 3);
    Ok(())
}

fn pairwise<T: Copy + Send + 'static>(
    input: impl Stream<Item = T> + Send + 'static,
) -> impl Stream<Item = (T, T)> + Send {
    stream! {
        let mut last = None;
        for await item in input {
            if let Some(last) = last.replace(item) { yield (last, item); }
        }
    }
}

fn running_sum(input: impl Stream<Item = u32> + Send + 'static) -> impl Stream<Item = u32> + Send {
    input.scan(0, |sum, n| {
        *sum += n;
        futures::future::ready(Some(*sum))
    })
}

#[tokio::test]
async fn s4_pipes_compose_from_left_to_right() -> Result<()> {
    use slipstream::pipe;
    let numbers = || stream::iter(0..5_u32);
    let (pairs, pairs_sink) = collect();
    let (sums, sums_sink) = collect();
    let (both, both_sink) = collect();
    App::new()
        .handle(pipe(numbers(), pairwise), |pair: (u32, u32)| pair, pairs_sink)
        .handle(pipe(numbers(), running_sum), |sum: u32| sum, sums_sink)
        .handle(pipe(pipe(numbers(), running_sum), pairwise), |pair: (u32, u32)| pair, both_sink)
        .conf(memory())
        .run()
        .await?;
    assert_eq!(taken(&pairs), [(0, 1), (1, 2), (2, 3), (3, 4)]);
    assert_eq!(taken(&sums), [0, 1, 3, 6, 10]);
    assert_eq!(taken(&both), [(0, 1), (1, 3), (3, 6), (6, 10)]);
    Ok(())
}

#[tokio::test]
async fn s5_a_sliding_window_as_a_pipe() -> Result<()> {
    use slipstream::pipe;
    use std::collections::{BTreeSet, VecDeque};
    fn window(input: Piped<(char, f64)>) -> impl Stream<Item = BTreeSet<char>> + Send {
        input.scan(VecDeque::new(), |kept: &mut VecDeque<(char, f64)>, event| {
            kept.push_back(event);
            while kept.front().is_some_and(|(_, at)| event.1 - at > 3.0) {
                kept.pop_front();
            }
            futures::future::ready(Some(kept.iter().map(|(kind, _)| *kind).collect()))
        })
    }
    let events =
        [('🏆', 0.0), ('📞', 0.5), ('🐟', 1.0), ('👌', 2.0), ('🏆', 3.5), ('📞', 4.0), ('🐟', 5.0), ('👌', 5.5)];
    let (sizes, sink) = collect();
    App::new()
        .handle(pipe(stream::iter(events), window), |kinds: BTreeSet<char>| slipstream::One(kinds.len()), sink)
        .conf(memory())
        .run()
        .await?;
    assert_eq!(taken(&sizes), [1, 2, 3, 4, 4, 4, 4, 4]);
    Ok(())
}

#[tokio::test]
async fn s12_a_proxy_loses_nothing_whatever_the_order_of_declaration() -> Result<()> {
    // D1 of the model: its own example prints nothing.
    let proxy = Proxy::named("s12");
    let (seen, sink) = collect();
    App::new()
        .handle(stream::iter("🏆📞🐟👌".chars()), |c: char| c, proxy.clone())
        .handle(proxy, |c: char| c, sink)
        .conf(memory())
        .run()
        .await?;
    assert_eq!(taken(&seen), ['🏆', '📞', '🐟', '👌']);
    Ok(())
}

#[tokio::test]
async fn d1_a_hot_source_before_the_reader_of_a_proxy_loses_nothing() -> Result<()> {
    let proxy = Proxy::named("d1");
    let (seen, sink) = collect();
    App::new()
        .handle(stream::iter(0..20_000_u32), |n: u32| n, proxy.clone())
        .handle(proxy, |n: u32| n, sink)
        .conf(memory())
        .run()
        .await?;
    assert_eq!(taken(&seen), (0..20_000).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn s12_from_outside_deliver_returns_when_the_message_is_done() -> Result<()> {
    let proxy: Proxy<u32> = Proxy::named("outside").external();
    let (seen, sink) = collect();
    let run = App::new().handle(proxy.clone(), |n: u32| n * 2, sink).conf(memory()).run();
    let handle = run.handle();
    let task = tokio::spawn(run.into_future());
    until(|| handle.health().state == slipstream::app::State::Running).await;
    proxy.deliver(21).await?;
    assert_eq!(taken(&seen), [42]);
    handle.trigger();
    task.await.unwrap()
}
