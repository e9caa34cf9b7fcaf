//! The file and the environment: the one place where the configuration does I/O.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::entry::{self, Layer, Rank};
use super::name::sanitise_name;
use super::owned::Features;
use crate::{Error, Kind, Result};

/// The file that is read from the working directory if it is there.
const FILE: &str = "slipstream.toml";
const PREFIX: &str = "SLIPSTREAM_";
/// Names the file; it is no key.
const FILE_VARIABLE: &str = "SLIPSTREAM_CONF";
/// The most that a file may hold, in bytes: nobody writes more, and it is read whole.
const FILE_LIMIT_BYTES: u64 = 1 << 20;

/// What was read from outside the program.
#[derive(Debug, Clone, Default)]
pub(super) struct Loaded {
    pub(super) file: Layer,
    pub(super) topics: BTreeMap<String, Layer>,
    pub(super) environment: Layer,
}

/// Environment variables, the process's or a test's.
pub(super) type Variables = Vec<(OsString, OsString)>;

/// The variables of this process.
pub(super) fn process_variables() -> Variables {
    std::env::vars_os().collect()
}

/// The program's file name as an app id.
pub(super) fn program_name() -> String {
    let program = std::env::current_exe().ok().or_else(|| std::env::args_os().next().map(PathBuf::from));
    let stem = program.as_deref().and_then(Path::file_stem).unwrap_or_default();
    sanitise_name(&stem.to_string_lossy())
}

/// Reads the variables and the file: the given one, else the one that `SLIPSTREAM_CONF` names, else `slipstream.toml`
/// (only `or_default`) if it is there.
pub(super) fn load(file: Option<&Path>, or_default: bool, variables: &Variables, features: Features) -> Result<Loaded> {
    let environment = environment(variables, features)?;
    let named = variables.iter().find(|(name, value)| name == FILE_VARIABLE && !value.is_empty());
    let explicit = file.or_else(|| named.map(|(_, value)| Path::new(value)));
    let text = match explicit {
        Some(path) => Some((path, read(path)?)),
        None if or_default => read_if_there(Path::new(FILE))?.map(|text| (Path::new(FILE), text)),
        None => None,
    };
    let (file, topics) = match text {
        Some((path, text)) => parse(&path.display().to_string(), &text, features)?,
        None => Default::default(),
    };
    Ok(Loaded { file, topics, environment })
}

fn read(path: &Path) -> Result<String> {
    let missing = || Error::new(Kind::Config, "the configuration file is not there").at(path.display().to_string());
    read_if_there(path)?.ok_or_else(missing)
}

fn read_if_there(path: &Path) -> Result<Option<String>> {
    let fail = |error: std::io::Error| {
        Error::new(Kind::Config, "the configuration file cannot be read").at(path.display().to_string()).because(error)
    };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
        Ok(found) if found.len() > FILE_LIMIT_BYTES => {
            return Err(fail(std::io::Error::other(format!("it has more than {FILE_LIMIT_BYTES} bytes"))));
        }
        Ok(_) => {}
    }
    std::fs::read_to_string(path).map(Some).map_err(fail)
}

/// Reads the text of a file; `place` is its name.
fn parse(place: &str, text: &str, features: Features) -> Result<(Layer, BTreeMap<String, Layer>)> {
    let mut table: Table = text.parse().map_err(|error| syntax(place, text, &error))?;
    let mut topics = BTreeMap::new();
    match table.remove("topic") {
        None => {}
        Some(Value::Table(sections)) => {
            for (topic, section) in sections {
                let place = format!("{place}, [topic.{topic}]");
                topics.insert(topic, topic_section(&place, section, features)?);
            }
        }
        Some(_) => {
            let message = "`topic` is the table of topics: `[topic.<declared name>]`";
            return Err(Error::new(Kind::Config, message).at(place));
        }
    }
    let mut layer = Layer::default();
    collect(&mut layer, place, "", table, Rank::File, features)?;
    Ok((layer, topics))
}

fn topic_section(place: &str, section: Value, features: Features) -> Result<Layer> {
    let Value::Table(section) = section else {
        let message = "a topic is a table of keys; write a key that begins with `topic.` with `_` for `.`";
        return Err(Error::new(Kind::Config, message).at(place));
    };
    let mut layer = Layer::default();
    collect(&mut layer, place, "", section, Rank::TopicInFile, features)?;
    Ok(layer)
}

/// TOML's own message quotes the line, which may hold a secret: only the position is told.
fn syntax(place: &str, text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let hint = "a key that begins with another key, as `max_in_flight_bytes` does, is written with `_`";
    Error::new(Kind::Config, format!("line {line} is not valid TOML, or sets a key twice; {hint}")).at(place)
}

/// Joins the keys of nested tables with `.`.
fn collect(layer: &mut Layer, place: &str, prefix: &str, table: Table, rank: Rank, features: Features) -> Result<()> {
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            // The parser bounds how deep tables nest.
            Value::Table(inner) => collect(layer, place, &key, inner, rank, features)?,
            other => {
                let text = plain(&key, other).map_err(|error| error.at(place))?;
                insert(layer, &key, &text, rank, features).map_err(|error| error.at(place))?;
            }
        }
    }
    Ok(())
}

fn plain(key: &str, value: Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(truth) => Ok(truth.to_string()),
        Value::Array(items) => {
            let texts: Result<Vec<String>> = items.into_iter().map(|item| plain(key, item)).collect();
            Ok(texts?.join(","))
        }
        Value::Table(_) | Value::Datetime(_) => Err(Error::new(
            Kind::Config,
            format!("`{}`: must be text, a number, true, false or a list", key.escape_debug()),
        )),
    }
}

/// Adds a value of a source that has no order: two names of one key with two values are a mistake there.
fn insert(layer: &mut Layer, written: &str, value: &str, rank: Rank, features: Features) -> Result<()> {
    let (name, entry) = entry::check(written, value, rank, features)?;
    match layer.0.get(name) {
        Some(other) if *other != entry => {
            let message =
                format!("`{written}` is set twice, to two values, under two names; one of them may be `{name}`");
            Err(Error::new(Kind::Config, message))
        }
        _ => {
            layer.0.insert(name, entry);
            Ok(())
        }
    }
}

fn environment(variables: &Variables, features: Features) -> Result<Layer> {
    let mut layer = Layer::default();
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        let Some(written) = name.strip_prefix(PREFIX) else { continue };
        // An empty variable is how compose files and shells say "not set".
        if name == FILE_VARIABLE || value.is_empty() || is_service_link(written) {
            continue;
        }
        let place = || format!("environment variable {name}");
        let text = value.to_str().ok_or_else(|| Error::new(Kind::Config, "is not UTF-8").at(place()))?;
        let key = written.to_ascii_lowercase();
        insert(&mut layer, &key, text, Rank::Environment, features).map_err(|error| error.at(place()))?;
    }
    Ok(layer)
}

/// Kubernetes gives every pod variables for the services beside it; one named `slipstream…` must not stop the app.
fn is_service_link(written: &str) -> bool {
    let named = format!("_{written}");
    let port = |kind: &str| named.contains(&format!("_{kind}"));
    let ported = named.contains("_PORT_") && ["TCP", "UDP", "SCTP"].into_iter().any(port);
    named.ends_with("_SERVICE_HOST") || named.contains("_SERVICE_PORT") || named.ends_with("_PORT") || ported
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Features = Features { ssl: true, zstd: true };

    fn file(text: &str) -> Result<(Layer, BTreeMap<String, Layer>)> {
        parse("slipstream.toml", text, ALL)
    }

    fn variables(list: &[(&str, &str)]) -> Variables {
        list.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    fn value<'a>(layer: &'a Layer, name: &str) -> Option<&'a str> {
        layer.0.get(name).map(|entry| entry.value.as_str())
    }

    #[test]
    fn nested_tables_join_with_dots_and_lists_with_commas() {
        let text = "bootstrap.servers = ['a:1', 'b:2']\n[session.timeout]\nms = 6000\n[check]\ncrcs = true";
        let (layer, topics) = file(text).unwrap();
        assert_eq!(value(&layer, "broker"), Some("kafka://a:1,b:2"));
        assert_eq!(value(&layer, "session.timeout.ms"), Some("6000"));
        assert_eq!(value(&layer, "check.crcs"), Some("true"));
        assert!(topics.is_empty());
    }

    #[test]
    fn a_topics_table_holds_its_own_keys() {
        let (layer, topics) = file("[topic.\"by.word\"]\nname = 'prod-words'\nlinger.ms = 50").unwrap();
        assert_eq!(value(&topics["by.word"], "name"), Some("prod-words"));
        assert_eq!(value(&topics["by.word"], "queue.buffering.max.ms"), Some("50"));
        assert!(layer.0.is_empty());
    }

    #[test]
    fn errors_of_the_file_say_where() {
        let text = |toml: &str| file(toml).unwrap_err().to_string();
        assert_eq!(text("ackz = 1"), "slipstream.toml: unknown key `ackz`; did you mean `acks`?");
        assert_eq!(text("[topic.w]\nnaem = 1"), "slipstream.toml, [topic.w]: unknown key `naem`; did you mean `name`?");
        assert!(text("topic = 1").contains("[topic.<declared name>]"));
        assert!(text("acks = 1979-05-27").contains("must be text"));
    }

    #[test]
    fn a_syntax_error_tells_the_line_and_not_what_it_holds() {
        for bad in ["a = 1\nsasl.password = hunter2", "\nsasl.password = \"hunter2", "\n[hunter2\nx = 1"] {
            let error = file(bad).unwrap_err();
            assert!(error.to_string().starts_with("slipstream.toml: line 2 is not valid TOML"), "{error}");
            assert!(!error.report().contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn keys_that_begin_with_another_key_are_written_with_underscores() {
        let error = file("max.in.flight = 1\nmax.in.flight.bytes = 2").unwrap_err();
        assert!(error.to_string().contains("max_in_flight_bytes"), "{error}");
        let (layer, _) = file("max_in_flight = 1\nmax_in_flight_bytes = 2").unwrap();
        assert_eq!(layer.0.len(), 2);
    }

    #[test]
    fn two_names_of_one_key_must_agree() {
        assert!(file("acks = 'all'\nrequest.required.acks = 'all'").is_ok());
        let error = file("linger.ms = 1\nqueue.buffering.max.ms = 2").unwrap_err();
        assert!(error.to_string().contains("set twice"), "{error}");
        assert!(file("broker = 'memory:'\nbootstrap.servers = 'a:1'").is_err());
        assert!(file("broker = 'kafka://a:1'\nbootstrap.servers = 'a:1'").is_ok());
    }

    #[test]
    fn variables_are_read_without_regard_to_case_and_empty_ones_are_not_set() {
        let list = variables(&[
            ("SLIPSTREAM_BOOTSTRAP_SERVERS", "a:1"),
            ("SLIPSTREAM_linger_MS", "7"),
            ("SLIPSTREAM_APP_ID", ""),
            ("SLIPSTREAM_CONF", "elsewhere.toml"),
            ("HOME", "/root"),
        ]);
        let layer = environment(&list, ALL).unwrap();
        assert_eq!(layer.0.keys().copied().collect::<Vec<_>>(), ["broker", "queue.buffering.max.ms"]);
    }

    #[test]
    fn an_unknown_variable_is_an_error_that_names_it() {
        let error = environment(&variables(&[("SLIPSTREAM_BROKR", "memory:")]), ALL).unwrap_err();
        let expected = "environment variable SLIPSTREAM_BROKR: unknown key `brokr`; did you mean `broker`?";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn variables_that_kubernetes_makes_for_a_service_are_no_keys() {
        let list = variables(&[
            ("SLIPSTREAM_SERVICE_HOST", "10.0.0.1"),
            ("SLIPSTREAM_SERVICE_PORT_HTTP", "80"),
            ("SLIPSTREAM_PORT", "tcp://10.0.0.1:80"),
            ("SLIPSTREAM_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("SLIPSTREAM_UI_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ]);
        assert_eq!(environment(&list, ALL).unwrap(), Layer::default());
    }

    #[test]
    fn a_file_that_was_asked_for_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.toml");
        let list = vec![(OsString::from(FILE_VARIABLE), path.clone().into_os_string())];
        assert_eq!(load(None, true, &list, ALL).unwrap_err().kind(), Kind::Config);
        std::fs::write(&path, "linger.ms = 9").unwrap();
        let loaded = load(None, true, &list, ALL).unwrap();
        assert_eq!(value(&loaded.file, "queue.buffering.max.ms"), Some("9"));
        assert!(load(Some(&dir.path().join("other.toml")), true, &list, ALL).is_err(), "the path given in code wins");
    }
}
