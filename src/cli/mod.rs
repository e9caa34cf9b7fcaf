//! The program `slipstream`: `slipstream broker serve`, and what helps to look after a broker.
//!
//! | file | what is in it |
//! |---|---|
//! | `serve` | a broker as a process: its configuration, what it says, how it ends |
//! | `topics`, `tail`, `produce`, `health` | a client each, of any booblik broker |
//! | `check` | a data directory, read without changing it |
//! | `client` | what the clients among them share |
//!
//! It ends with 0 when all went well, with 1 when it did not or something was found damaged, and with 2 when what it was
//! told makes no sense.

mod check;
mod client;
mod health;
mod produce;
mod serve;
mod tail;
mod topics;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::{Error, Kind, Result};

/// Went wrong, or was found damaged.
const FAILED: u8 = 1;
/// Was told something that makes no sense; clap ends with the same.
const USAGE: u8 = 2;

/// Stateful stream processing: the tools.
#[derive(Debug, Parser)]
#[command(name = "slipstream", version, disable_help_subcommand = true)]
struct Program {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// A broker of the booblik protocol, and what helps to look after one.
    #[command(subcommand)]
    Broker(Command),
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the topics of a data directory.
    ///
    /// Each key of the configuration can be given as a flag, as an environment variable (`BOOBLIK_PORT` for
    /// `booblik.port`) and in a file. Flags win over the environment, that over the file.
    Serve(Box<serve::Arguments>),
    /// Lists topics: partitions, first and next offset.
    Topics(topics::Arguments),
    /// Prints records as they come.
    ///
    /// A line per record: partition, offset and value, with a tab between them.
    Tail(tail::Arguments),
    /// Appends the records of the command line, or the lines of standard input.
    Produce(produce::Arguments),
    /// Reads a data directory, compares every checksum and changes nothing.
    ///
    /// Ends with 1 and names file and byte when something is damaged.
    Check(check::Arguments),
    /// Asks a broker for its topics; for health checks.
    Health(health::Arguments),
}

/// Runs the command of the command line, and returns what the process should end with.
pub fn main() -> ExitCode {
    let Tool::Broker(command) = Program::parse().tool;
    match run(command) {
        Ok(code) => code,
        Err(error) => {
            let _nobody_reads_it = writeln!(std::io::stderr(), "slipstream: {}", error.report());
            ExitCode::from(if error.kind() == Kind::Config { USAGE } else { FAILED })
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        match command {
            Command::Serve(arguments) => serve::run(*arguments).await,
            Command::Topics(arguments) => topics::run(arguments).await,
            Command::Tail(arguments) => tail::run(arguments).await,
            Command::Produce(arguments) => produce::run(arguments).await,
            Command::Check(arguments) => check::run(&arguments),
            Command::Health(arguments) => health::run(&arguments).await,
        }
    });
    // A thread that waits for a line of standard input cannot be woken, and nobody waits for it any more.
    runtime.shutdown_background();
    result
}

/// Writes a line to standard output.
///
/// # Errors
///
/// `Kind::Closed` when nobody reads it any more; `Kind::Io`.
fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(unwritten)
}

fn unwritten(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Error::new(Kind::Closed, "nobody reads standard output any more"),
        _ => Error::from(error).at("standard output"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_commands_do_not_contradict_each_other() {
        super::Program::command().debug_assert();
    }
}
