//! Which value counts, and what is refused.

use std::ffi::OsString;
use std::time::Duration;

use super::Arguments;
use super::file;
use super::settings::Settings;
use super::sources::Sources;
use crate::error::Result;

/// No flag at all.
fn flags() -> Arguments {
    Arguments { dir: None, listen: None, topic: Vec::new(), config: None, set: Vec::new() }
}

fn settings(arguments: &Arguments, environment: &[(&str, &str)]) -> Result<Settings> {
    let variables = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Sources::of(arguments, variables)?.settings()
}

fn refusal(arguments: &Arguments, environment: &[(&str, &str)]) -> String {
    settings(arguments, environment).map_or_else(|error| error.to_string(), |settings| format!("{settings:?}"))
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("broker.toml");
    let text = "[booblik]\nport = 1\ndata.dir = \"file\"\ntopics = [\"a:1\", \"b:2\"]\nretention.bytes = 7\n\
                [booblik.topic.\"b.c\"]\nretention.bytes = 8";
    std::fs::write(&path, text)?;
    let mut arguments = Arguments { config: Some(path), ..flags() };

    let found = settings(&arguments, &[])?;
    assert_eq!((found.listen().as_str(), found.directory.to_str()), ("127.0.0.1:1", Some("file")));
    assert_eq!(found.topics, [("a".to_owned(), 1), ("b".to_owned(), 2)]);

    let environment = [("BOOBLIK_PORT", "2"), ("BOOBLIK_DATA_DIR", "environment"), ("BOOBLIK_FLUSH_EVERY_MILLIS", "5")];
    let found = settings(&arguments, &environment)?;
    assert_eq!((found.listen().as_str(), found.directory.to_str()), ("127.0.0.1:2", Some("environment")));
    let of_topic = found.broker.for_topic("b.c");
    assert_eq!((found.broker.default.retention_bytes, of_topic.retention_bytes), (Some(7), Some(8)));
    assert_eq!(of_topic.flush_every, Some(Duration::from_millis(5)), "a topic is kept as all are but for its own keys");

    arguments.listen = Some("[::1]:3".to_owned());
    arguments.topic = vec!["c:3".to_owned()];
    arguments.set = vec!["booblik.data.dir=set".to_owned()];
    let found = settings(&arguments, &environment)?;
    assert_eq!((found.listen().as_str(), found.directory.to_str()), ("[::1]:3", Some("set")));
    assert_eq!(found.topics, [("c".to_owned(), 3)]);
    Ok(())
}

#[test]
fn what_is_not_known_is_refused_with_what_was_meant() {
    let told = refusal(&flags(), &[("BOOBLIK_TOPCIS", "a:1")]);
    assert_eq!(
        told,
        "environment variable BOOBLIK_TOPCIS: there is no key `booblik.topcis`; did you mean `booblik.topics`?"
    );
    let told = refusal(&Arguments { set: vec!["booblik.colour=red".to_owned()], ..flags() }, &[]);
    assert_eq!(told, "flag --set: there is no key `booblik.colour`");
    let told = refusal(&Arguments { set: vec!["booblik.topic.a.port=1".to_owned()], ..flags() }, &[]);
    assert_eq!(told, "flag --set: there is no key `booblik.topic.a.port`", "a topic has no port");
}

#[test]
fn a_value_that_cannot_be_names_its_key_and_its_source() {
    for (name, value, told) in [
        ("BOOBLIK_PORT", "65536", "`booblik.port` is `65536`, and has to be a port, 0 to 65535"),
        ("BOOBLIK_TOPICS", "a", "`booblik.topics` is `a`, and has to be a list `name:partitions,name:partitions`"),
        (
            "BOOBLIK_TOPICS",
            "a: 1",
            "`booblik.topics` is `a: 1`, and has to be a list `name:partitions,name:partitions`",
        ),
        ("BOOBLIK_FETCH_MODE", "fast", "`booblik.fetch.mode` is `fast`, and has to be ZERO_COPY or HEAP"),
        ("BOOBLIK_RETENTION_BYTES", "-1", "`booblik.retention.bytes` is `-1`, and has to be a whole number above 0"),
        ("BOOBLIK_LISTEN", "9092", "`booblik.listen` is `9092`, and has to be `host:port` or `[address]:port`"),
    ] {
        assert_eq!(refusal(&flags(), &[(name, value)]), format!("environment variable {name}: {told}"));
    }
}

#[test]
fn what_is_blank_or_somebody_elses_is_passed_over() -> Result<()> {
    let kubernetes = [("BOOBLIK_PORT", "tcp://10.0.0.1:9092"), ("BOOBLIK_SERVICE_HOST", "10.0.0.1")];
    assert_eq!(settings(&flags(), &kubernetes)?.port, 9092);
    let found = settings(&flags(), &[("BOOBLIK_PORT", " "), ("BOOBLIK_BROKER", "here:1"), ("HOME", "/")])?;
    assert_eq!(found.port, 9092);
    Ok(())
}

#[test]
fn the_words_of_the_reference_are_understood() -> Result<()> {
    let environment = [
        ("BOOBLIK_SEGMENT_MODE", "mapped"),
        ("BOOBLIK_TOPICS", " a:1 ,, b:2,a:3"),
        ("BOOBLIK_METRICS_INTERVAL_MILLIS", "-1"),
        ("BOOBLIK_BIND_ADDRESS", "::"),
        ("BOOBLIK_SEGMENT_CAPACITY_BYTES", "1024"),
    ];
    let found = settings(&flags(), &environment)?;
    assert_eq!(found.without_effect, ["booblik.segment.mode"]);
    assert_eq!(found.topics, [("b".to_owned(), 2), ("a".to_owned(), 3)]);
    assert_eq!((found.metrics_interval, found.listen().as_str()), (None, "[::]:9092"));
    assert_eq!(found.broker.default.segment_bytes, 1024);
    Ok(())
}

#[test]
fn port_and_address_win_over_listen_of_the_same_source_in_any_order() -> Result<()> {
    let mut variables = [("BOOBLIK_LISTEN", "0.0.0.0:9092"), ("BOOBLIK_PORT", "9102")];
    for _ in 0..2 {
        assert_eq!(settings(&flags(), &variables)?.listen(), "0.0.0.0:9102");
        variables.reverse();
    }
    let arguments = Arguments { listen: Some("[::1]:1".to_owned()), ..flags() };
    assert_eq!(settings(&arguments, &variables)?.listen(), "[::1]:1", "a flag is stronger");
    let told = refusal(&Arguments { listen: Some("::1:9092".to_owned()), ..flags() }, &[]);
    assert_eq!(told, "flag --listen: `booblik.listen` is `::1:9092`, and has to be `host:port` or `[address]:port`");
    Ok(())
}

#[test]
fn keys_of_topics_are_for_topics_that_there_are() -> Result<()> {
    let known = ["words", "My-Topic"].map(str::to_owned).into();
    let of = |arguments: &Arguments, environment: &[(&str, &str)]| settings(arguments, environment)?.for_topics(&known);
    let found = of(&flags(), &[("BOOBLIK_TOPIC_MY_TOPIC_RETENTION_BYTES", "5")])?;
    assert_eq!(found.broker.for_topic("My-Topic").retention_bytes, Some(5));
    let wrong = Arguments { set: vec!["booblik.topic.wrods.retention.bytes=5".to_owned()], ..flags() };
    let told = of(&wrong, &[]).map(drop).map_err(|error| error.to_string());
    assert_eq!(told, Err("`booblik.topic.wrods…`: there is no such topic; did you mean `words`?".to_owned()));
    let spelled = Arguments { set: vec!["booblik.topic.my.topic.retention.bytes=5".to_owned()], ..flags() };
    assert!(of(&spelled, &[]).is_err(), "elsewhere names are what they are");
    Ok(())
}

#[test]
fn a_limit_that_contradicts_another_names_both() {
    let told = refusal(&flags(), &[("BOOBLIK_MAX_PARTIAL_BYTES", "1000")]);
    assert_eq!(told, "`booblik.max.partial.bytes` is 1000, less than `booblik.max.frame.bytes`, 8388608");
}

#[test]
fn a_file_is_toml_or_properties() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let text = "# comment\nbooblik.port=1\n\nbooblik.topics = a:1,b:2\n";
    assert_eq!(file::properties(text), Ok(vec![pair("booblik.port", "1"), pair("booblik.topics", "a:1,b:2")]));
    let java = "booblik.port: 1\nbooblik.topics=a:1,\\\n  b:2\n";
    assert_eq!(file::properties(java), Ok(vec![pair("booblik.port", "1"), pair("booblik.topics", "a:1,b:2")]));
    assert_eq!(file::properties("a\n"), Err("line 1: `a` is no `key=value`".to_owned()));
    assert_eq!(file::toml("booblik.port = 1"), Ok(vec![pair("booblik.port", "1")]));
    assert_eq!(
        file::toml("booblik.port = 1.5"),
        Err("`booblik.port` has to be a text, a whole number or a list of them".to_owned())
    );
    assert!(file::toml("booblik.port = ").is_err());
}
