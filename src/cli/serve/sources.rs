//! What file, environment and flags say, by key.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::Arguments;
use super::file;
use super::keys::{DIRECTORY, HOST, KEYS, Key, LISTEN, PORT, PREFIX, TOPIC, TOPICS};
use super::settings::Settings;
use crate::booblik::broker::TopicOptions;
use crate::booblik::wire::is_topic_name;
use crate::error::{Error, Kind, Result};
use crate::util::nearest;

/// Variables of the tools beside the broker.
const OTHERS: &[&str] = &["BOOBLIK_BROKER", "BOOBLIK_IMAGE"];

/// Begins the origin of what the environment says.
const VARIABLE: &str = "environment variable";

/// A value and who gave it.
#[derive(Debug, Clone)]
struct Given {
    value: String,
    origin: String,
}

/// The value of each key from the source that wins.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<String, Given>);

impl Sources {
    /// From the weakest to the strongest: file, environment, flags.
    pub(super) fn of(arguments: &Arguments, environment: impl Iterator<Item = (OsString, OsString)>) -> Result<Self> {
        let mut sources = Self::default();
        if let Some(path) = &arguments.config {
            let origin = path.display().to_string();
            sources
                .add_all(file::read(path)?.into_iter().map(|(key, value)| (key, value, origin.clone())).collect())?;
        }
        let mut variables = Vec::new();
        for (name, value) in environment {
            variables.extend(variable(&name, &value)?);
        }
        sources.add_all(variables)?;
        sources.add_all(flags(arguments)?)?;
        Ok(sources)
    }

    /// What one source says: `(key, value, origin)`. Its port and address win over its `booblik.listen`, in whatever order
    /// they come.
    fn add_all(&mut self, mut given: Vec<(String, String, String)>) -> Result<()> {
        given.sort_by_key(|(key, ..)| key != LISTEN);
        given.iter().try_for_each(|(key, value, origin)| self.add(key, value, origin))
    }

    /// A line for each key that is set, with who has set it.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(key, Given { value, origin })| format!("  {key} = {value} ({origin})"))
    }

    /// Takes a value, unless it is blank, which is as if it were not there.
    fn add(&mut self, key: &str, value: &str, origin: &str) -> Result<()> {
        let value = value.trim();
        if key != LISTEN && find(key).is_none() {
            return Err(unknown(key, origin));
        }
        if value.is_empty() {
            return Ok(());
        }
        if key != LISTEN {
            self.put(key, value, origin);
            return Ok(());
        }
        let is_host = |host: &str| !host.is_empty() && (!host.contains(':') || host.starts_with('['));
        let Some((host, port)) = value.rsplit_once(':').filter(|(host, _)| is_host(host)) else {
            return Err(wrong(key, value, "`host:port` or `[address]:port`", origin));
        };
        self.put(HOST, host, origin);
        self.put(PORT, port, origin);
        Ok(())
    }

    fn put(&mut self, key: &str, value: &str, origin: &str) {
        self.0.insert(key.to_owned(), Given { value: value.to_owned(), origin: origin.to_owned() });
    }

    /// What all of it comes to.
    pub(super) fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        let (of_topics, of_all): (Vec<_>, Vec<_>) = self.0.iter().partition(|(key, _)| key.starts_with(TOPIC));
        for (name, given) in of_all {
            let Some((None, key)) = find(name) else { return Err(unknown(name, &given.origin)) };
            key.set(&mut settings, &given.value).ok_or_else(|| given.wrong(name, key))?;
        }
        // A topic's own keys come last: for the others it is kept as all topics are.
        for (name, given) in of_topics {
            let Some((Some(topic), key)) = find(name) else { return Err(unknown(name, &given.origin)) };
            let mut options: TopicOptions = settings.broker.for_topic(topic).clone();
            key.set_for(&mut options, &given.value).ok_or_else(|| given.wrong(name, key))?;
            settings.broker = settings.broker.topic(topic, options);
            if given.origin.starts_with(VARIABLE) {
                settings.of_variables.insert(topic.to_owned());
            }
        }
        let (most, frame) = (settings.server.max_partial_bytes, settings.server.max_frame_bytes);
        if most < frame {
            let text = format!("`booblik.max.partial.bytes` is {most}, less than `booblik.max.frame.bytes`, {frame}");
            return Err(Error::new(Kind::Config, text));
        }
        Ok(settings)
    }
}

/// `BOOBLIK_DATA_DIR` is `booblik.data.dir`.
fn variable(name: &OsString, value: &OsString) -> Result<Option<(String, String, String)>> {
    let Some(name) = name.to_str().filter(|name| name.starts_with("BOOBLIK_")) else { return Ok(None) };
    let origin = format!("{VARIABLE} {name}");
    let value = value.to_str().ok_or_else(|| Error::new(Kind::Config, "its value is not UTF-8").at(&*origin))?;
    if OTHERS.contains(&name) || is_of_kubernetes(name, value) {
        return Ok(None);
    }
    Ok(Some((name.to_ascii_lowercase().replace('_', "."), value.to_owned(), origin)))
}

fn flags(arguments: &Arguments) -> Result<Vec<(String, String, String)>> {
    let given = |key: &str, value: &str, flag: &str| (key.to_owned(), value.to_owned(), format!("flag {flag}"));
    let mut flags = Vec::new();
    for pair in &arguments.set {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(Error::new(Kind::Config, format!("`{pair}` is no `key=value`")).at("flag --set"));
        };
        flags.push(given(key.trim(), value, "--set"));
    }
    if let Some(directory) = &arguments.dir {
        let text = directory.to_str().ok_or_else(|| Error::new(Kind::Config, "it is not UTF-8").at("flag --dir"))?;
        flags.push(given(DIRECTORY, text, "--dir"));
    }
    flags.extend(arguments.listen.iter().map(|listen| given(LISTEN, listen, "--listen")));
    flags.push(given(TOPICS, &arguments.topic.join(","), "--topic"));
    Ok(flags)
}

impl Given {
    fn wrong(&self, name: &str, key: &Key) -> Error {
        wrong(name, &self.value, key.takes, &self.origin)
    }
}

/// The key with this name; with the topic of which it is, for `booblik.topic.<name>.<key>`.
fn find(name: &str) -> Option<(Option<&str>, &'static Key)> {
    let Some(rest) = name.strip_prefix(TOPIC) else {
        return KEYS.iter().find(|key| key.name == name).map(|key| (None, key));
    };
    KEYS.iter().filter(|key| key.is_of_topics()).find_map(|key| {
        let topic = rest.strip_suffix(key.name.strip_prefix(PREFIX)?)?.strip_suffix('.')?;
        is_topic_name(topic).then_some((Some(topic), key))
    })
}

/// What Kubernetes tells of a service named booblik.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    name.starts_with("BOOBLIK_SERVICE_") || name.starts_with("BOOBLIK_PORT_") || value.starts_with("tcp://")
}

fn wrong(key: &str, value: &str, takes: &str, origin: &str) -> Error {
    Error::new(Kind::Config, format!("`{key}` is `{value}`, and has to be {takes}")).at(origin)
}

fn unknown(key: &str, origin: &str) -> Error {
    let names = KEYS.iter().map(|key| key.name).chain([LISTEN]);
    let meant = nearest(key, names).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    Error::new(Kind::Config, format!("there is no key `{key}`{meant}")).at(origin)
}
