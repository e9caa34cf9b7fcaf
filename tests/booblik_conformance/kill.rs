//! The program is killed while it writes: what it acknowledged is there when it is started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use slipstream::booblik::client::{Client, Delivery, Producer};
use slipstream::booblik::wire::Acks;

use super::process::{Broker, PATIENCE, finished, slipstream};
use super::reader::Reader;

/// Records of a writer that are not answered yet.
const WINDOW: usize = 64;

/// What a writer was told is stored: offset and payload.
type Acknowledged = Vec<(i64, Vec<u8>)>;

/// Writes until the broker is gone.
async fn write(producer: Producer, partition: i32, seen: Arc<AtomicUsize>) -> Acknowledged {
    let mut acknowledged = Vec::new();
    let mut open: std::collections::VecDeque<(Vec<u8>, Delivery)> = std::collections::VecDeque::new();
    for number in 0.. {
        let record = format!("record {number} of {partition}").into_bytes();
        let Ok(delivery) = producer.send("t", partition, record.clone()).await else { break };
        open.push_back((record, delivery));
        if open.len() < WINDOW {
            continue;
        }
        let Some((record, delivery)) = open.pop_front() else { break };
        let Ok(sent) = delivery.await else { break };
        acknowledged.push((sent.offset.unwrap(), record));
        seen.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_keeps_what_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--topic", "t:2"];
    let broker = Broker::start(directory.path(), &flags);
    let limit = Duration::from_secs(2);
    let client = Client::builder(broker.address().to_string()).request_timeout(limit).connect().await.unwrap();
    let seen = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
    let writers: Vec<_> = [(0, Acks::Written), (1, Acks::Forced)]
        .into_iter()
        .zip(&seen)
        .map(|((partition, acks), seen)| {
            let producer = client.producer().acks(acks).max_batch_records(8).build().unwrap();
            tokio::spawn(write(producer, partition, Arc::clone(seen)))
        })
        .collect();
    let since = Instant::now();
    while seen.iter().any(|seen| seen.load(Ordering::Relaxed) < 200) {
        assert!(since.elapsed() < PATIENCE, "nothing is acknowledged");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(!broker.signal("KILL").success());
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.push(writer.await.unwrap());
    }

    let broker = Broker::start(directory.path(), &flags);
    let mut reader = Reader::connect(broker.address());
    for (partition, acknowledged) in (0..).zip(&acknowledged) {
        let found = reader.records("t", partition, 0);
        assert!(acknowledged.len() >= 200);
        for (offset, record) in acknowledged {
            assert_eq!(found.get(usize::try_from(*offset).unwrap()), Some(record), "record {offset} of {partition}");
        }
    }
    assert_eq!(broker.signal("TERM").code(), Some(0));
    let checked = finished(slipstream().arg("check").arg(directory.path()));
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
}
