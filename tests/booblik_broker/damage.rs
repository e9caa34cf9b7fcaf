//! Directories as crashes, other programs and failing disks leave them.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use bytes::BytesMut;
use proptest::prelude::*;
use slipstream::booblik::broker::{Acks, Broker, BrokerOptions, Partition, ServerOptions, TopicOptions};
use slipstream::booblik::log::OnDamage;
use slipstream::booblik::wire::{self, Damage, Ending, ErrorCode};
use slipstream::{Error, Kind};
use tempfile::TempDir;

use super::peer::{Ask, Peer};
use super::support::{small_segments, until};

/// A directory with one partition, `t-0`, written by hand.
struct Made(TempDir);

impl Made {
    fn new() -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(made.0.path().join("t-0")).unwrap();
        made
    }

    fn path(&self, base: i64) -> PathBuf {
        self.0.path().join(format!("t-0/{base:020}.log"))
    }

    fn segment(self, base: i64, bytes: &[u8]) -> Self {
        std::fs::write(self.path(base), bytes).unwrap();
        self
    }

    fn bytes(&self, base: i64) -> Vec<u8> {
        std::fs::read(self.path(base)).unwrap()
    }

    async fn open(&self) -> Result<Partition, Error> {
        self.open_with(BrokerOptions::default()).await
    }

    /// The partition; its broker is closed again, so that the file is as it was recovered.
    async fn open_with(&self, options: BrokerOptions) -> Result<Partition, Error> {
        let broker = Broker::open(self.0.path(), options).await?;
        let partition = broker.partition("t", 0)?;
        broker.close().await?;
        Ok(partition)
    }

    async fn append(&self, options: BrokerOptions, records: &[&[u8]]) {
        let broker = Broker::open(self.0.path(), options).await.unwrap();
        broker.partition("t", 0).unwrap().append(records, Acks::Written).await.unwrap();
        broker.close().await.unwrap();
    }
}

fn stored(payloads: &[&[u8]]) -> Vec<u8> {
    let mut out = BytesMut::new();
    payloads.iter().for_each(|payload| wire::encode_stored(&mut out, payload));
    out.to_vec()
}

fn values(partition: &Partition) -> Vec<Vec<u8>> {
    let (mut at, mut values) = (partition.next_readable(0), Vec::new());
    while at < partition.high_watermark() {
        let batch = partition.read(at, 64).unwrap();
        for record in batch.records() {
            record.check().unwrap();
            values.push(record.payload.to_vec());
        }
        at = partition.next_readable(batch.next_offset);
    }
    values
}

const THREE: [&[u8]; 3] = [b"one", b"two", b"three"];

#[tokio::test]
async fn a_directory_of_the_reference_is_opened_and_appended_to() {
    let made = Made::new().segment(0, &stored(&THREE)).segment(3, &stored(&[b"four"]));
    std::fs::write(made.0.path().join("t-0/notes.txt"), "not a segment").unwrap();
    assert_eq!(values(&made.open().await.unwrap()), [&b"one"[..], b"two", b"three", b"four"]);
    made.append(BrokerOptions::default(), &[b"five"]).await;
    assert_eq!(made.bytes(3), stored(&[b"four", b"five"]));
    assert_eq!(made.bytes(0), stored(&THREE));
}

#[tokio::test]
async fn a_file_that_was_padded_is_appended_to_where_its_records_end() {
    let made = Made::new().segment(0, &stored(&THREE));
    OpenOptions::new().write(true).open(made.path(0)).unwrap().set_len(16 << 20).unwrap();
    assert_eq!(values(&made.open().await.unwrap()), THREE);
    made.append(BrokerOptions::default(), &[b"four"]).await;
    assert_eq!(made.bytes(0), stored(&[b"one", b"two", b"three", b"four"]));
}

#[tokio::test]
async fn a_padded_segment_that_is_full_keeps_its_padding() {
    let made = Made::new().segment(0, &[stored(&THREE), vec![0; 5000]].concat()).segment(3, &stored(&[b"four"]));
    assert_eq!(values(&made.open().await.unwrap()).len(), 4);
    assert_eq!(made.bytes(0).len(), stored(&THREE).len() + 5000);
}

#[tokio::test]
async fn a_lowered_capacity_discards_nothing() {
    let large = vec![9; 5000];
    let made = Made::new().segment(0, &stored(&[&large, &large, b"last"]));
    made.append(small_segments(), &[b"next"]).await;
    assert_eq!(values(&made.open_with(small_segments()).await.unwrap()), [&large[..], &large, b"last", b"next"]);
    assert_eq!(made.bytes(3), stored(&[b"next"]));
}

#[tokio::test]
async fn a_torn_tail_is_cut_wherever_it_was_torn() {
    let whole = stored(&THREE);
    for length in stored(&THREE[..2]).len()..whole.len() {
        let made = Made::new().segment(0, &whole[..length]);
        assert_eq!(values(&made.open().await.unwrap()), THREE[..2], "torn at {length}");
        assert_eq!(made.bytes(0), stored(&THREE[..2]));
    }
}

#[tokio::test]
async fn a_torn_record_that_is_larger_than_a_read_is_cut_and_a_whole_one_kept() {
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| at.to_le_bytes()[at as usize % 4]).collect();
    let whole = stored(&[b"one", &large, b"two"]);
    let made = Made::new().segment(0, &whole);
    assert_eq!(values(&made.open().await.unwrap()), [&b"one"[..], &large, b"two"]);
    let made = Made::new().segment(0, &whole[..2_000_000]);
    assert_eq!(values(&made.open().await.unwrap()), [b"one"]);
    let mut damaged = stored(&[b"one", &large]);
    damaged[2_500_000] ^= 1;
    let made = Made::new().segment(0, &damaged);
    assert_eq!(values(&made.open().await.unwrap()), [b"one"]);
}

fn serve() -> BrokerOptions {
    let serve = TopicOptions { on_damage: OnDamage::Serve, ..TopicOptions::default() };
    BrokerOptions::default().topic("t", serve)
}

#[tokio::test]
async fn a_flipped_bit_before_good_records_keeps_the_broker_from_opening_and_removes_nothing() {
    let whole = stored(&THREE);
    let second = stored(&THREE[..1]).len();
    for at in second..second + 11 {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x80;
        let made = Made::new().segment(0, &damaged);
        let error = made.open().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        let told =
            format!("segment 0 is damaged at byte {second}, record 1, and good records follow at byte {}", second + 11);
        assert!(error.to_string().contains(&told), "{error}");
        assert_eq!(made.bytes(0), damaged, "nothing was changed");
        let problem = slipstream::booblik::log::check(&made.0.path().join("t-0")).unwrap()[0].problem.clone().unwrap();
        assert!(problem.ends_with(&format!("good ones follow at byte {}", second + 11)), "{problem}");

        assert_eq!(values(&made.open_with(serve()).await.unwrap()), THREE[..1], "bit in byte {at}");
        let kept = made.0.path().join(format!("t-0/{:020}.cut-at-{second}", 0));
        assert_eq!(std::fs::read(kept).unwrap(), damaged[second..]);
        assert_eq!(values(&made.open().await.unwrap()), THREE[..1]);
    }
}

#[tokio::test]
async fn zeros_before_good_records_are_no_padding_however_many_they_are() {
    for zeros in [1, 8, 70_000, 20_000_000] {
        let bytes = [stored(&THREE), vec![0; zeros], stored(&THREE)].concat();
        let made = Made::new().segment(0, &bytes);
        let error = made.open().await.unwrap_err();
        assert!(error.to_string().contains(&format!("follow at byte {}", stored(&THREE).len() + zeros)), "{error}");
        let check = slipstream::booblik::log::check(&made.0.path().join("t-0")).unwrap();
        assert!(check[0].problem.is_some(), "{zeros}");
    }
}

#[tokio::test]
async fn a_last_record_that_is_damaged_is_kept_beside_the_log_that_ends_before_it() {
    let mut damaged = stored(&THREE);
    *damaged.last_mut().unwrap() ^= 1;
    let made = Made::new().segment(0, &damaged);
    assert_eq!(values(&made.open().await.unwrap()), THREE[..2]);
    let cut = stored(&THREE[..2]).len();
    assert_eq!(std::fs::read(made.0.path().join(format!("t-0/{:020}.cut-at-{cut}", 0))).unwrap(), damaged[cut..]);
}

#[tokio::test]
async fn what_was_cut_off_does_not_come_back_when_records_of_the_same_size_follow() {
    let whole = stored(&[b"aaa", b"bbb", b"ccc", b"ddd"]);
    let mut damaged = whole;
    damaged[11 + 8] ^= 1;
    let made = Made::new().segment(0, &damaged);
    made.append(serve(), &[b"new"]).await;
    assert_eq!(values(&made.open().await.unwrap()), [b"aaa", b"new"]);
}

#[tokio::test]
async fn records_that_are_missing_in_the_middle_keep_the_broker_from_opening() {
    let mut first = stored(&THREE);
    *first.last_mut().unwrap() ^= 1;
    let made = Made::new().segment(0, &first).segment(3, &stored(&[b"four"]));
    let error = made.open().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("records 2 to 2 are missing"), "{error}");
    assert_eq!(made.bytes(0), first, "nothing was changed");

    let checks = slipstream::booblik::log::check(&made.0.path().join("t-0")).unwrap();
    assert_eq!((checks[0].end_offset, checks[1].problem.as_deref()), (2, None));
    let problem = checks[0].problem.as_deref().unwrap();
    assert_eq!(
        problem,
        "the checksum of record 2 does not match, and no good one follows in the file; records 2 to 2 are missing"
    );

    let serve = TopicOptions { on_damage: OnDamage::Serve, ..TopicOptions::default() };
    let partition = made.open_with(BrokerOptions::default().topic("t", serve)).await.unwrap();
    assert_eq!(values(&partition), [&b"one"[..], b"two", b"four"]);
    assert_eq!(partition.read(2, 100).unwrap_err().kind(), Kind::OutOfRange);
    assert_eq!((partition.next_readable(2), partition.high_watermark()), (3, 4));
    assert_eq!(made.bytes(0), first, "nothing was changed");
}

#[tokio::test]
async fn a_gap_after_a_segment_that_was_never_synced_ends_the_log() {
    let first = stored(&THREE);
    let made = Made::new().segment(0, &first[..first.len() - 1]).segment(3, &stored(&[b"four"]));
    std::fs::write(made.0.path().join("t-0/00000000000000000000.unsettled"), "").unwrap();
    assert_eq!(values(&made.open().await.unwrap()), THREE[..2]);
    assert!(!made.path(3).exists());
}

#[tokio::test]
async fn segments_that_overlap_and_names_that_are_no_numbers_are_refused() {
    let made = Made::new().segment(0, &stored(&THREE)).segment(2, &stored(&[b"four"]));
    assert_eq!(made.open().await.unwrap_err().kind(), Kind::Corrupt);
    let made = Made::new().segment(0, &stored(&THREE));
    std::fs::write(made.0.path().join("t-0/0000000000000000000x.log"), "").unwrap();
    assert_eq!(made.open().await.unwrap_err().kind(), Kind::Corrupt);
}

#[tokio::test]
async fn a_full_segment_is_settled_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), small_segments()).await.unwrap();
    broker.ensure_topic("t", 1).await.unwrap();
    let partition = broker.partition("t", 0).unwrap();
    partition.append(vec![[1; 200]; 9], Acks::Written).await.unwrap();
    partition.sync().await.unwrap();
    assert_eq!(partition.synced(), 9);
    let names: Vec<_> =
        std::fs::read_dir(directory.path().join("t-0")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name.to_string_lossy().ends_with(".log")), "{names:?}");
    assert_eq!(names.len(), 3);
}

async fn topics(made: &Made) -> Result<Vec<(String, usize)>, Error> {
    let broker = Broker::open(made.0.path(), BrokerOptions::default()).await?;
    let topics = broker.topics().into_iter().collect();
    broker.close().await?;
    Ok(topics)
}

fn partition(made: &Made, name: &str) {
    let directory = made.0.path().join(name);
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join(format!("{:020}.log", 0)), stored(&THREE)).unwrap();
}

#[tokio::test]
async fn directories_with_segments_are_a_topic_and_others_are_none_whatever_they_are_named() {
    let made = Made::new().segment(0, &stored(&THREE));
    partition(&made, "t-1");
    for other in ["t-2147483647", "t-7", "backup-2026", "backup-20261130", "no topic-0", "empty-0"] {
        std::fs::create_dir(made.0.path().join(other)).unwrap();
    }
    // Without a first partition it is a copy of something.
    partition(&made, "copy-2026");
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join(format!("{:020}.log", 0)), stored(&THREE)).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), made.0.path().join("linked-0")).unwrap();
    let before = std::fs::read_dir(made.0.path()).unwrap().count();
    assert_eq!(topics(&made).await.unwrap(), [("linked".to_owned(), 1), ("t".to_owned(), 2)]);
    let own_files = ["booblik.lock", "booblik.id", "booblik.topics"].len();
    assert_eq!(std::fs::read_dir(made.0.path()).unwrap().count(), before + own_files, "nothing else was created");
}

#[tokio::test]
async fn a_partition_that_was_there_does_not_come_back_empty_unless_that_is_asked_for() {
    let made = Made::new().segment(0, &stored(&THREE));
    partition(&made, "t-1");
    partition(&made, "t-2");
    assert_eq!(topics(&made).await.unwrap(), [("t".to_owned(), 3)]);
    for lost in [made.path(0), made.0.path().join("t-1")] {
        let aside = made.0.path().join("aside");
        std::fs::rename(&lost, &aside).unwrap();
        let error = topics(&made).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.to_string().contains("the partition is lost"), "{error}");
        assert!(!lost.exists());
        std::fs::rename(&aside, &lost).unwrap();
    }
    std::fs::remove_dir_all(made.0.path().join("t-2")).unwrap();
    assert_eq!(topics(&made).await.unwrap_err().kind(), Kind::Corrupt, "the last one is written down as well");
    assert_eq!(values(&made.open_with(serve()).await.unwrap()), THREE);
    assert_eq!(topics(&made).await.unwrap(), [("t".to_owned(), 3)]);
}

#[tokio::test]
async fn a_topic_whose_directories_were_all_removed_is_gone() {
    let made = Made::new().segment(0, &stored(&THREE));
    partition(&made, "other-0");
    assert_eq!(topics(&made).await.unwrap().len(), 2);
    std::fs::remove_dir_all(made.0.path().join("t-0")).unwrap();
    assert_eq!(topics(&made).await.unwrap(), [("other".to_owned(), 1)]);
    assert!(!made.0.path().join("t-0").exists());
}

#[tokio::test]
async fn what_a_crash_left_of_a_topic_that_was_being_created_is_completed() {
    let made = Made::new();
    std::fs::write(made.0.path().join("booblik.topics"), "t 3\n").unwrap();
    assert_eq!(topics(&made).await.unwrap(), [("t".to_owned(), 3)]);
    assert_eq!(std::fs::read_to_string(made.0.path().join("booblik.topics")).unwrap(), "t 3 complete\n");
}

#[tokio::test]
async fn a_topic_that_cannot_be_created_leaves_nothing_behind() {
    let made = Made::new().segment(0, &stored(&THREE));
    // A partition cannot have its directory where a file is.
    std::fs::write(made.0.path().join("new-5"), "").unwrap();
    let broker = Broker::open(made.0.path(), BrokerOptions::default()).await.unwrap();
    broker.ensure_topic("new", 7).await.unwrap_err();
    broker.close().await.unwrap();
    let left: Vec<_> = std::fs::read_dir(made.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "new-5" || !name.to_string_lossy().starts_with("new-")), "{left:?}");
    assert_eq!(topics(&made).await.unwrap(), [("t".to_owned(), 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever was written is there after a reopen; whatever lies below the place where a file was cut stays.
    #[test]
    fn a_log_cut_anywhere_has_exactly_what_lies_below(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..30),
        cut in 0.0..1.0,
        garbage in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let whole = stored(&payloads);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place")]
        let length = (whole.len() as f64 * cut) as usize;
        let mut kept = 0;
        while stored(&payloads[..=kept]).len() <= length {
            kept += 1;
        }
        let made = Made::new().segment(0, &whole[..length]);
        // Garbage that completes the torn record is no garbage: its first byte is made to differ.
        let differing = garbage.iter().enumerate().map(|(at, byte)| if whole.get(length + at) == Some(byte) { !byte } else { *byte });
        OpenOptions::new().append(true).open(made.path(0)).unwrap().write_all(&differing.collect::<Vec<_>>()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let partition = runtime.block_on(made.open()).unwrap();
        let found = values(&partition);
        prop_assert!(found.len() >= kept);
        prop_assert_eq!(&found[..kept], &payloads[..kept]);
        // A record that the garbage happens to form would be kept; its checksum is one in four billion.
        prop_assert_eq!(found.len(), kept);
    }
}

#[tokio::test]
async fn a_record_that_is_damaged_while_it_is_served_is_noticed_by_its_reader() {
    let made = Made::new().segment(0, &stored(&THREE));
    let partition = made.open().await.unwrap();
    OpenOptions::new().write(true).open(made.path(0)).unwrap().write_all_at(b"X", 11 + 8).unwrap();
    let checks: Vec<bool> = partition.read(0, 1000).unwrap().records().map(|record| record.check().is_ok()).collect();
    assert_eq!(checks, [true, false, true]);
}

#[tokio::test]
async fn a_fetch_where_records_are_missing_is_told_where_they_begin_again() {
    let mut first = stored(&THREE);
    *first.last_mut().unwrap() ^= 1;
    let made = Made::new().segment(0, &first).segment(3, &stored(&[b"four"]));
    let serve = TopicOptions { on_damage: OnDamage::Serve, ..TopicOptions::default() };
    let broker = Broker::open(made.0.path(), BrokerOptions::default().topic("t", serve)).await.unwrap();
    let server = broker.listen("127.0.0.1:0", ServerOptions::default()).await.unwrap();
    let mut peer = Peer::connect(server.local_addr()).await;

    let fetched = peer.fetch("t", 0, Ask::at(2).wait(60_000)).await.unwrap();
    assert_eq!((fetched.records.len(), fetched.high_watermark), (0, 4));
    assert_eq!(fetched.ending, Ending::Damaged(Damage::Gap { next: 3 }));
    assert_eq!(peer.values("t", 0, 3).await, [b"four"]);
    assert_eq!(
        peer.fetch("t", 0, Ask { max_bytes: 5, ..Ask::at(2) }).await.unwrap().ending,
        Ending::Cut { record_bytes: 0 }
    );
    assert_eq!(peer.fetch("t", 0, Ask::at(5)).await, Err(ErrorCode::OffsetOutOfRange));
}

#[tokio::test]
async fn a_segment_that_cannot_be_removed_stays_with_all_that_follow_and_is_tried_again() {
    let topic = TopicOptions { segment_bytes: 1024, retention_bytes: Some(1), ..TopicOptions::default() };
    let options = BrokerOptions {
        default: topic,
        retention_check: std::time::Duration::from_millis(20),
        ..BrokerOptions::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), options).await.unwrap();
    broker.ensure_topic("t", 2).await.unwrap();
    let [first, second] = [0, 1].map(|number| broker.partition("t", number).unwrap());
    // A directory cannot be removed as a file is.
    let (path, aside) = (directory.path().join(format!("t-0/{:020}.log", 0)), directory.path().join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    std::fs::create_dir(&path).unwrap();
    for partition in [&first, &second] {
        partition.append(vec![[1; 200]; 20], Acks::Forced).await.unwrap();
    }
    until(|| second.log_start() > 0).await;
    second.append(vec![[1; 200]; 20], Acks::Forced).await.unwrap();
    until(|| second.log_start() > 20).await;
    assert_eq!(first.log_start(), 0);
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    until(|| first.log_start() > 0).await;
}
