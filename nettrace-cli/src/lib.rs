//! The command `nettrace`: shows, checks, converts and records traces.
//!
//! This library belongs to the command. Programs that read traces use `nettrace-reader`.

use std::{
    io::{self, Write},
    path::Path,
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
mod csv;
mod dump;
mod event_types;
mod failure;
mod file_name;
mod filter;
mod foreign;
mod headers;
mod heph;
mod info;
mod lines;
#[cfg(unix)]
mod live;
mod message;
mod namesakes;
mod payload;
mod report;
mod rust_types;
mod seconds;
mod source;
mod spelling;
mod summary;
mod tree;
mod unique_names;
mod verify;
mod view;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(said) => return print(&said),
    };
    // The crate would read the variable in a program with the setuid bit, too. Nothing else has set
    // the folder.
    #[cfg(unix)]
    let _ = tempfile::env::override_temp_dir(&nettrace_diagnostics::__client::temporary_folder());
    let stdout = io::stdout();
    let mut out = io::BufWriter::with_capacity(1 << 16, stdout.lock());
    let file = args.command.file().map(Path::to_owned);
    let result = run(args, &mut out).and_then(|()| Ok(out.flush()?));
    source::hide_progress();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Everything readable comes before the message.
            let _ = out.flush();
            failure.report(file.as_deref())
        }
    }
}

/// Prints what the parser says instead of arguments: help or the version, or what is wrong.
fn print(said: &clap::Error) -> ExitCode {
    // The parser's own `exit` takes no notice of a device that is full.
    let printed = said.print().and_then(|()| io::stdout().flush());
    match printed {
        Err(error) if !said.use_stderr() => Failure::Output(error).report(None),
        _ => ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(2)),
    }
}

/// Converts a trace in memory. Returns how many events the reader found, or `None` if the format
/// cannot express the trace. For fuzzing only.
#[cfg(feature = "__fuzzing")]
#[doc(hidden)]
#[must_use]
pub fn convert_bytes(
    trace: &[u8],
    limits: nettrace_reader::Options,
    to: nettrace_format::Format,
    out: &mut Vec<u8>,
) -> Option<u64> {
    convert::rewrite_bytes(trace, limits, to, out).ok()
}

/// Writes the events of a trace as lines of CSV or of JSON, in the order of time.
///
/// # Errors
/// None: the result is in memory.
#[cfg(feature = "__fuzzing")]
#[doc(hidden)]
pub fn lines_of(
    events: &mut nettrace_reader::SortedReader<&[u8]>,
    is_csv: bool,
    out: &mut Vec<u8>,
) -> std::io::Result<nettrace_views::Written> {
    convert::lines::write(events, is_csv, out)
}

fn run(args: Args, out: &mut impl Write) -> Result<(), Failure> {
    let limits = args.limits;
    let meanwhile = args.command.meanwhile();
    match args.command {
        Command::Info { file, options } => match heph::open(&file, meanwhile)? {
            Trace::NetTrace(source) => info::run(source, limits, options, out),
            Trace::Heph(source) => heph::info(source, limits, options, out),
        },
        Command::Dump { file, options } => match heph::open(&file, meanwhile)? {
            Trace::NetTrace(source) => dump::run(source, limits, &options, out),
            Trace::Heph(source) => heph::dump(source, limits, &options, out),
        },
        Command::Tree { file, options } => {
            let (source, original) = heph::open_as_nettrace(&file, limits, meanwhile)?;
            tree::run(source, limits, options, out)?;
            original.end_whole()
        }
        Command::Headers { file, filter } => match heph::open(&file, meanwhile)? {
            Trace::NetTrace(source) => headers::run(source, limits, &filter, out),
            Trace::Heph(source) => heph::headers(source, limits, &filter, out),
        },
        Command::Verify { file, options } => match heph::open(&file, meanwhile)? {
            Trace::NetTrace(source) => verify::run(source, limits, options, out),
            Trace::Heph(source) => heph::verify(source, limits, options, out),
        },
        Command::Convert {
            file,
            out: path,
            to,
            force,
            views,
            #[cfg(feature = "parquet")]
            tables,
        } => {
            let task = convert::Task {
                out: &path,
                to,
                force,
                views: &views,
                #[cfg(feature = "parquet")]
                tables: &tables,
            };
            let (source, original) = heph::open_as_nettrace(&file, limits, meanwhile)?;
            convert::run(source, limits, task, out)?;
            original.end_converted()
        }
        Command::Report { file, options } => {
            let trace = heph::open_as_nettrace(&file, limits, meanwhile)?;
            report::run(trace, limits, &file, &options, out)
        }
        Command::View { file, options } => {
            let trace = heph::open_as_nettrace(&file, limits, meanwhile)?;
            view::run(trace, limits, &file, &options, out)
        }
        #[cfg(unix)]
        Command::Ps => live::ps(out),
        #[cfg(unix)]
        Command::Collect { options } => live::collect(&options, limits, out),
        #[cfg(unix)]
        Command::Select { which, filters } => live::select(&which, &filters),
        #[cfg(unix)]
        Command::Counters { options } => live::counters(&options, limits, out),
        #[cfg(unix)]
        Command::Top { options } => live::top(&options, limits, out),
        Command::Completions { shell } => {
            // Write to memory first, because the generator panics if a pipe is closed.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "nettrace", &mut script);
            Ok(out.write_all(&script)?)
        }
    }
}
