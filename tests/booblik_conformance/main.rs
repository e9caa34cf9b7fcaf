//! The conformance kit of the booblik protocol, the published Python client, and the program `slipstream`, all of them on
//! `slipstream broker serve` as a process of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends with its first surprise")]
#![allow(clippy::indexing_slicing, clippy::print_stdout, reason = "and says where it was")]

mod checks;
mod client;
mod disk;
mod kill;
mod process;
mod program;
mod python;
mod reader;
#[path = "../support/small.rs"]
#[expect(dead_code, reason = "what only other tests need")]
mod small;
mod subject;
