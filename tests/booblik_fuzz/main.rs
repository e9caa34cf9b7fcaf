//! Every decoder of the booblik protocol on the files of `corpus/` and on thousands of mutations of each, the same ones
//! in every run: none panics, and none allocates beyond what its bytes are worth.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

mod allocations;
mod entries;
mod mutate;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use slipstream::booblik::wire::{self, Frames};

use allocations::peak_bytes;
use mutate::Mutator;

const MUTATIONS_PER_FILE: usize = 5_000;

/// Runs `try_on` on the files of the folder and on mutations of them.
fn run(folder: &str, mut try_on: impl FnMut(&[u8])) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/booblik_fuzz/corpus").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(!seeds.is_empty(), "{folder} is empty");
    let mut mutator = Mutator::new(folder);
    for seed in &seeds {
        check(seed, &mut try_on);
        for _ in 0..MUTATIONS_PER_FILE {
            check(&mutator.mutate(seed, &seeds), &mut try_on);
        }
    }
}

fn check(input: &[u8], try_on: &mut impl FnMut(&[u8])) {
    let outcome = catch_unwind(AssertUnwindSafe(|| try_on(input)));
    assert!(outcome.is_ok(), "panicked on {input:02x?}");
}

#[test]
fn requests_of_any_bytes() {
    run("requests", entries::requests);
}

#[test]
fn responses_of_any_bytes() {
    run("responses", entries::responses);
}

#[test]
fn topics_of_any_bytes() {
    run("described", entries::described);
}

#[test]
fn records_of_any_bytes() {
    run("fetched", entries::fetched);
}

#[test]
fn streams_of_any_bytes() {
    run("frames", entries::frames);
}

#[test]
fn decoding_requests_and_records_allocates_nothing_for_them() {
    // Each slice of a frame may need its shared count once, which is no part of the frame.
    const SHARED_COUNT_BYTES: usize = 64;
    run("requests", |data| {
        let frame = Bytes::copy_from_slice(data);
        assert!(peak_bytes(|| wire::decode_request(&frame).is_ok()) <= SHARED_COUNT_BYTES);
    });
    run("fetched", |data| {
        let body = Bytes::copy_from_slice(data);
        assert!(peak_bytes(|| wire::decode_fetched(&body, 0)) <= SHARED_COUNT_BYTES);
    });
}

#[test]
fn decoding_topics_allocates_in_proportion_to_the_bytes() {
    // A topic takes six bytes at least, and 48 when it is decoded.
    run("described", |data| {
        let peak = peak_bytes(|| wire::decode_described(data));
        assert!(peak <= 8 * data.len() + 64, "{peak} for {}", data.len());
    });
}

#[test]
fn a_frame_buffer_holds_about_what_has_arrived() {
    run("frames", |data| {
        let peak = peak_bytes(|| {
            let mut frames = Frames::of_requests();
            for byte in data {
                frames.space();
                frames.feed(&[*byte]);
                if frames.next().is_err() {
                    break;
                }
            }
            frames
        });
        assert!(peak <= 160_000 + 2 * data.len(), "{peak} for {}", data.len());
    });
}

#[test]
fn mutations_are_the_same_in_every_run() {
    let seeds = [vec![1; 20], vec![2; 30]];
    let some = || {
        let mut mutator = Mutator::new("again");
        (0..100).map(|_| mutator.mutate(&seeds[0], &seeds)).collect::<Vec<_>>()
    };
    assert_eq!(some(), some());
    assert!(some().iter().filter(|mutation| **mutation != seeds[0]).count() > 80);
}
