//! A configuration file as keys and values.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use toml::{Table, Value};

use crate::error::{Error, Kind, Result};

/// A configuration is written by hand; what is larger is another file.
const MAX_BYTES: u64 = 1 << 20;

/// The keys of a file, with their values as text.
pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>> {
    let at = || path.display().to_string();
    let unreadable = |error: std::io::Error| Error::new(Kind::Config, "it cannot be read").at(at()).because(error);
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text)).map_err(unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Error::new(Kind::Config, "it has more than 1 MiB").at(at()));
    }
    let is_properties = path.extension().is_some_and(|extension| extension == "properties");
    let read = if is_properties { properties(&text) } else { toml(&text) };
    read.map_err(|wrong| Error::new(Kind::Config, wrong).at(at()))
}

/// Lines `key=value` or `key: value`; those that begin with `#` or `!` are comments, and one that ends with `\\` goes on
/// with the next.
pub(super) fn properties(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let mut line = line.trim().to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        while let Some(more) = line.strip_suffix('\\') {
            line = format!("{more}{}", lines.next().map_or("", |(_, next)| next.trim()));
        }
        let Some((key, value)) = line.split_once(['=', ':']) else {
            return Err(format!("line {}: `{line}` is no `key=value`", at + 1));
        };
        pairs.push((key.trim().to_owned(), value.trim().to_owned()));
    }
    Ok(pairs)
}

/// Tables within tables are dots of a key.
pub(super) fn toml(text: &str) -> Result<Vec<(String, String)>, String> {
    let table: Table = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    let mut out = Vec::new();
    flatten("", &table, &mut out)?;
    Ok(out)
}

fn flatten(prefix: &str, table: &Table, out: &mut Vec<(String, String)>) -> Result<(), String> {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        let text = match value {
            Value::Table(table) => {
                flatten(&format!("{key}."), table, out)?;
                continue;
            }
            Value::Array(list) => {
                list.iter().map(|value| scalar(&key, value)).collect::<Result<Vec<_>, _>>()?.join(",")
            }
            value => scalar(&key, value)?,
        };
        out.push((key, text));
    }
    Ok(())
}

fn scalar(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        _ => Err(format!("`{key}` has to be a text, a whole number or a list of them")),
    }
}
