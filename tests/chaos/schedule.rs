//! Where chance comes from, what it did, and what was measured.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the tests go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Short,
    Full,
    Kills(u64),
}

impl Length {
    pub fn read() -> Self {
        match std::env::var("CHAOS_LENGTH").unwrap_or_default().as_str() {
            "" | "short" => Self::Short,
            "full" => Self::Full,
            number => Self::Kills(number.parse().expect("CHAOS_LENGTH is `short`, `full` or a number of kills")),
        }
    }

    pub fn kills(self) -> u64 {
        match self {
            Self::Short => 4,
            Self::Full => 32,
            Self::Kills(kills) => kills,
        }
    }

    /// `short` in the short form, `full` in the others.
    pub fn choose<T>(self, short: T, full: T) -> T {
        if self == Self::Short { short } else { full }
    }
}

/// One at a time: the figures depend on what else the machine does.
static TURN: Mutex<()> = Mutex::new(());

/// One test: its seed and its steps, both printed when it fails.
pub struct Schedule {
    name: &'static str,
    pub seed: u64,
    state: Mutex<u64>,
    began: Instant,
    steps: Mutex<Vec<String>>,
    _turn: MutexGuard<'static, ()>,
}

impl Schedule {
    pub fn new(name: &'static str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = match std::env::var("CHAOS_SEED") {
            Ok(seed) if !seed.is_empty() => seed.parse().expect("CHAOS_SEED is a number"),
            _ => u64::try_from(now.as_millis()).unwrap_or_default(),
        };
        let (state, steps) = (Mutex::new(seed), Mutex::default());
        println!("{name}: CHAOS_SEED={seed}");
        Self { name, seed, state, began: Instant::now(), steps, _turn: turn }
    }

    /// Writes down what is done now.
    pub fn step(&self, what: impl Into<String>) {
        let at = self.began.elapsed().as_secs_f64();
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{at:8.3} s  {}", what.into()));
    }

    /// A number from `from` to `to`, both included (splitmix64).
    pub fn between(&self, from: u64, to: u64) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        from + (mixed ^ (mixed >> 31)) % (to - from + 1)
    }

    /// Tells what was measured; `make chaos` collects it for the documentation.
    pub fn figure(&self, what: &str, value: impl std::fmt::Display) {
        let row = format!("| {} | {what} | {value} |", self.name);
        println!("{row}");
        let Ok(file) = std::env::var("CHAOS_FIGURES") else { return };
        let file = std::fs::File::options().append(true).create(true).open(file);
        let written = file.and_then(|mut file| writeln!(file, "{row}"));
        written.expect("CHAOS_FIGURES names a file that can be written");
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner).join("\n  ");
            eprintln!("{} failed. Again: make chaos SEED={}\nWhat it did:\n  {steps}", self.name, self.seed);
        }
    }
}

/// Waits until `holds`, looking every few milliseconds; for what nobody can signal.
#[track_caller]
pub fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    const LOOK_EVERY: Duration = Duration::from_millis(5);
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// Lets time pass: for outages and kills, which are made of it.
pub fn pass(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}

/// How many a second.
pub fn rate(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).expect("few")) / time.as_secs_f64()
}

/// Far above what anything here takes, so that a hang fails and a slow machine does not.
pub const PATIENCE: Duration = Duration::from_mins(1);
