//! Names of apps, caches, checkpoints and groups: they become directory names, so the rule is strict.

use crate::{Error, Kind, Result};

/// The longest name, in bytes.
pub(crate) const NAME_LIMIT_BYTES: usize = 64;

/// Checks a name against `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$` without `..`; `what` says what it names.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && name.len() <= NAME_LIMIT_BYTES && name.chars().all(allowed) && !name.contains("..") {
        return Ok(());
    }
    let rule = "up to 64 ASCII letters, digits, `.`, `_` and `-`, starting with a letter or digit, without `..`";
    Err(Error::new(Kind::Config, format!("{what} `{}` is not a valid name: {rule}", name.escape_debug())))
}

/// The nearest valid name: other characters become `-`; `app` if nothing is left.
pub(crate) fn sanitise_name(raw: &str) -> String {
    let mapped: String = raw.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    let mut name = mapped.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
    while name.contains("..") {
        name = name.replace("..", ".");
    }
    name.truncate(NAME_LIMIT_BYTES);
    if name.is_empty() { "app".to_owned() } else { name }
}

fn allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_could_leave_their_directory_are_refused() {
        for bad in ["", ".", "..", "_broker", "-x", "a/b", "a..b", "a b", "ä", "a\0", &"x".repeat(65)] {
            assert!(check_name("cache", bad).is_err(), "{bad:?}");
        }
        for good in ["a", "last-seen", "v1.2_x", &"x".repeat(64)] {
            assert!(check_name("cache", good).is_ok(), "{good:?}");
        }
    }

    proptest! {
        #[test]
        fn a_sanitised_name_is_always_valid(raw in ".{0,100}") {
            prop_assert!(check_name("app", &sanitise_name(&raw)).is_ok());
        }
    }
}
