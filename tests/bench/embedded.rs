//! A log in the process → JSON handler → a log in the process, against a loop from one file to another.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use slipstream::booblik::wire::crc32c;
use slipstream::prelude::*;

use crate::payments::{self, Payment, double, payment};
use crate::proxy::two_workers;
use crate::report::{Row, compare, scaled};

const BUFFER_BYTES: usize = 64 * 1024;

pub fn pass() -> Row {
    let count = scaled(1_000_000);
    let place = tempfile::tempdir().unwrap();
    fill(place.path(), count);
    let file = place.path().join("payments");
    fill_file(&file, count);
    let mut life = 0;
    let ours = || {
        life += 1;
        ours(place.path(), life, count)
    };
    compare("embedded-pass", 0.5, count, ours, || floor(&file, count))
}

pub fn conf(place: &Path, app: &str) -> Conf {
    Conf::isolated()
        .with("broker", format!("embedded:{}", place.join("log").display()))
        .with("state.dir", place.join("state").display().to_string())
        .with("app.id", app)
        .with("commit.interval", "1s")
}

pub fn fill(place: &Path, count: u64) {
    two_workers().block_on(async {
        let payments: Topic<Payment> = Topic::new("payments");
        let with_key = |id: u64| {
            let value = payment(id);
            (value.user.clone(), value)
        };
        App::new().handle(stream::iter(0..count), with_key, payments).conf(conf(place, "fill")).run().await.unwrap();
    });
}

fn ours(place: &Path, life: u32, count: u64) -> Duration {
    two_workers().block_on(async {
        let payments: Topic<Payment> = Topic::new("payments");
        let doubled: Topic<Payment> = Topic::named(format!("doubled-{life}"));
        // An app of its own has no position and reads everything.
        let run = App::new().handle(payments, double, doubled).conf(conf(place, &format!("pass-{life}"))).run();
        let (time, _) = payments::pass(run, "payments", count).await;
        for partition in 0..4 {
            std::fs::remove_dir_all(place.join(format!("log/doubled-{life}-{partition}"))).unwrap();
        }
        time
    })
}

fn put(out: &mut impl std::io::Write, payload: &[u8]) {
    out.write_all(&u32::try_from(payload.len()).unwrap().to_be_bytes()).unwrap();
    out.write_all(&crc32c(payload).to_be_bytes()).unwrap();
    out.write_all(payload).unwrap();
}

fn fill_file(file: &Path, count: u64) {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, File::create(file).unwrap());
    (0..count).for_each(|id| put(&mut out, &serde_json::to_vec(&payment(id)).unwrap()));
    out.flush().unwrap();
}

fn floor(file: &Path, count: u64) -> Duration {
    let began = Instant::now();
    let mut input = BufReader::with_capacity(BUFFER_BYTES, File::open(file).unwrap());
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, File::create(file.with_extension("out")).unwrap());
    let (mut payload, mut encoded) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut head = [0; 8];
        input.read_exact(&mut head).unwrap();
        let (length, crc) = head.split_at(4);
        payload.resize(u32::from_be_bytes(length.try_into().unwrap()) as usize, 0);
        input.read_exact(&mut payload).unwrap();
        assert_eq!(crc32c(&payload), u32::from_be_bytes(crc.try_into().unwrap()));
        let mut value: Payment = serde_json::from_slice(&payload).unwrap();
        value.amount *= 2;
        encoded.clear();
        serde_json::to_writer(&mut encoded, &value).unwrap();
        put(&mut output, &encoded);
    }
    output.flush().unwrap();
    began.elapsed()
}
