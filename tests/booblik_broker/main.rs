//! A broker on real files and sockets, and as a process that is killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test ends with its first surprise"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::large_futures,
    clippy::large_stack_arrays,
    reason = "the numbers of tests are small, and their futures need not be"
)]

mod damage;
mod disk;
mod fetch;
mod hostile;
mod kill;
mod limits;
mod peer;
mod requests;
#[path = "../support/small.rs"]
#[expect(dead_code, reason = "what only other tests need")]
mod small;
mod support;
