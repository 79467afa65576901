//! The command `nettrace`: what is in a trace, and whether it is sound.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{CommandFactory, Parser};

use crate::{
    args::{Args, Command},
    failure::Failure,
};

mod args;
mod dump;
mod failure;
mod headers;
mod info;
mod json;
mod number;
mod shown;
mod source;
mod summary;
mod verify;

fn main() -> ExitCode {
    let args = Args::parse();
    let stdout = io::stdout();
    let mut out = io::BufWriter::with_capacity(1 << 16, stdout.lock());
    let result = run(args, &mut out).and_then(|()| Ok(out.flush()?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // What was readable comes first.
            let _ = out.flush();
            failure.report()
        }
    }
}

fn run(args: Args, out: &mut impl Write) -> Result<(), Failure> {
    let limits = args.limits;
    match args.command {
        Command::Info { file, threads } => info::run(&file, limits, threads, out),
        Command::Dump { file, json: true } => json::run(&file, limits, out),
        Command::Dump { file, json: false } => dump::run(&file, limits, out),
        Command::Headers { file } => headers::run(&file, limits, out),
        Command::Verify { file, most } => verify::run(&file, limits, most, out),
        Command::Completions { shell } => {
            // Written to memory first: the generator panics where a pipe breaks.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "nettrace", &mut script);
            Ok(out.write_all(&script)?)
        }
    }
}
