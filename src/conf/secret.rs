//! What of a value may be shown: the values of known keys that hold no secret, without the userinfo of URLs.

use std::borrow::Cow;

use super::key;

/// Stands where a value is not shown.
pub(super) const HIDDEN: &str = "…";

/// The value as it may be printed. An unknown key hides it, since it may be a mistyped secret.
pub(super) fn shown<'a>(written: &str, value: &'a str) -> Cow<'a, str> {
    match key::find(written) {
        Ok(info) if !info.secret => without_userinfo(value),
        _ => Cow::Borrowed(HIDDEN),
    }
}

/// Replaces what stands before an `@`: in `nats://me:secret@host` and in lists of servers.
pub(super) fn without_userinfo(value: &str) -> Cow<'_, str> {
    let Some((before, host)) = value.rsplit_once('@') else { return Cow::Borrowed(value) };
    // A password may hold any character, `/`, `,` and `@` included: only the scheme in front of it is safe to show.
    let scheme = before
        .split_once("://")
        .map(|(scheme, _)| scheme)
        .filter(|s| s.chars().all(|c| c.is_ascii_alphanumeric() || c == '+'));
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
}
