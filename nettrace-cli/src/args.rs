//! The command line.

use std::path::{Path, PathBuf};

use clap::{
    Parser, Subcommand, ValueHint,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use clap_complete::Shell;
use nettrace_reader::{Dialect, Options};

#[cfg(feature = "parquet")]
use crate::convert::TableOptions;
#[cfg(unix)]
use crate::live::{CollectOptions, CountersOptions, TopOptions, Which};
use crate::{
    convert::{To, ViewOptions},
    dump::DumpOptions,
    filter::FilterOptions,
    info::InfoOptions,
    report::ReportOptions,
    source::Meanwhile,
    tree::TreeOptions,
    verify::VerifyOptions,
    view::BrowserOptions,
};

/// Shows, checks, converts and records traces: NetTrace (.nettrace, versions 4, 5 and 6) and Heph
#[derive(Debug, Parser)]
#[command(
    name = "nettrace",
    version,
    after_help = "FILE is a path, or - for standard input, which may be a pipe. Heph traces \
        (0.1.0) are read too. dump and headers show their events in the order of the file; the \
        columns of headers are then: stream, counter, substream, start, end (ns), description.\n\n\
        Exit codes:\n  \
        0  the trace was read to its end, or as far as --head wanted; verify: it keeps the rules \
        of the format\n  \
        1  the trace is damaged, ends early, or breaks a rule; what was readable was shown\n  \
        2  wrong use, or a file cannot be opened, read or written\n  \
        3  convert: events or values are missing in the result that its format has a place for"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) limits: Limits,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what was traced, when, and how many events there are and were lost
    Info {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        options: InfoOptions,
    },
    /// Show every event with its fields, in the order of time
    ///
    /// A line begins with the time of day (UTC), the time since the start of the trace, the level
    /// and the thread. A summary goes to standard error.
    Dump {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        options: DumpOptions,
    },
    /// Show spans as trees, with durations and the events inside, the slowest root first
    ///
    /// The columns: duration, time in which no child was under way, outcome, span with its id, its
    /// fields, and what its end says. Below a span are its children and the events inside, in the
    /// order of time; an event has the time since the start of its root. `>` precedes the duration
    /// of a span whose end is not in the trace: until the last event. A dash stands for what the
    /// trace does not say. Activities of .NET are shown with their paths.
    Tree {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        options: TreeOptions,
    },
    /// Write a page of HTML: rates, span latencies, flame graphs, event types, threads, losses
    ///
    /// The page needs no other file and requests nothing. The trace is read once, and neither the
    /// memory nor the page grows with it. The report of a damaged trace says so, and the exit code
    /// is 1.
    Report {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        options: ReportOptions,
    },
    /// Show a trace in the browser: as the page of report, or in Perfetto
    ///
    /// The page is a temporary file that only you can read; its path goes to standard output. A
    /// browser in a sandbox may not see it: use --serve then. The server answers requests of this
    /// machine alone.
    View {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        options: BrowserOptions,
    },
    /// Show one line of tab-separated columns for each event
    ///
    /// The columns: provider, id, version, level, keywords, opcode, thread (OS id), processor,
    /// milliseconds since the start, payload bytes, FNV-1a of the payload. A dash stands for an
    /// unknown value. A summary goes to standard error.
    Headers {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        filter: FilterOptions,
    },
    /// Check every promise that the writer of a trace makes, and list the broken ones
    ///
    /// Each is a rule of the format, or what the reference reader needs beyond it, or what this
    /// project promises. Only the first ones make the exit code 1, unless --strict is given.
    Verify {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        options: VerifyOptions,
    },
    /// Convert a trace to another version of the format, to another format, or for a viewer
    ///
    /// Standard error lists what was read, and what the target cannot express. A damaged trace is
    /// converted as far as it can be read. The result is complete, and the exit code is 1. If
    /// events or values could not be converted that the target has a place for, the exit code is 3.
    Convert {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Where to write the result, or - for standard output. A file gets its name when it is
        /// complete
        #[arg(value_hint = ValueHint::FilePath)]
        out: PathBuf,
        /// The format of the result, unless the ending of OUT says it: .pftrace, .chrome.json,
        /// .speedscope.json, .firefox.json, .pb.gz, .svg, .folded, .csv, .jsonl, .parquet, .arrow
        #[arg(long, value_parser = targets())]
        to: Option<To>,
        /// Replace OUT if it exists
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        views: ViewOptions,
        #[cfg(feature = "parquet")]
        #[command(flatten)]
        tables: TableOptions,
    },
    /// List the live processes that can be traced: those of Rust that listen, and those of .NET
    ///
    /// The columns: id, program, version of the runtime, command line.
    #[cfg(unix)]
    Ps,
    /// Record a trace of a live process, or of a program that is started, until Ctrl-C
    ///
    /// `nettrace collect -- COMMAND` starts a program, which waits in `listen` until the trace has
    /// begun. The exit code is then the program's. Standard error says how many events the file
    /// has, and how many were lost.
    #[cfg(unix)]
    Collect {
        #[command(flatten)]
        options: CollectOptions,
    },
    /// Change which events the session that NETTRACE_OUTPUT has started records
    ///
    /// The process is one of Rust that listens. The events that are chosen from now on replace the
    /// choice before.
    #[cfg(unix)]
    Select {
        #[command(flatten)]
        which: Which,
        /// Which events, as in NETTRACE_PROVIDERS: `Contoso-*=info,Fabrikam-Mail`
        filters: String,
    },
    /// Show the counters and meters of a live process, until Ctrl-C
    ///
    /// A table on a terminal; otherwise one line for each value, as it comes.
    #[cfg(unix)]
    Counters {
        #[command(flatten)]
        options: CountersOptions,
    },
    /// Show how many events a second of each type a live process has, until Ctrl-C
    ///
    /// A table on a terminal; otherwise the same table for each interval, one after the other.
    /// Bytes are those of payloads.
    #[cfg(unix)]
    Top {
        #[command(flatten)]
        options: TopOptions,
    },
    /// Print the completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

impl Command {
    /// The trace that the command reads.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Info { file, .. }
            | Self::Dump { file, .. }
            | Self::Tree { file, .. }
            | Self::Report { file, .. }
            | Self::View { file, .. }
            | Self::Headers { file, .. }
            | Self::Verify { file, .. }
            | Self::Convert { file, .. } => Some(file),
            Self::Completions { .. } => None,
            #[cfg(unix)]
            Self::Ps
            | Self::Collect { .. }
            | Self::Select { .. }
            | Self::Counters { .. }
            | Self::Top { .. } => None,
        }
    }

    /// What the command writes to standard output while it reads the trace.
    pub(crate) fn meanwhile(&self) -> Meanwhile {
        let is_quiet = match self {
            Self::Convert { out, .. } => out.as_os_str() != "-",
            Self::Report { options, .. } => options.has_file(),
            Self::View { .. } => true,
            _ => false,
        };
        if is_quiet { Meanwhile::Nothing } else { Meanwhile::Output }
    }
}

/// Takes a target by its name.
fn targets() -> impl TypedValueParser<Value = To> {
    let names = To::names().map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).try_map(|name| To::of_name(&name).ok_or("no target"))
}

/// Limits on memory, for traces from untrusted sources, and the choice of the dialect.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Limits {
    /// Limit on the memory for events that wait to be sorted, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, global = true)]
    sort_limit: usize,
    /// Limit on the memory for threads, event types, stacks and labels, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, global = true)]
    definitions_limit: usize,
    /// Count losses as the reference reader (TraceEvent) does, where it differs from the
    /// specification; verify: also report what that reader refuses or misreads
    #[arg(long, global = true)]
    reference: bool,
}

impl Limits {
    /// The limit on definitions, in bytes.
    pub(crate) fn definitions(self) -> usize {
        self.definitions_limit.saturating_mul(1 << 20)
    }

    pub(crate) fn options(self) -> Options {
        let dialect = if self.reference { Dialect::Reference } else { Dialect::default() };
        Options::default()
            .dialect(dialect)
            .sort_limit(self.sort_limit.saturating_mul(1 << 20))
            .definitions_limit(self.definitions())
    }
}
