//! Limits, and that one process owns a directory.

use std::sync::Arc;
use std::time::Duration;

use slipstream::Kind;
use slipstream::booblik::broker::{Acks, Broker, BrokerOptions, ServerOptions};

use tokio::sync::Barrier;

use super::kill::Process;
use super::peer::{Ask, Peer};
use super::support::{serving_with, until};

#[tokio::test]
async fn a_connection_too_many_is_closed_and_there_is_room_again_when_one_ends() {
    let options = ServerOptions { max_connections: 2, ..ServerOptions::default() };
    let serving = serving_with(BrokerOptions::default(), options).await;
    let (mut first, mut second) = (serving.peer().await, serving.peer().await);
    first.fence().await;
    second.fence().await;
    assert!(serving.peer().await.is_closed().await);
    assert_eq!(serving.server.metrics().turned_away, 1);
    drop(first);
    until(|| serving.server.metrics().connections == 1).await;
    serving.peer().await.fence().await;
}

#[tokio::test]
async fn a_silent_connection_is_closed_after_its_time_and_a_waiting_one_is_not() {
    let options = ServerOptions { idle: Duration::from_millis(200), ..ServerOptions::default() };
    let serving = serving_with(BrokerOptions::default(), options).await;
    let (mut silent, mut waiting) = (serving.peer().await, serving.peer().await);
    waiting.ask("t", 0, Ask::at(0).wait(1000)).await;
    assert!(silent.is_closed().await);
    assert!(waiting.fetched(0).await.is_ok());
}

#[tokio::test]
async fn more_than_a_queue_holds_is_written_all_the_same() {
    let options = BrokerOptions { queue_bytes: 1000, queue_records: 10, ..BrokerOptions::default() };
    let serving = serving_with(options, ServerOptions { max_pipelined: 8, ..ServerOptions::default() }).await;
    let mut peer = serving.peer().await;
    let mut sent = Vec::new();
    for number in 0..1000_u32 {
        sent.extend_from_slice(&peer.produce_frame("t", 0, Acks::Written, &[&number.to_be_bytes(), &[7; 200]]));
    }
    let (mut incoming, mut outgoing) = peer.stream.split();
    let sending = tokio::io::AsyncWriteExt::write_all(&mut outgoing, &sent);
    let receiving = async {
        let mut answers = vec![0; 1000 * 26];
        tokio::io::AsyncReadExt::read_exact(&mut incoming, &mut answers).await.unwrap();
        answers
    };
    let (sent_all, answers) = tokio::join!(sending, receiving);
    sent_all.unwrap();
    let bases: Vec<i64> =
        answers.chunks(26).map(|answer| i64::from_be_bytes(answer[10..18].try_into().unwrap())).collect();
    assert_eq!(bases, (0..1000).map(|number| number * 2).collect::<Vec<_>>());
}

#[tokio::test]
async fn half_requests_of_many_connections_are_bounded_together() {
    let options = ServerOptions {
        max_partial_bytes: 8 << 20,
        read_stall: Duration::from_millis(500),
        ..ServerOptions::default()
    };
    let serving = serving_with(BrokerOptions::default(), options).await;
    let address = serving.server.local_addr();
    let greedy: Vec<_> = (0..8)
        .map(|_| {
            tokio::spawn(async move {
                let mut peer = Peer::connect(address).await;
                let half = [&8_388_608_i32.to_be_bytes()[..], &vec![1; 4 << 20]].concat();
                let _ = tokio::io::AsyncWriteExt::write_all(&mut peer.stream, &half).await;
                peer.is_closed().await
            })
        })
        .collect();
    for greedy in greedy {
        assert!(greedy.await.unwrap(), "none of them finishes its request");
    }
    let mut peer = serving.peer().await;
    peer.produce("t", 0, Acks::Written, &[&vec![7; 8 << 19]]).await.unwrap();
}

#[tokio::test]
async fn a_thousand_silent_connections_cost_little() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path());
    let mut first = Peer::connect(process.address()).await;
    first.fence().await;
    let before = process.memory_kib();
    let mut peers = Vec::new();
    for _ in 0..1000 {
        let mut peer = Peer::connect(process.address()).await;
        peer.fence().await;
        peers.push(peer);
    }
    // Each has been served once. What that took is given back after a second of silence.
    let limit = std::time::Instant::now() + Duration::from_secs(30);
    let bound = 8 << 10;
    let mut grown = process.memory_kib().saturating_sub(before);
    while grown > bound && std::time::Instant::now() < limit {
        tokio::time::sleep(Duration::from_millis(100)).await;
        grown = process.memory_kib().saturating_sub(before);
    }
    println!("1,000 silent connections: {grown} KiB more resident memory, {before} KiB before");
    assert!(grown <= bound, "{grown} KiB for 1,000 connections");
    first.fence().await;
}

#[tokio::test]
async fn a_second_process_is_told_who_owns_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path());
    let error = Broker::open(directory.path(), BrokerOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Locked);
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", process.id())), "{text}");
    assert!(text.contains("booblik://"), "{text}");
    process.kill();
    Broker::open(directory.path(), BrokerOptions::default()).await.unwrap();
}

#[tokio::test]
async fn large_requests_that_do_not_fit_together_are_served_one_after_the_other() {
    let options = ServerOptions { max_partial_bytes: 16 << 20, ..ServerOptions::default() };
    let serving = serving_with(BrokerOptions::default(), options).await;
    let address = serving.server.local_addr();
    let first_parts = Arc::new(Barrier::new(3));
    let clients: Vec<_> = (0..5)
        .map(|number| {
            let first_parts = Arc::clone(&first_parts);
            tokio::spawn(async move {
                let mut peer = Peer::connect(address).await;
                let frame = peer.produce_frame("t", 0, Acks::Written, &[&vec![7; 8_000_000]]);
                let (first, rest) = frame.split_at(5_500_000);
                // What the broker does not take at once waits in the sockets: the clients of both groups overlap.
                if number < 2 {
                    peer.send(first).await;
                    first_parts.wait().await;
                    peer.send(rest).await;
                } else {
                    peer.send(&frame).await;
                }
                assert!(peer.answer().await.1.is_ok());
            })
        })
        .collect();
    first_parts.wait().await;
    serving.peer().await.produce("t", 1, Acks::Written, &[&vec![7; 200_000]]).await.unwrap();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(serving.server.metrics().dropped, 0);
}

#[tokio::test]
async fn a_request_that_trickles_in_has_a_limit_as_a_whole() {
    let options = ServerOptions { request: Duration::from_millis(300), ..ServerOptions::default() };
    let serving = serving_with(BrokerOptions::default(), options).await;
    let mut peer = serving.peer().await;
    peer.send(&8_000_000_i32.to_be_bytes()).await;
    let trickle = async {
        while tokio::io::AsyncWriteExt::write_all(&mut peer.stream, &[0]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), trickle).await.expect("the connection ends");
    until(|| serving.server.metrics().dropped == 1).await;
}

#[tokio::test]
async fn what_is_sent_behind_a_held_fetch_costs_no_more_than_a_read() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path());
    let mut first = Peer::connect(process.address()).await;
    first.fence().await;
    let before = process.memory_kib();
    let mut peers = Vec::new();
    for _ in 0..200 {
        let mut peer = Peer::connect(process.address()).await;
        peer.ask("t", 0, Ask::at(0).wait(60_000)).await;
        let behind = peer.produce_frame("t", 0, Acks::Written, &[&vec![7; 400_000]]);
        // As much as the broker and the sockets take.
        let send = tokio::io::AsyncWriteExt::write_all(&mut peer.stream, &behind);
        let _ = tokio::time::timeout(Duration::from_millis(5), send).await;
        peers.push(peer);
    }
    first.fence().await;
    let grown = process.memory_kib().saturating_sub(before);
    println!("200 held fetches with more behind them: {grown} KiB more resident memory");
    assert!(grown <= 200 * 140, "{grown} KiB");
}
