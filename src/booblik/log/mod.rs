//! Partitions on disk: append, read, recover, retain.
//!
//! A partition is a directory of **segments**. A segment holds records back to back from byte 0 on and is named by the
//! offset of its first record: `00000000000000000000.log`. There is no file header, no index file and no manifest: what
//! a directory holds is found by reading it. Directories that booblik 0.3 wrote are opened as they are, and it opens
//! those that are written here.
//!
//! | file | what is in it |
//! |---|---|
//! | `record` | the stored form of one record, and walking over stored bytes |
//! | `name` | names of segments and of partition directories |
//! | `scan` | what a file holds: the one pass at open |
//! | `index` | offset → position, sparse |
//! | `segment` | one open file |
//! | `recover` | a directory becomes a log; a torn tail is cut |
//! | `tail` | what follows the last record of a file: padding, remains, or records behind damage |
//! | `parallel` | several files at a time |
//! | `partition` | the writing side: append, roll, take back, resume |
//! | `view` | the reading side, shared by all readers |
//! | `durable` | what still has to reach the disk |
//! | `retain` | which segments may go |
//! | `check` | looking without changing |
//!
//! All calls here are calls to the operating system and block while it does. The broker makes them on threads of its
//! own.

mod check;
mod durable;
mod index;
mod name;
mod options;
mod parallel;
mod partition;
mod record;
mod recover;
mod retain;
mod scan;
mod segment;
mod tail;
mod view;

pub use check::{SegmentCheck, check};
pub use name::{partition_directory, split_directory};
pub use options::{LogOptions, OnDamage};
pub use record::{HEADER_BYTES, Record, Records};
pub use view::Batch;

pub(crate) use durable::Durable;
pub(crate) use parallel::each;
pub(crate) use partition::PartitionLog;
pub(crate) use record::encode;
pub(crate) use recover::has_segments;
pub(crate) use retain::Retention;
pub(crate) use view::{Found, Slice, View};
