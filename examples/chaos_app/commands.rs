//! The harness asks on standard input and reads on standard output, a line each.

use std::io::{BufRead as _, Write as _};
use std::sync::Arc;

use slipstream::{RunHandle, Topic};

use crate::Shared;

/// Tells the harness something; a harness that is gone does not need to know.
pub fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    let _gone = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Obeys until standard input ends: then the harness is dead, and this process shall not outlive it.
///
/// `tables` says what is in them.
pub fn obey(
    run: RunHandle,
    input: Topic<String>,
    shared: Arc<Shared>,
    tables: impl Fn() -> Option<String> + Send + 'static,
) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.as_str() {
                "health" => tell(&format!("reply {}", serde_json::to_string(&run.health()).unwrap_or_default())),
                "counts" => tell(&format!("reply {} {}", shared.begun(), shared.ended())),
                "tables" => tell(&format!("reply {}", tables().unwrap_or_default())),
                "pause" => {
                    input.pause();
                    tell("reply paused");
                }
                "resume" => {
                    input.resume();
                    tell("reply resumed");
                }
                other => tell(&format!("reply unknown command {other}")),
            }
        }
        std::process::exit(70);
    });
}
