//! The configuration as a whole: sources, merging, routing, and that no secret ever leaves it.

use std::time::Duration;

use proptest::prelude::*;

use super::owned::Features;
use super::*;
use crate::Kind;

const NONE: [(&str, &str); 0] = [];

fn with_ssl() -> Conf {
    Conf::isolated().built_with(Features { ssl: true, zstd: true })
}

/// A configuration with every source, each setting the keys from its own on.
fn layered(upto: usize) -> Settings {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slipstream.toml");
    let file = if upto >= 2 { "linger.ms = 2" } else { "" };
    let topic = if upto >= 5 { "\n[topic.words]\nlinger.ms = 5\nname = 'prod.words'" } else { "" };
    std::fs::write(&path, format!("{file}{topic}")).unwrap();
    let mut conf = Conf::isolated().file(&path);
    if upto >= 1 {
        conf = conf.with_fallback("linger.ms", 1);
    }
    if upto >= 3 {
        conf = conf.environment([("SLIPSTREAM_LINGER_MS", "3")]);
    }
    if upto >= 4 {
        conf = conf.with("queue_buffering_max_ms", 40);
    }
    conf.settings().unwrap()
}

#[test]
fn each_source_wins_over_the_ones_before_it() {
    let values: Vec<_> = (0..5).map(|upto| layered(upto).get("linger.ms").map(str::to_owned).unwrap()).collect();
    assert_eq!(values, ["5", "1", "2", "3", "40"]);
    let own = layered(4).topic("words", [("linger.ms", "50")]).unwrap();
    assert_eq!((own.name(), own.get("linger.ms")), ("words", Some("50")));
    let in_file = layered(5).topic("words", [("linger.ms", "50")]).unwrap();
    assert_eq!((in_file.name(), in_file.declared_name(), in_file.get("linger.ms")), ("prod.words", "words", Some("5")));
    assert_eq!(layered(5).topics_in_file().collect::<Vec<_>>(), ["words"]);
    assert_eq!(layered(5).topic("other", NONE).unwrap().get("linger.ms"), Some("40"));
}

#[test]
fn one_variable_moves_an_example_to_another_broker() {
    let example = Conf::isolated().with_fallback("broker", "memory:");
    let moved = example.environment([("SLIPSTREAM_BOOTSTRAP_SERVERS", "kafka:9092")]).settings().unwrap();
    assert_eq!(moved.broker(), Some(&"kafka://kafka:9092".parse().unwrap()));
}

#[test]
fn with_nothing_configured_there_is_no_broker_and_every_limit_has_its_default() {
    let settings = Conf::isolated().settings().unwrap();
    assert_eq!(settings.broker(), None);
    assert_eq!(settings.configured().count(), 0);
    assert_eq!(settings.state_dir(), std::path::Path::new("state"));
    assert_eq!((settings.max_in_flight(), settings.max_in_flight_bytes()), (8192, 64 << 20));
    assert_eq!(
        (settings.commit_interval(), settings.drain_timeout()),
        (Duration::from_secs(1), Duration::from_secs(30))
    );
    assert_eq!(settings.revoke_timeout(), Duration::from_secs(10));
    assert_eq!((settings.watchdog_timeout(), settings.offset_reset()), (Duration::from_mins(1), None));
    assert!(settings.app_id().starts_with("slipstream"), "{}", settings.app_id());
}

#[test]
fn cf_1_a_new_conf_holds_exactly_what_it_was_given() {
    let settings = Conf::isolated().with("group.id", "test").settings().unwrap();
    assert_eq!(settings.configured().collect::<Vec<_>>(), [("group.id", "test".into())]);
}

#[test]
fn cf_2_a_value_is_found_under_both_spellings() {
    let settings = Conf::isolated().with("group.id", "test").settings().unwrap();
    assert_eq!((settings.get("group.id"), settings.get("group_id")), (Some("test"), Some("test")));
}

#[test]
fn cf_3_an_unknown_key_is_an_error_that_names_it() {
    assert_eq!(Conf::isolated().settings().unwrap().get("colour"), None);
    let error = Conf::isolated().with("colour", 1).settings().unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Config, "Conf: unknown key `colour`"));
}

#[test]
fn s7_a_topic_has_the_values_of_its_time_under_its_own() {
    let conf = with_ssl().with("bootstrap.servers", "a:9092").with("group.id", "default");
    let first = conf.settings().unwrap().topic("topic1", [("bootstrap.servers", "b:9092")]).unwrap();
    let conf = conf.with("security_protocol", "SASL_SSL").with("sasl_mechanism", "PLAIN");
    let conf = conf.with("sasl_plain_username", "me").with("sasl_plain_password", "hunter2");
    let second = conf.settings().unwrap().topic("topic2", [("group_id", "demo")]).unwrap();

    assert_eq!(first.get("bootstrap_servers"), Some("b:9092"));
    assert_eq!((first.group_id(), first.get("sasl.username")), ("default", None));
    assert_eq!((second.get("bootstrap.servers"), second.group_id()), (Some("a:9092"), "demo"));
    let consumer = second.kafka_consumer();
    assert_eq!((consumer.get("sasl.mechanisms"), consumer.get("sasl.password")), (Some("PLAIN"), Some("hunter2")));
    assert_eq!(consumer.get("security.protocol"), Some("sasl_ssl"));
}

#[test]
fn a_consumer_gets_its_own_properties_and_the_owned_ones() {
    let conf = Conf::isolated().with("app.id", "orders").with("bootstrap.servers", "a:1,b:2");
    let settings = conf.with("session_timeout_ms", 6000).with("max_request_size", 2_000_000).settings().unwrap();
    let expected = [
        ("check.crcs", "true"),
        ("client.id", "orders"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("fetch.queue.backoff.ms", "10"),
        ("isolation.level", "read_committed"),
        ("message.max.bytes", "2000000"),
        ("metadata.broker.list", "a:1,b:2"),
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("queued.max.messages.kbytes", "65536"),
        ("session.timeout.ms", "6000"),
        ("auto.offset.reset", "error"),
        ("group.id", "orders"),
    ];
    assert_eq!(settings.kafka_consumer().iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_producer_gets_its_own_properties_and_the_owned_ones() {
    let conf = Conf::isolated().with("client.id", "me").with("partitioner", "random").with("broker", "kafka://a");
    let settings = conf.with("session.timeout.ms", 6000).with("acks", "all").settings().unwrap();
    let expected = [
        ("client.id", "me"),
        ("delivery.report.only.error", "false"),
        ("enable.idempotence", "true"),
        ("message.timeout.ms", "0"),
        ("metadata.broker.list", "a"),
        ("partitioner", "random"),
        ("queue.buffering.max.ms", "5"),
        ("request.required.acks", "all"),
    ];
    assert_eq!(settings.kafka_producer().iter().collect::<Vec<_>>(), expected);
}

#[test]
fn auto_offset_reset_says_where_to_start_and_never_reaches_the_client() {
    let settings = Conf::isolated().with("auto.offset.reset", "latest").settings().unwrap();
    assert_eq!(settings.offset_reset(), Some(OffsetReset::Latest));
    assert_eq!(settings.kafka_consumer().get("auto.offset.reset"), Some("error"));
}

#[test]
fn the_brokers_own_assignor_gets_no_strategy() {
    let settings = Conf::isolated().with("group.protocol", "consumer").settings().unwrap();
    assert_eq!(settings.kafka_consumer().get("partition.assignment.strategy"), None);
}

#[test]
fn owned_properties_are_refused_wherever_they_are_set() {
    let env = Conf::isolated().environment([("SLIPSTREAM_ENABLE_AUTO_COMMIT", "true")]).settings().unwrap_err();
    assert!(env.to_string().contains("SLIPSTREAM_ENABLE_AUTO_COMMIT"), "{env}");
    let settings = Conf::isolated().settings().unwrap();
    let own = settings.topic("words", [("acks", "1")]).unwrap_err();
    assert!(own.to_string().starts_with("topic words: `acks`: must be `all`, because "), "{own}");
    assert!(settings.topic("words", [("acks", "-1")]).is_ok());
}

#[test]
fn a_password_is_not_sent_readable_over_the_network() {
    let sasl = with_ssl().with("security.protocol", "sasl_plaintext");
    assert!(sasl.clone().with("bootstrap.servers", "localhost:9092").settings().is_ok());
    let error = sasl.clone().with("bootstrap.servers", "10.0.0.1:9092").settings().unwrap_err();
    assert!(error.to_string().contains("sasl_ssl"), "{error}");
    let local = sasl.with("bootstrap.servers", "localhost:9092").settings().unwrap();
    assert!(local.topic("words", [("bootstrap.servers", "b:1")]).is_err(), "a topic's own servers count too");
}

#[test]
fn only_code_can_switch_off_the_check_of_certificates() {
    for (key, value) in
        [("enable.ssl.certificate.verification", "0"), ("ssl.endpoint.identification.algorithm", "none")]
    {
        let conf = with_ssl().environment([(format!("SLIPSTREAM_{key}"), value)]);
        assert!(conf.settings().unwrap_err().to_string().contains("danger_accept_unverified_tls"));
        assert!(conf.danger_accept_unverified_tls().settings().is_ok());
    }
}

#[test]
fn a_message_of_librdkafka_is_shown_without_the_secret_it_repeats() {
    let conf = with_ssl().with("sasl.password", "hunter2").settings().unwrap().kafka_producer();
    assert_eq!(conf.without_secrets("bad value: sasl.password hunter2-x"), "bad value: sasl.password …-x");
}

/// librdkafka itself is asked: it knows every property here, and the clients can be made.
#[cfg(feature = "kafka")]
mod librdkafka {
    use rdkafka::ClientConfig;
    use rdkafka::consumer::BaseConsumer;
    use rdkafka::producer::BaseProducer;

    use super::*;

    fn client(properties: KafkaConfig) -> ClientConfig {
        properties.into_iter().collect()
    }

    #[test]
    fn a_consumer_and_a_producer_can_be_made_from_what_comes_out() {
        let settings =
            Conf::isolated().with("bootstrap.servers", "127.0.0.1:1").with("log_level", 3).settings().unwrap();
        client(settings.kafka_consumer()).create::<BaseConsumer>().unwrap();
        client(settings.kafka_producer()).create::<BaseProducer>().unwrap();
    }

    #[test]
    fn a_consumer_under_the_brokers_assignor_can_be_made() {
        let settings = Conf::isolated().with("group.protocol", "consumer").settings().unwrap();
        client(settings.kafka_consumer()).create::<BaseConsumer>().unwrap();
    }

    #[test]
    fn every_property_of_the_table_is_known() {
        for info in super::super::kafka_keys::KAFKA.iter().filter(|info| info.is_kafka()) {
            let mut one = ClientConfig::new();
            one.set(super::super::kafka::native(info.name), "no such value");
            if let Err(error) = one.create_native_config() {
                let text = error.to_string();
                assert!(!text.contains("No such configuration property"), "{text}");
            }
        }
    }
}

/// Keys that hold secrets, and misspelt ones.
const SECRET_KEYS: &[&str] = &[
    "sasl.password",
    "sasl_plain_password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.client.secret",
    "sasl.username",
    "sasl.passwd",
    "sasl.jaas.config",
    "ssl.key.location",
    "sasl.oauthbearer.token.endpoint.url",
    "https.ca.pem",
];

const SCHEMES: &[&str] = &["", "nats://", "kafka://", "booblik://", "memory:", "redis://", "memory://"];

/// All that can be printed of a configuration in which `key = secret`, with and without the cargo features.
fn all_that_is_printed(key: &str, secret: &str, ssl: bool) -> String {
    let base = Conf::isolated().built_with(Features { ssl, zstd: ssl });
    let in_env = base.clone().environment([(format!("SLIPSTREAM_{key}"), secret)]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.toml");
    std::fs::write(&path, format!("{key} = {secret}\n{key} = \"{secret}\n")).unwrap();
    let valid = dir.path().join("valid.toml");
    std::fs::write(&valid, format!("'{key}' = {secret:?}\n[topic.words]\n'{key}' = {secret:?}\n")).unwrap();
    let settings = base.settings().unwrap();
    let own = settings.topic("words", [(key, secret)]);
    let set = base.clone().with(key, secret).with_fallback(key, secret);
    let clients = set.settings().map(|settings| (settings.kafka_consumer(), settings.kafka_producer()));
    format!(
        "{set:?} {:?} {:?} {own:?} {clients:?} {:?} {:?}",
        set.settings(),
        in_env.settings().map(|settings| format!("{settings:?} {:?}", settings.configured().collect::<Vec<_>>())),
        base.clone().file(&path).settings(),
        base.file(&valid).settings().and_then(|settings| settings.topic("words", NONE))
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_secret_never_appears_in_what_is_printed(
        key in proptest::sample::select(SECRET_KEYS),
        secret in "[A-Za-z0-9 '\"=#/@:.,\\[\\]{}-]{0,6}hunter2Zq[A-Za-z0-9 '\"=#/@:,-]{0,6}",
        ssl: bool,
    ) {
        let printed = all_that_is_printed(key, &secret, ssl);
        prop_assert!(!printed.contains("hunter2Zq"), "{printed}");
    }

    #[test]
    fn the_password_in_an_address_never_appears_in_what_is_printed(
        key in proptest::sample::select(&["broker", "bootstrap.servers", "metadata_broker_list"][..]),
        scheme in proptest::sample::select(SCHEMES),
        password in "[a-z:/@,]{0,5}hunter2Zq[a-z:/,@]{0,5}",
    ) {
        let printed = all_that_is_printed(key, &format!("{scheme}me:{password}@host:4222"), true);
        prop_assert!(!printed.contains("hunter2Zq"), "{printed}");
    }

    #[test]
    fn a_password_behind_an_address_never_appears_in_what_is_printed(
        key in proptest::sample::select(&["broker", "bootstrap.servers", "metadata_broker_list"][..]),
        scheme in proptest::sample::select(SCHEMES),
        mark in "[?#]",
        password in "[a-z:/@,?#&]{0,5}hunter2Zq[a-z:/,@?#&]{0,5}",
    ) {
        let printed = all_that_is_printed(key, &format!("{scheme}host:4222{mark}password={password}"), true);
        prop_assert!(!printed.contains("hunter2Zq"), "{printed}");
    }
}
