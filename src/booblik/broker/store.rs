//! The broker's own files in a data directory: who uses it, which broker it is, how many partitions its topics have.
//!
//! None of them has a name that a partition's directory can have, so that booblik 0.3 does not look at them.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::booblik::log::split_directory;
use crate::booblik::wire::is_topic_name;
use crate::error::{Error, Kind, Result};

const LOCK: &str = "booblik.lock";
const ID: &str = "booblik.id";
const TOPICS: &str = "booblik.topics";

/// The most that is read of one of these files.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// How long a broker of this process that is being closed may take to let go.
const LET_GO: Duration = Duration::from_secs(30);

/// The right to use a data directory. Ends with the process, whatever ends it.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, not used")] File);

impl Lock {
    /// Takes it and writes down whose it is.
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK);
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let since = Instant::now();
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            let owner = read_owner(&mut file);
            let ours = owner.as_deref() == Some(&std::process::id().to_string());
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(io::Error::from(error).into());
            }
            if !ours || since.elapsed() > LET_GO {
                return Err(locked(directory, owner.as_deref()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        file.set_len(0)?;
        write_all_at_start(&file, format!("{}\n", std::process::id()).as_bytes())?;
        Ok(Self(file))
    }
}

fn write_all_at_start(file: &File, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    file.write_all_at(bytes, 0)
}

fn read_owner(file: &mut File) -> Option<String> {
    use std::os::unix::fs::FileExt as _;
    let mut text = [0; 32];
    let read = file.read_at(&mut text, 0).ok()?;
    let pid = std::str::from_utf8(text.get(..read)?).ok()?.trim();
    (!pid.is_empty()).then(|| pid.to_owned())
}

fn locked(directory: &Path, owner: Option<&str>) -> Error {
    let owner = owner.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
    let text = format!(
        "{owner} has it open, and only one may: let that one serve it (`slipstream broker serve`) and use \
         `booblik://host:port` here"
    );
    Error::new(Kind::Locked, text).at(directory.display().to_string())
}

/// The identity of the broker whose directory this is: 32 hexadecimal digits, drawn when it is first opened.
pub(super) fn identity(directory: &Path) -> Result<String> {
    let path = directory.join(ID);
    if let Some(text) = read(&path)? {
        let id = text.trim();
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        return is_id
            .then(|| id.to_owned())
            .ok_or_else(|| Error::new(Kind::Corrupt, "this is no broker's identity").at(path.display().to_string()));
    }
    let id = format!("{:032x}", fastrand::u128(..));
    replace(directory, ID, &id)?;
    Ok(id)
}

/// How many partitions the topics have that are written down, or whose directories are there.
pub(crate) fn topics(directory: &Path) -> Result<BTreeMap<String, i32>> {
    let mut counts = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((topic, number)) = name.to_str().and_then(split_directory) else { continue };
        if entry.file_type()?.is_dir() {
            let count: &mut i32 = counts.entry(topic.to_owned()).or_default();
            *count = (*count).max(number.saturating_add(1));
        }
    }
    let path = directory.join(TOPICS);
    for (topic, count) in parse(&read(&path)?.unwrap_or_default(), &path)? {
        let found = counts.entry(topic).or_default();
        *found = count.max(*found);
    }
    Ok(counts)
}

/// Writes down how many partitions the topics have.
pub(super) fn record_topics(directory: &Path, topics: &BTreeMap<String, i32>) -> Result<()> {
    let lines: Vec<String> = topics.iter().map(|(topic, count)| format!("{topic} {count}\n")).collect();
    replace(directory, TOPICS, &lines.concat())
}

/// Lines of a name and a number.
fn parse(text: &str, path: &Path) -> Result<Vec<(String, i32)>> {
    let line = |line: &str| {
        let (topic, count) = line.split_once(' ')?;
        let count = count.trim().parse().ok().filter(|count| *count > 0)?;
        is_topic_name(topic).then(|| (topic.to_owned(), count))
    };
    let wrong = |text: &str| {
        Error::new(Kind::Corrupt, format!("`{text}` is no topic and its number of partitions"))
            .at(path.display().to_string())
    };
    text.lines().map(|text| line(text).ok_or_else(|| wrong(text))).collect()
}

fn read(path: &Path) -> Result<Option<String>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Replaces a file as a whole: after a crash it is the old one or the new one.
fn replace(directory: &Path, name: &str, text: &str) -> Result<()> {
    let fresh = directory.join(format!("{name}.new"));
    let mut file = File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, directory.join(name))?;
    File::open(directory)?.sync_all()?;
    Ok(())
}
