//! Commands and packages, for the programs that run the former on the latter: `xtask` itself, and
//! `measure` in `benches`.

#![allow(clippy::missing_errors_doc, clippy::must_use_candidate, reason = "for our programs alone")]

pub mod step;
pub mod workspace;

use std::process::ExitCode;

/// How a program ends: the reason of a failure is the last line on standard error.
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
