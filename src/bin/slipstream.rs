//! The program `slipstream`; what it does is in `src/cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    slipstream::cli::main()
}
