//! What of a value may be shown: the values of known keys that hold no secret, without the userinfo of URLs and without
//! what follows an address.

use std::borrow::Cow;

use super::key;

/// Stands where a value is not shown.
pub(super) const HIDDEN: &str = "…";

/// The value as it may be printed. An unknown key hides it, since it may be a mistyped secret.
pub(super) fn shown<'a>(written: &str, value: &'a str) -> Cow<'a, str> {
    match key::find(written) {
        Ok(info) if !info.secret && is_address(info.name, value) => without_query(value),
        Ok(info) if !info.secret => without_userinfo(value),
        _ => Cow::Borrowed(HIDDEN),
    }
}

fn is_address(name: &str, value: &str) -> bool {
    matches!(name, "broker" | "metadata.broker.list") || value.contains("://")
}

/// Replaces what follows a `?` or `#`, where other libraries take passwords, and what stands before an `@`.
fn without_query(value: &str) -> Cow<'_, str> {
    let Some((address, _)) = value.split_once(['?', '#']) else { return without_userinfo(value) };
    if !value.contains('@') {
        return Cow::Owned(format!("{address}?{HIDDEN}"));
    }
    // Either may hold the other's mark, so neither says where a password ends.
    match address.split_once("://") {
        Some((scheme, _)) if is_scheme(scheme) => Cow::Owned(format!("{scheme}://{HIDDEN}")),
        _ => Cow::Borrowed(HIDDEN),
    }
}

fn is_scheme(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '+')
}

/// Replaces what stands before an `@`: in `nats://me:secret@host` and in lists of servers.
pub(super) fn without_userinfo(value: &str) -> Cow<'_, str> {
    let Some((before, host)) = value.rsplit_once('@') else { return Cow::Borrowed(value) };
    // A password may hold any character, `/`, `,` and `@` included: only the scheme in front of it is safe to show.
    let scheme = before.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme));
    match scheme {
        Some(scheme) => Cow::Owned(format!("{scheme}://{HIDDEN}@{host}")),
        None => Cow::Owned(format!("{HIDDEN}@{host}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_of_known_keys_without_secrets_are_shown() {
        assert_eq!(shown("linger.ms", "5"), "5");
        for key in ["sasl.password", "sasl_plain_password", "ssl.key.pem", "ssl.keystore.password", "sasl.passwd", "x"]
        {
            assert_eq!(shown(key, "hunter2"), HIDDEN, "{key}");
        }
        for key in ["ssl.key.password", "sasl.oauthbearer.config", "sasl.oauthbearer.client.secret", "sasl.jaas.config"]
        {
            assert_eq!(shown(key, "hunter2"), HIDDEN, "{key}");
        }
    }

    #[test]
    fn userinfo_is_cut_out_whatever_the_password_holds() {
        assert_eq!(without_userinfo("nats://me:hunter2@host:4222"), "nats://…@host:4222");
        assert_eq!(without_userinfo("nats://me:hun@ter/2,x@host"), "nats://…@host");
        assert_eq!(without_userinfo("me:hunter2@host"), "…@host");
        assert_eq!(without_userinfo("kafka://a:1,b:2"), "kafka://a:1,b:2");
    }

    #[test]
    fn what_follows_an_address_is_not_shown() {
        assert_eq!(shown("broker", "kafka://h:9092?password=hunter2"), "kafka://h:9092?…");
        assert_eq!(shown("bootstrap.servers", "h:9092?password=hunter2"), "h:9092?…");
        assert_eq!(shown("broker", "kafka://h#hunter2"), "kafka://h?…");
        assert_eq!(shown("broker", "kafka://me:hun?ter2@h"), "kafka://…");
        assert_eq!(shown("broker", "kafka://h?password=hun@ter2"), "kafka://…");
        assert_eq!(shown("broker", "h?password=hun@ter2"), "…");
        assert_eq!(shown("topic.blacklist", "^a?b"), "^a?b");
    }
}
