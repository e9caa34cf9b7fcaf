//! The names that aiokafka gives to settings, for configurations that move over from Python.

/// The key that stands for an aiokafka name, or why there is none. `None`: not an aiokafka name, or one that
/// librdkafka spells the same way.
pub(super) fn translate(dotted: &str) -> Option<Result<&'static str, &'static str>> {
    let known = match dotted {
        "auto.commit.interval.ms" => "commit.interval",
        "fetch.max.wait.ms" => "fetch.wait.max.ms",
        "max.batch.size" => "batch.size",
        "max.request.size" => "message.max.bytes",
        "sasl.plain.password" => "sasl.password",
        "sasl.plain.username" => "sasl.username",
        _ => return missing(dotted).map(Err),
    };
    Some(Ok(known))
}

fn missing(dotted: &str) -> Option<&'static str> {
    Some(match dotted {
        "api.version" => "the client asks the broker for its versions",
        "consumer.timeout.ms" => "a topic has no end; give the handler a `timeout` instead",
        "exclude.internal.topics" => "a topic is read by its name, never by a pattern",
        "key.deserializer" | "key.serializer" | "value.deserializer" | "value.serializer" => "give the topic a codec",
        "loop" => "everything runs on the tokio runtime that called it",
        "max.poll.records" => "`max.in.flight` bounds the messages being worked on",
        "produce.retries" | "produce.retry.backoff" => "the producer retries until the drain deadline",
        "rebalance.timeout.ms" => "librdkafka uses `max.poll.interval.ms` for it",
        "sasl.kerberos.domain.name" => "name the broker as its Kerberos principal does",
        "sasl.oauth.token.provider" => "use the `sasl.oauthbearer.…` keys",
        "ssl.context" => "use `ssl.ca.location`, `ssl.certificate.location` and `ssl.key.location`",
        "topics" => "declare each topic with `Topic::new`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::key::find;

    /// aiokafka 0.14: the parameters of its consumer, producer and client.
    const NAMES: &[&str] = &[
        "acks",
        "api_version",
        "auto_commit_interval_ms",
        "auto_offset_reset",
        "bootstrap_servers",
        "check_crcs",
        "client_id",
        "client_rack",
        "compression_type",
        "connections_max_idle_ms",
        "consumer_timeout_ms",
        "enable_auto_commit",
        "enable_idempotence",
        "exclude_internal_topics",
        "fetch_max_bytes",
        "fetch_max_wait_ms",
        "fetch_min_bytes",
        "group_id",
        "group_instance_id",
        "heartbeat_interval_ms",
        "isolation_level",
        "key_deserializer",
        "key_serializer",
        "value_deserializer",
        "value_serializer",
        "linger_ms",
        "loop",
        "max_batch_size",
        "max_partition_fetch_bytes",
        "max_poll_interval_ms",
        "max_poll_records",
        "max_request_size",
        "metadata_max_age_ms",
        "partition_assignment_strategy",
        "partitioner",
        "rebalance_timeout_ms",
        "request_timeout_ms",
        "retry_backoff_ms",
        "sasl_mechanism",
        "sasl_plain_username",
        "sasl_plain_password",
        "sasl_kerberos_service_name",
        "sasl_kerberos_domain_name",
        "sasl_oauth_token_provider",
        "security_protocol",
        "session_timeout_ms",
        "ssl_context",
        "topics",
        "transaction_timeout_ms",
        "transactional_id",
        "produce_retries",
        "produce_retry_backoff",
    ];

    #[test]
    fn every_aiokafka_name_is_accepted_or_refused_with_advice() {
        for name in NAMES {
            if let Err(error) = find(name) {
                assert!(error.to_string().contains("has no equivalent in librdkafka: "), "{error}");
            }
        }
    }

    #[test]
    fn aiokafka_names_mean_their_librdkafka_equivalents() {
        let name = |written: &str| find(written).map(|info| info.name).unwrap_or_default();
        assert_eq!(name("max_request_size"), "message.max.bytes");
        assert_eq!(name("sasl_plain_username"), "sasl.username");
        assert_eq!(name("fetch_max_wait_ms"), "fetch.wait.max.ms");
        assert_eq!(name("session_timeout_ms"), "session.timeout.ms");
        assert_eq!(name("auto_commit_interval_ms"), "commit.interval");
        assert_eq!(name("auto_offset_reset"), "auto.offset.reset");
        let refused = find("ssl_context").unwrap_err().to_string();
        assert!(refused.contains("`ssl_context`") && refused.contains("ssl.ca.location"), "{refused}");
    }
}
