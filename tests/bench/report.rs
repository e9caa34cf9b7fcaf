//! Pairs, ratios, and the table they end in.

use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

/// One row: rates in units per second (or what `unit` says), and the median of the pairs' ratios.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Row {
    pub name: String,
    pub ours: f64,
    pub floor: f64,
    pub ratio: f64,
    pub goal: f64,
    pub unit: String,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, ours, floor, ratio, goal, unit } = self;
        write!(f, "{name:<16} ours {ours:>14.1}  floor {floor:>14.1} {unit}  ratio {ratio:.2} (goal {goal:.2})")
    }
}

pub fn scaled(count: u64) -> u64 {
    let scale = std::env::var("BENCH_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    let scaled = (count as f64 * scale) as u64;
    scaled.max(1)
}

fn pairs() -> usize {
    std::env::var("BENCH_PAIRS").ok().and_then(|text| text.parse().ok()).unwrap_or(7)
}

pub fn timed(run: impl FnOnce()) -> Duration {
    let began = Instant::now();
    run();
    began.elapsed()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The median rate of as many passes as there are pairs, after one that is not measured.
pub fn alone(count: u64, mut floor: impl FnMut() -> Duration) -> f64 {
    floor();
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rates = (0..pairs()).map(|_| count as f64 / floor().as_secs_f64()).collect();
    median(rates)
}

/// Runs interleaved pairs of `count` units of work; the order within a pair alternates.
pub fn compare(
    name: &str,
    goal: f64,
    count: u64,
    mut ours: impl FnMut() -> Duration,
    mut floor: impl FnMut() -> Duration,
) -> Row {
    let (mut our_rates, mut floor_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = |time: Duration| count as f64 / time.as_secs_f64();
    for pair in 0..pairs() {
        let (our, bare) = if pair % 2 == 0 {
            let our = ours();
            (our, floor())
        } else {
            let bare = floor();
            (ours(), bare)
        };
        our_rates.push(rate(our));
        floor_rates.push(rate(bare));
        ratios.push(bare.as_secs_f64() / our.as_secs_f64());
    }
    let (ours, floor, ratio) = (median(our_rates), median(floor_rates), median(ratios));
    Row { name: name.to_owned(), ours, floor, ratio, goal, unit: "/s".to_owned() }
}

pub fn table(rows: &[Row]) -> String {
    let mut text = String::from("| work | ours | floor | ratio | goal |\n|---|---|---|---|---|\n");
    for Row { name, ours, floor, ratio, goal, unit } in rows {
        let _ = writeln!(text, "| `{name}` | {ours:.1} {unit} | {floor:.1} {unit} | {ratio:.2} | {goal:.2} |");
    }
    text
}

fn command(program: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores of {}", model.unwrap_or("an unknown processor"))
}

/// Where `scripts/peers.sh` writes: what begins here is not ours to write.
const PEERS: &str = "\n## Beside other engines\n";

/// Puts the rows in the place of older ones of the same name.
pub fn write(rows: &[Row]) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let (json, page) = (root.join("docs/benchmarks.json"), root.join("docs/benchmarks.md"));
    let mut all: Vec<Row> =
        std::fs::read_to_string(&json).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    all.retain(|old| rows.iter().all(|new| new.name != old.name));
    for Row { name, ours, floor, ratio, goal, unit } in rows {
        let (name, unit) = (name.clone(), unit.clone());
        all.push(Row { name, ours: *ours, floor: *floor, ratio: *ratio, goal: *goal, unit });
    }
    std::fs::write(&json, serde_json::to_string_pretty(&all).unwrap() + "\n").unwrap();
    let (date, commit) = (command("date", &["-u", "+%Y-%m-%d"]), command("git", &["rev-parse", "--short", "HEAD"]));
    let head = include_str!("head.md");
    let old = std::fs::read_to_string(&page).unwrap_or_default();
    let peers = old.find(PEERS).map_or("", |at| &old[at..]);
    let text = format!("{head}\nMeasured on {date} at commit {commit}, on {}.\n\n{}{peers}", machine(), table(&all));
    std::fs::write(page, text).unwrap();
}
