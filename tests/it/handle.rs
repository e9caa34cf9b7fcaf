//! `#[handle]` in every shape. The registry is one for a whole program, so the examples are compiled into this one and
//! run together, by a child process whose output is compared.

#![expect(clippy::print_stdout, clippy::unused_async, reason = "what it prints is compared")]

use std::collections::BTreeMap;
use std::process::Command;

use slipstream::testing::block_on;

#[path = "../../examples/bindings.rs"]
#[expect(dead_code, reason = "its `main` is not called, but what it binds is run")]
mod bindings;
#[path = "../../examples/shapes.rs"]
#[expect(dead_code, reason = "its `main` is not called, but what it binds is run")]
mod shapes;
#[path = "../../examples/timer.rs"]
#[expect(dead_code, reason = "its `main` is not called, but what it binds is run")]
mod timer;

/// Handlers that rely on where they stand and on what is written around them. Nothing in here is unused: the binding
/// uses it.
#[deny(unused)]
mod ordinary {
    use slipstream::prelude::*;

    /// Kept, with its documentation and its attributes.
    #[must_use = "an attribute of the user's"]
    #[inline]
    #[handle(stream::iter([1]), sink = [|n| println!("attributes: {n}")])]
    pub(super) fn attributes(n: u32) -> u32 {
        n + 1
    }

    /// Names of the generated code and of what it imports do not stand in the way of the user's.
    mod kind {
        pub(super) fn from() -> super::Source {
            super::stream::iter(vec![3])
        }
    }
    type Source = futures::stream::Iter<std::vec::IntoIter<u32>>;

    fn sink(n: u32) {
        println!("names: {n}");
    }

    #[handle(kind::from(), sink = [sink])]
    fn call(probe: u32) -> u32 {
        probe
    }

    static UPPER: Proxy<String> = Proxy::new("upper");

    #[handle(stream::iter(["a", "b"]), sink = [UPPER.map(str::to_uppercase)])]
    fn upper(text: &'static str) -> &'static str {
        text
    }

    #[handle(UPPER, sink = [|text| println!("mapped by a function: {text}")])]
    async fn shown(text: String) -> Result<Option<String>> {
        Ok(Some(text))
    }
}

const EXPECTED: &[&str] = &[
    "alias: 1 2",
    "all preludes: 3",
    "any_error: 1 2",
    "arguments: Hello Ada from arguments, try 1",
    "array: 1 10 2 20",
    "async_closure: 1 2",
    "async_vector: 1 1 2 2",
    "attributes: 2",
    "block: 7",
    "boxed_iterator: 0 0 1",
    "boxed_stream: 0 0 1",
    "fallible: 2 3",
    "generator: 1 first 1 second 2 first 2 second",
    "inside: 2",
    "iterator: 10 20 21",
    "lanes 0: 2 4",
    "lanes 1: 1 3",
    "linked: 1 first 1 second 100 first 100 second 2 first 2 second 200 first 200 second",
    "made: 1 2",
    "mapped by a function: A B",
    "names: 3",
    "nothing: 1 2",
    "nothing_fallible: 1 2",
    "one: 1 2",
    "option: 2",
    "own_type: 1 2",
    "piped: 2 4",
    "piped_closure: 4",
    "piped_twice: 6",
    "result_of_vector: 1 1 2 2",
    "several: 1 2 3",
    "store: 1 2",
    "store_any: 1 2",
    "store_later: 1 2",
    "tick 1: ",
    "tick 2: ",
    "tick 3: ",
    "try_generator: 0 0 1",
    "vector: 1 10 2 20",
    "wide: 1 2",
    "wrapped: [1, 1] [2, 2]",
];

const PROGRAM: &str = "HANDLE_PROGRAM_CHILD";

/// The child process: does nothing when it is run as a test.
#[test]
fn the_program() {
    if std::env::var_os(PROGRAM).is_some() {
        println!("\nbegin");
        let run =
            async { slipstream::stream().with(bindings::Greeting("Hello")).with(crate::preludes::Limit(9)).await };
        block_on(run).unwrap();
        println!("end");
    }
}

#[test]
fn every_way_to_write_a_handler_gives_its_outputs_in_order() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "handle::the_program", "--nocapture", "--test-threads=1"])
        .env(PROGRAM, "1")
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let lines = stdout.lines().skip_while(|line| *line != "begin").skip(1).take_while(|line| *line != "end");

    // Handlers of different sources run beside each other, so only the order within one is known.
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in lines {
        let (name, output) = line.split_once(": ").unwrap_or((line, ""));
        found.entry(name).or_default().push(output);
    }
    let mut found: Vec<String> = found.iter().map(|(name, outputs)| format!("{name}: {}", outputs.join(" "))).collect();
    let several = |line: &str| line.strip_prefix("several: ").map(|rest| rest.split(' ').map(str::to_owned).collect());
    for line in &mut found {
        // Nor is the order between the sources of one handler.
        if let Some(outputs) = several(line) {
            let mut outputs: Vec<String> = outputs;
            outputs.sort();
            *line = format!("several: {}", outputs.join(" "));
        }
    }
    assert_eq!(found, EXPECTED);
}

#[test]
fn a_handler_stays_a_function_that_can_be_called() {
    assert_eq!(ordinary::attributes(1), 2);
}
