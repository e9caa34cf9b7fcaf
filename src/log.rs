//! A subscriber for programs that have none: `slipstream::log::init()` is the first line of every example.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Without `RUST_LOG`. The wrapper of librdkafka calls it an error that a consumer is closed already when it is dropped,
/// which is how every run ends; librdkafka's own lines come under another name, `librdkafka`.
const DEFAULT: &str = "info,rdkafka=off";

/// Prints the log to standard error, as `RUST_LOG` asks for; `info` without it. In colours on a terminal.
///
/// The library itself never installs a subscriber. Calling this twice, or after the program installed a subscriber of
/// its own, changes nothing. Parts of `RUST_LOG` that cannot be understood are left out.
///
/// ```
/// slipstream::log::init();
/// slipstream::log::init(); // the first one stays
/// ```
pub fn init() {
    let asked = std::env::var("RUST_LOG").ok().filter(|directives| !directives.trim().is_empty());
    let filter = EnvFilter::new(asked.as_deref().unwrap_or(DEFAULT));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An error means that a subscriber is installed already: that one is what the program wants.
    let _installed_before = log.with_ansi(std::io::stderr().is_terminal()).try_init();
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_second_call_does_no_harm() {
        super::init();
        super::init();
    }
}
