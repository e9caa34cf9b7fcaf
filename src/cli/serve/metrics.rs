//! The line that says how a broker does, in the words of booblik 0.3.

use std::time::Duration;

use tokio::time::Instant;

use crate::booblik::broker::{Broker, PartitionMetrics, Server, ServerMetrics};

/// A broker that is watched, and what it had done the last time.
pub(super) struct Meter<'a> {
    broker: &'a Broker,
    server: &'a Server,
    last: Sample,
}

#[derive(Debug, Clone)]
struct Sample {
    at: Instant,
    records: u64,
    bytes: u64,
    queued: usize,
    partitions: usize,
    unavailable: usize,
    server: ServerMetrics,
}

impl<'a> Meter<'a> {
    pub(super) fn new(broker: &'a Broker, server: &'a Server) -> Self {
        Self { broker, server, last: Sample::of(broker, server) }
    }

    /// Prints a line each interval, without end; none without one.
    pub(super) async fn run(mut self, interval: Option<Duration>) {
        let Some(interval) = interval else { return std::future::pending().await };
        loop {
            tokio::time::sleep(interval).await;
            let now = Sample::of(self.broker, self.server);
            super::tell(now.line(&self.last)).await;
            for out in self.broker.health().unavailable {
                tracing::error!("{}-{} cannot be written: {}", out.topic, out.partition, out.reason);
            }
            self.last = now;
        }
    }
}

impl Sample {
    fn of(broker: &Broker, server: &Server) -> Self {
        let partitions = broker.metrics();
        Self {
            at: Instant::now(),
            records: partitions.iter().map(|of| of.records).sum(),
            bytes: partitions.iter().map(|of| of.bytes).sum(),
            queued: partitions.iter().map(|of| of.queued_batches).sum(),
            partitions: partitions.len(),
            unavailable: partitions.iter().filter(|of| !of.available).count(),
            server: server.metrics(),
        }
    }

    /// Rates since `last`, then what is and what was counted since the start.
    fn line(&self, last: &Self) -> String {
        let seconds = (self.at - last.at).as_secs_f64().max(0.001);
        #[expect(clippy::cast_precision_loss, reason = "a rate is printed with one decimal")]
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let mib = |now: u64, before: u64| rate(now, before) / f64::from(1 << 20);
        let (now, before) = (&self.server, &last.server);
        format!(
            "booblik: in {:.1} rec/s, {:.1} MiB/s | produce {:.1}/s fetch {:.1}/s ({:.1} MiB/s) | conns {} backlog {} \
             errors {} dropped {} held {} unavailable {}/{} accept-failed {}",
            rate(self.records, last.records),
            mib(self.bytes, last.bytes),
            rate(now.produces, before.produces),
            rate(now.fetches, before.fetches),
            mib(now.fetched_bytes, before.fetched_bytes),
            now.connections,
            self.queued,
            now.errors,
            now.dropped,
            now.held,
            self.unavailable,
            self.partitions,
            now.accept_failed,
        )
    }
}

/// What a partition holds.
pub(super) fn partition(of: &PartitionMetrics) -> String {
    let PartitionMetrics { topic, partition, log_start, high_watermark, segments, stored_bytes, .. } = of;
    format!("{topic}-{partition}: offsets {log_start}..{high_watermark}, {segments} segment(s), {stored_bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rates_of_the_interval_and_totals() {
        let server = ServerMetrics { produces: 10, connections: 2, held: 1, errors: 3, ..ServerMetrics::default() };
        let at = Instant::now();
        let before = Sample { at, records: 0, bytes: 0, queued: 0, partitions: 4, unavailable: 0, server };
        let mut after = before.clone();
        after.at += Duration::from_secs(2);
        (after.records, after.bytes, after.unavailable) = (100, 4 << 20, 1);
        (after.server.produces, after.server.fetches) = (20, 1);
        assert_eq!(
            after.line(&before),
            "booblik: in 50.0 rec/s, 2.0 MiB/s | produce 5.0/s fetch 0.5/s (0.0 MiB/s) | conns 2 backlog 0 errors 3 \
             dropped 0 held 1 unavailable 1/4 accept-failed 0"
        );
    }
}
