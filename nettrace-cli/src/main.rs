//! The command `nettrace`: what is in a trace, whether it is sound, and the same trace in other
//! formats.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{CommandFactory, Parser};

use crate::{
    args::{Args, Command},
    failure::Failure,
    heph::Trace,
};

mod args;
mod convert;
mod dump;
mod failure;
mod headers;
mod heph;
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
    source::hide_progress();
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
        Command::Info { file, threads } => match heph::open(&file)? {
            Trace::NetTrace(source) => info::run(source, limits, threads, out),
            Trace::Heph(source) => heph::info(source, limits, threads, out),
        },
        Command::Dump { file, json: true } => match heph::open(&file)? {
            Trace::NetTrace(source) => json::run(source, limits, out),
            Trace::Heph(source) => heph::dump_json(source, limits, out),
        },
        Command::Dump { file, json: false } => match heph::open(&file)? {
            Trace::NetTrace(source) => dump::run(source, limits, out),
            Trace::Heph(source) => heph::dump(source, limits, out),
        },
        Command::Headers { file } => match heph::open(&file)? {
            Trace::NetTrace(source) => headers::run(source, limits, out),
            Trace::Heph(source) => heph::headers(source, limits, out),
        },
        Command::Verify { file, most } => match heph::open(&file)? {
            Trace::NetTrace(source) => verify::run(source, limits, most, out),
            Trace::Heph(source) => heph::check(source, limits, most, out),
        },
        Command::Convert { file, out: path, to, force } => match heph::open(&file)? {
            Trace::NetTrace(source) => {
                convert::run(source, limits, convert::Task { out: &path, to, force }, out)
            }
            Trace::Heph(_) => Err(Failure::HephSource),
        },
        Command::Completions { shell } => {
            // Written to memory first: the generator panics where a pipe breaks.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "nettrace", &mut script);
            Ok(out.write_all(&script)?)
        }
    }
}
