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
    files::{Files, SourceFiles},
    heph::Trace,
    output::Output,
    read_options::ReadOptions,
    recorder::RecorderFile,
    source::Meanwhile,
    spelling::OneLine,
    standard_error::say,
    verify::VerifyOptions,
};

mod args;
mod color;
mod convert;
mod csv_cell;
mod diff;
mod dump;
mod duplicate_type_names;
mod errors;
mod event_ids;
mod excerpt;
mod failure;
mod file_name;
mod files;
mod filter;
mod headers;
mod heph;
mod info;
mod lines;
#[cfg(unix)]
mod live;
mod merge;
mod nanoseconds;
mod other_file_types;
mod output;
mod read_options;
mod recorder;
mod report;
mod schema;
mod seconds;
mod source;
mod spelling;
mod standard_error;
mod suggestions;
mod summary;
mod tree;
mod verify;
mod view;
mod wrap;

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
    let _ = tempfile::env::override_temp_dir(&nettrace_diagnostics::client::temporary_folder());
    let mut out = Output::of_stdout();
    // A message begins with the name of the one trace; several are named where it matters.
    let file = args.command.file().cloned();
    let result = run(args, &mut out).and_then(|()| Ok(out.flush()?));
    standard_error::hide_progress();
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

fn run(args: Args, out: &mut Output) -> Result<(), Failure> {
    let limits = args.limits;
    let meanwhile = args.command.meanwhile();
    let Some(paths) = args.command.traces() else { return run_live(args, out) };
    if let (Command::Info { options, .. }, [path]) = (&args.command, paths) {
        if RecorderFile::is_at(path) {
            return recorder::info(path, *options, out);
        }
    }
    if let Command::Report { options, .. } = &args.command {
        let report::ReportOptions { follow, content, .. } = options;
        if let Some(port) = follow.serve {
            return view::follow::run(paths, limits, (port, follow), content, out);
        }
    }
    let files = Files::find(paths)?;
    let unread = files.unread();
    let result = run_on(files, args, limits, meanwhile, out);
    match unread {
        0 => result,
        count => result.and(Err(Failure::Cut(count))),
    }
}

/// Runs a command that reads these files.
fn run_on(
    files: Files,
    args: Args,
    mut limits: ReadOptions,
    meanwhile: Meanwhile,
    out: &mut Output,
) -> Result<(), Failure> {
    // At the end of a pipe nothing more is waited for.
    limits.is_file = files.each().iter().all(|path| path.is_file());
    match args.command {
        // Each file has its own offsets, and is sound or not.
        Command::Verify { options, .. } => return verify_each(&files, limits, options, out),
        Command::Merge { to, filter, .. } => {
            return match filter.is_given() {
                true => excerpt::write(files, limits, &filter, &to, out),
                false => merge::run(files, limits, &to, out),
            };
        }
        _ => {}
    }
    let name = files.name().to_owned();
    // Blocks are copied from trace to trace.
    let as_stream = match &args.command {
        Command::Convert { to, out, .. } => convert::copies(*to, out),
        Command::Redact { .. } => true,
        _ => false,
    };
    let filter = args.command.excerpt();
    let recordings = files.shown();
    let (trace, ending) = excerpt::open(files, &mut limits, meanwhile, as_stream, filter.as_ref())?;
    let about = SourceFiles { name: &name, recordings: &recordings, ending: &ending };
    let result = read(args.command, trace, limits, about, out);
    ending.after(result)
}

/// Checks traces, each by itself, and says where files are missing between them.
fn verify_each(
    files: &Files,
    limits: ReadOptions,
    options: VerifyOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let check = |path: &Path, out: &mut _| {
        verify::run(heph::open(path, Meanwhile::Output)?, limits, options, out)
    };
    let each = files.each();
    if let [path] = each[..] {
        return check(path, out);
    }
    let mut bad = 0;
    for path in &each {
        verify::write_file(path, options.json, out)?;
        match check(path, out) {
            Ok(()) => {}
            Err(failure @ (Failure::Illegal(_) | Failure::Broken(_) | Failure::Trace(_))) => {
                bad += 1;
                say(Some(format_args!("{}: {failure}", OneLine(path.display()))))?;
            }
            Err(failure) => return Err(failure),
        }
    }
    files.say_gaps()?;
    if bad == 0 { Ok(()) } else { Err(Failure::Unsound(bad, each.len())) }
}

/// Runs a command that reads a trace.
fn read(
    command: Command,
    trace: Trace,
    limits: ReadOptions,
    about: SourceFiles<'_>,
    out: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Info { options, .. } => {
            info::run(trace.into_nettrace(limits)?, limits, about, options, out)
        }
        Command::Dump { options, .. } => {
            let (source, original) = trace.into_nettrace(limits)?;
            let source = source.before_waiting(out.shown_before_waiting());
            let reach = dump::run(source, limits, &options, out)?;
            original.end_shown(reach)
        }
        Command::Headers { filter, .. } => {
            let (source, original) = trace.into_nettrace(limits)?;
            let source = source.before_waiting(out.shown_before_waiting());
            let reach = headers::run(source, limits, &filter, out)?;
            original.end_shown(reach)
        }
        Command::Tree { options, .. } => {
            let (source, original) = trace.into_nettrace(limits)?;
            tree::run(source, limits, &options, out)?;
            original.end_whole()
        }
        Command::Convert {
            out: path,
            to,
            force,
            views,
            #[cfg(feature = "parquet")]
            tables,
            filter,
            ..
        } => {
            let task = convert::Task {
                out: &path,
                to,
                force,
                views: &views,
                read_other: &|path, limits, read| {
                    excerpt::read_other(path, limits, Some(&filter.0), read)
                },
                #[cfg(feature = "parquet")]
                tables: &tables,
            };
            let (source, original) = trace.into_nettrace(limits)?;
            convert::run(source, limits, task, out)?;
            original.end_converted()
        }
        Command::Redact { to, options, .. } => {
            let (source, original) = trace.into_nettrace(limits)?;
            convert::redact(source, limits, &to, &options, out)?;
            original.end_converted()
        }
        Command::Report { options, .. } => {
            report::run(trace.into_nettrace(limits)?, limits, about, &options, out)
        }
        Command::Errors { options, .. } => {
            errors::run(trace.into_nettrace(limits)?, limits, about, &options, out)
        }
        Command::View { options, .. } => {
            view::run(trace.into_nettrace(limits)?, limits, about, &options, out)
        }
        _ => Ok(()),
    }
}

/// Runs a command that reads no trace.
fn run_live(args: Args, out: &mut Output) -> Result<(), Failure> {
    let limits = args.limits;
    match args.command {
        Command::Schema { options } => schema::run(&options, limits, out),
        Command::Diff { before, after, options } => {
            diff::run([&before, &after], limits, &options, out)
        }
        Command::Recover { file, to, options } => {
            recorder::recover(&file, limits, &to, &options, out)
        }
        #[cfg(unix)]
        Command::Ps => live::ps(out),
        #[cfg(unix)]
        Command::Collect { options } => live::collect(&options, limits, out),
        #[cfg(unix)]
        Command::Tree { options, .. } => live::open(&options.question(), limits, out),
        #[cfg(unix)]
        Command::Tail { options } => live::tail(&options, limits, out),
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
        _ => Ok(()),
    }
}
