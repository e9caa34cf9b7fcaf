//! RocksDB's options.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rocksdb::compaction_filter::CompactionFilter;
use rocksdb::compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory};
use rocksdb::statistics::StatsLevel;
use rocksdb::{
    BlockBasedOptions, CompactionDecision, DBCompactionStyle, DBCompressionType, DBRecoveryMode, FifoCompactOptions,
    LogLevel, Options, WriteOptions,
};

use super::clock::{Clock, living_len};
use super::retention::Retention;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const MANIFEST_BYTES: usize = MIB;
const OBSOLETE_FILES_PERIOD_MICROS: u64 = 10_000;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
const FIFO_BUFFER_BYTES: usize = MIB;
const FIFO_MERGE_FROM_FILES: i32 = 4;
const FIFO_TARGET_FILE_BYTES: u64 = 256 * MIB as u64;
const LEVELLED_BUFFER_BYTES: usize = 64 * MIB;
/// After a full disk RocksDB takes writes again once as much is free as the largest write buffer that it was opened
/// with, which a small volume may never have. So a store is opened with small ones, and the real size is set then.
const OPENING_BUFFER_BYTES: usize = 4 * MIB;
const ARENA_BLOCK_BYTES: usize = MIB;
const BUFFERS: i32 = 2;
/// Expired rows leave the disk at the latest this long after their time, or after their own time again if longer.
const EXPIRY_SWEEP_SECONDS: u64 = 3600;
/// One merge reads at most this part of the window, so that it never takes old rows of half the window out at once.
const MERGE_PART_OF_WINDOW: u64 = 4;

/// What one family's compactions need: the clock, and where expired rows are counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expiry {
    pub(crate) clock: Arc<Clock>,
    pub(crate) expired: Arc<AtomicU64>,
}

/// Options of the whole store.
pub(crate) fn database() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    options.increase_parallelism(i32::try_from(cores).unwrap_or(2));
    // RocksDB's own log holds only warnings and begins anew with each opening. It does not roll by size or time: when
    // the next file cannot be made (no space, no directory, no descriptors left), RocksDB 11.8 writes through a null
    // pointer at the roll.
    options.set_log_level(LogLevel::Warn);
    options.set_stats_dump_period_sec(0);
    options.set_keep_log_file_num(1);
    options.set_max_manifest_file_size(MANIFEST_BYTES);
    options.set_delete_obsolete_files_period_micros(OBSOLETE_FILES_PERIOD_MICROS);
    // The other modes open a log that is damaged in the middle and silently leave out what follows.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    options
}

/// Options of one family.
pub(crate) fn family(retention: Retention, expiry: &Expiry) -> Options {
    let mut options = Options::default();
    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_max_write_buffer_number(BUFFERS);
    match retention {
        Retention::Fifo { bytes } => first_in_first_out(&mut options, bytes),
        Retention::Keep => levelled(&mut options),
        Retention::Ttl(time) => {
            levelled(&mut options);
            options.set_compaction_filter_factory(Sweep { time, expiry: expiry.clone() });
            options.set_periodic_compaction_seconds(time.as_secs().max(EXPIRY_SWEEP_SECONDS));
        }
    }
    options
}

/// Takes expired rows off the disk. A factory, because RocksDB owns it: a plain filter is freed with the options it
/// was set on, while a family made at run time still calls it.
#[derive(Clone)]
struct Sweep {
    time: Duration,
    expiry: Expiry,
}

const SWEEP: &CStr = c"slipstream.ttl";

impl CompactionFilterFactory for Sweep {
    type Filter = Self;
    fn create(&mut self, _: CompactionFilterContext) -> Self {
        self.clone()
    }
    fn name(&self) -> &CStr {
        SWEEP
    }
}

impl CompactionFilter for Sweep {
    fn filter(&mut self, _: u32, _: &[u8], row: &[u8]) -> CompactionDecision {
        if living_len(row, self.time, self.expiry.clock.now_millis()).is_some() {
            return CompactionDecision::Keep;
        }
        self.expiry.expired.fetch_add(1, Ordering::Relaxed);
        CompactionDecision::Remove
    }
    fn name(&self) -> &CStr {
        SWEEP
    }
}

fn levelled(options: &mut Options) {
    options.set_write_buffer_size(OPENING_BUFFER_BYTES);
    // Otherwise RocksDB derives it from the small buffer.
    options.set_arena_block_size(ARENA_BLOCK_BYTES);
}

fn first_in_first_out(options: &mut Options, window_bytes: u64) {
    let mut fifo = FifoCompactOptions::default();
    fifo.set_max_table_files_size(window_bytes);
    options.set_compaction_style(DBCompactionStyle::Fifo);
    options.set_fifo_compaction_options(&fifo);
    // Left alone it would be 30 days: rows would go by age, unasked.
    options.set_ttl(0);
    options.set_write_buffer_size(FIFO_BUFFER_BYTES);
    options.set_level_zero_file_num_compaction_trigger(FIFO_MERGE_FROM_FILES);
    options.set_target_file_size_base(FIFO_TARGET_FILE_BYTES);
    options.set_max_compaction_bytes(window_bytes / MERGE_PART_OF_WINDOW);
}

/// What can only be said once the store is open: how large write buffers are, and that the small files of a window are
/// merged, so that old versions and deletions go.
pub(crate) fn at_run_time(retention: Retention) -> Vec<(&'static str, String)> {
    let Retention::Fifo { bytes } = retention else {
        return vec![("write_buffer_size", LEVELLED_BUFFER_BYTES.to_string())];
    };
    vec![
        ("compaction_options_fifo", format!("{{max_table_files_size={bytes};allow_compaction=true;}}")),
        ("max_compaction_bytes", (bytes / MERGE_PART_OF_WINDOW).to_string()),
        ("ttl", "0".to_owned()),
    ]
}

/// For sinks: fail with `Incomplete` where RocksDB would make the thread wait.
pub(crate) fn without_waiting() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_no_slowdown(true);
    options
}
