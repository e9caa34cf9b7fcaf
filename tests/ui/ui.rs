//! Compiles every mistake in `cases/*.rs` and compares what the compiler says with the `.stderr` file beside it.
//! After a wanted change of a message: `TRYBUILD=overwrite cargo test -p slipstream-ui-tests`, then read the difference.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_mistake_is_reported_on_the_words_of_the_user() {
    let cases = cases();
    assert!(!cases.is_empty(), "tests/ui/cases holds no case: this test would pass without testing anything");
    let undecided: Vec<_> = cases.iter().filter(|case| !case.with_extension("stderr").exists()).collect();
    let overwriting = std::env::var_os("TRYBUILD").is_some_and(|mode| mode == "overwrite");
    assert!(overwriting || undecided.is_empty(), "no expected message beside {undecided:?}; see the top of this file");

    let tests = trybuild::TestCases::new();
    for case in &cases {
        tests.compile_fail(case);
    }
}

/// A message that stands on the attribute as a whole, or that comes twice, is a message about our code.
#[test]
fn every_mistake_is_reported_once_and_not_on_the_attribute() {
    for case in cases() {
        let message = fs::read_to_string(case.with_extension("stderr")).unwrap_or_default();
        let errors = message.lines().filter(|line| line.starts_with("error")).count();
        assert_eq!(errors, 1, "{}:\n{message}", case.display());
        let marked = message.lines().skip_while(|line| !line.contains(" | #[handle")).nth(1).unwrap_or_default();
        let whole = marked.trim_start_matches([' ', '|']).starts_with('^') && marked.contains("| ^");
        assert!(!whole, "{}:\n{message}", case.display());
    }
}

/// The cases by name, as paths from this crate's folder, which is where trybuild starts from.
fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sources = entries.map(|entry| Path::new("cases").join(entry.file_name()));
    let mut cases: Vec<PathBuf> = sources.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect();
    cases.sort();
    cases
}
