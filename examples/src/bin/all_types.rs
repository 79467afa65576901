//! Emits every type that a field can have, in every encoding, with known values. Also every kind of
//! label, and everything that an event type can state about itself.

use std::{io, process::ExitCode};

use clap::Parser;
use examples::{
    outcome::{self, Failure},
    output::Output,
    types,
};
use serde_json::json;

const NAME: &str = "all_types";

/// Writes a trace with every type, encoding, label and description that there is.
#[derive(Debug, Parser)]
struct Args {
    /// Leave out what only the newest readers know: booleans of one byte, and labels that replace
    /// what a type states
    #[arg(long)]
    portable: bool,
    #[command(flatten)]
    output: Output,
}

fn main() -> ExitCode {
    outcome::exit(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let session = args.output.session(NAME).key_value("Überschrift", types::MIXED).start()?;
    let (emitted, about_thread) = types::emit_all(args.portable);
    let (stats, result) = session.finish_with_stats();
    let mut numbers = outcome::numbers(&stats);
    numbers.insert("attempted".into(), json!(emitted));
    numbers.insert("about_thread".into(), json!(about_thread));
    outcome::print(&numbers, io::stdout())?;
    outcome::whole(&stats, result)
}
