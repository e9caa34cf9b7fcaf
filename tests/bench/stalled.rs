//! A sink that stops while a gigabyte waits: memory stays within what was configured.

use std::time::Duration;

use slipstream::prelude::*;
use slipstream::testing::until;

use crate::kafka::{bootstrap, fill, unique};
use crate::proxy::two_workers;
use crate::report::{Row, scaled};

const RECORD_BYTES: usize = 1024;
const IN_FLIGHT_MIB: u64 = 64;
const PREFETCH_MIB: u64 = 64;
const PARTITIONS: u64 = 4;
/// The producer's queue: librdkafka's default is 1 GiB; nothing is written here.
const PRODUCER_MIB: u64 = 0;
const SLACK_MIB: u64 = 64;

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

pub fn stalled() -> Row {
    let count = scaled(1_000_000);
    let topic = unique("bench-stalled");
    fill(&topic, count, |id| (id.to_string(), vec![b'x'; RECORD_BYTES]));
    let stall = Duration::from_secs(scaled(60));
    let before = resident_mib();
    let peak = two_workers().block_on(async {
        let records: Topic<Bytes> = Topic::named(topic.as_str());
        let conf = Conf::isolated()
            .with("broker", format!("kafka://{}", bootstrap()))
            .with("app.id", unique("stalled"))
            .with("max_in_flight_bytes", (IN_FLIGHT_MIB << 20).to_string())
            .with("queued.max.messages.kbytes", (PREFETCH_MIB << 10).to_string())
            .with("drain.timeout", "1s");
        let never = |_: Bytes| std::future::pending::<()>();
        let run = App::new().handle(records, |record: Bytes| record, never).conf(conf).run();
        let handle = run.handle();
        let task = tokio::spawn(run.into_future());
        let began = std::time::Instant::now();
        let mut peak = 0;
        until(|| !handle.health().sources.is_empty()).await;
        while began.elapsed() < stall {
            tokio::time::sleep(Duration::from_millis(100)).await;
            peak = peak.max(resident_mib());
        }
        handle.trigger();
        task.await.unwrap().unwrap();
        peak
    });
    let budget = IN_FLIGHT_MIB + PARTITIONS * PREFETCH_MIB + PRODUCER_MIB;
    let grown = peak.saturating_sub(before);
    println!("stalled-sink: {before} MiB before, {peak} MiB at the peak, budget {budget} MiB + {SLACK_MIB} MiB");
    #[expect(clippy::cast_precision_loss, reason = "MiB")]
    let (ours, floor) = (grown as f64, (budget + SLACK_MIB) as f64);
    Row {
        name: "stalled-sink".to_owned(),
        ours,
        floor,
        ratio: floor / ours.max(1.0),
        goal: 1.0,
        unit: "MiB".to_owned(),
    }
}
