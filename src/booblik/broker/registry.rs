//! The brokers that are open in this process. Who opens a directory that is open already shares the broker.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use crate::error::{Error, Kind, Result};

use super::open::Open;
use super::options::BrokerOptions;

/// A place per directory, so that opening a large one does not keep others waiting.
type Slot = Arc<Mutex<Weak<Open>>>;

static SLOTS: LazyLock<Mutex<HashMap<PathBuf, Slot>>> = LazyLock::new(Mutex::default);

/// The broker of `directory`, opened if it is not open yet.
pub(super) fn open(directory: &Path, options: BrokerOptions) -> Result<Arc<Open>> {
    options.check()?;
    std::fs::create_dir_all(directory)?;
    let directory = directory.canonicalize()?;
    let slot = slot(&directory);
    let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(open) = held.upgrade() {
        return if *open.options() == options { Ok(open) } else { Err(other_options(&directory)) };
    }
    let open = Arc::new(Open::new(&directory, options)?);
    *held = Arc::downgrade(&open);
    Ok(open)
}

fn slot(directory: &Path) -> Slot {
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|held| held.strong_count() > 0));
    Arc::clone(slots.entry(directory.to_owned()).or_default())
}

fn other_options(directory: &Path) -> Error {
    let text = "it is open in this process already, with other options";
    Error::new(Kind::AlreadyOpen, text).at(directory.display().to_string())
}
