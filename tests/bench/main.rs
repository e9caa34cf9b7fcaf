//! What it costs: each row is ours against a floor (the same work without the framework) in the same run, as the median
//! of the ratios of interleaved pairs. `make bench`, or `cargo bench --bench bench -- NAME…`.
//!
//! `BENCH_PAIRS` (default 7) says how many pairs, `BENCH_SCALE` (default 1.0) how much work, `BENCH_WRITE=1` writes
//! `docs/benchmarks.md` and `docs/benchmarks.json`. Rows on Kafka need `KAFKA_BOOTSTRAP`.
#![expect(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]
#![expect(clippy::indexing_slicing, reason = "indices below the length of what they index")]

mod booblik;
mod cache;
mod checkpoint;
mod counting;
mod embedded;
mod hello;
mod kafka;
mod payments;
mod produce;
mod proxy;
mod report;
mod scale;
mod stalled;
mod tables;

use report::Row;

type Bench = (&'static str, fn() -> Row);
type Floor = (&'static str, fn() -> f64);

const BENCHES: &[Bench] = &[
    ("hello", hello::hello),
    ("proxy", proxy::proxy),
    ("proxy-one-core", proxy::one_core),
    ("cache-put", || cache::put(1)),
    ("cache-put-2", || cache::put(2)),
    ("cache-get", || cache::get(1)),
    ("cache-get-2", || cache::get(2)),
    ("scale-2", scale::scale),
    ("table-scale-2", scale::table_scale),
    ("kafka-pass", kafka::pass),
    ("kafka-count", tables::count),
    ("kafka-count-cold", tables::cold),
    ("embedded-pass", embedded::pass),
    ("checkpoint", checkpoint::detect),
    ("checkpoint-hold", checkpoint::hold),
    ("booblik-produce", produce::produce),
    ("booblik-fetch", booblik::fetch),
    ("booblik-recovery", || booblik::recovery("booblik-recovery", booblik::SEVERAL)),
    ("booblik-recovery-1", || booblik::recovery("booblik-recovery-1", booblik::ONE)),
    ("booblik-idle", booblik::idle),
    ("stalled-sink", stalled::stalled),
];

/// Floors that can be had alone, by name only: nothing of ours runs, and nothing is written.
const FLOORS: &[Floor] = &[("count-floor", counting::floor_alone), ("count-cold-floor", counting::cold_floor_alone)];

fn main() {
    if let Some(load) = produce::load_wanted() {
        return produce::generate(&load);
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut rows = Vec::new();
    for (name, bench) in BENCHES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let row = bench();
            println!("{row}");
            rows.push(row);
        }
    }
    for (name, floor) in FLOORS {
        if wanted.iter().any(|wanted| wanted == name) {
            println!("{name:<16} floor {:>14.1} /s", floor());
        }
    }
    println!("\n{}", report::table(&rows));
    if std::env::var_os("BENCH_WRITE").is_some() {
        report::write(&rows);
    }
}
