//! The command `nettrace`.

use std::process::ExitCode;

fn main() -> ExitCode {
    nettrace_cli::main()
}
