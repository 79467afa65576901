//! The command line.

use std::path::PathBuf;

use clap::{
    Parser, Subcommand, ValueHint,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use clap_complete::Shell;

#[cfg(feature = "parquet")]
use crate::convert::TableOptions;
#[cfg(unix)]
use crate::live::{CollectOptions, CountersOptions, ProcessChoice, TailOptions, TopOptions};
use crate::{
    convert::{RedactOptions, To, ViewOptions, destination::OutputFile},
    diff::DiffOptions,
    dump::DumpOptions,
    errors::ErrorsOptions,
    filter::{EventFilter, FilterOptions, FilterWithUntil},
    info::InfoOptions,
    read_options::ReadOptions,
    recorder::RecoverOptions,
    report::ReportOptions,
    schema::SchemaOptions,
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
        (0.1.0) are read too, and shown as the NetTrace traces that convert makes of them.\n\n\
        Where to begin:\n  \
        tree --slow 1 FILE   what takes long; 60 equal spans are one line\n  \
        report --text FILE   where time goes, by name: own, and busy on a processor\n  \
        errors FILE          what failed or warned, how often and when\n  \
        tree --open FILE     what has not ended: leaks, deadlocks, requests that hang\n\n\
        Exit codes:\n  \
        0  the trace was read to its end, or as far as --head wanted; verify: it keeps the rules \
        of the format\n  \
        1  the trace is damaged, ends early, or breaks a rule; what was readable was shown; \
        schema diff: a change is breaking\n  \
        2  wrong use, or a file cannot be opened, read or written\n  \
        3  convert: events or values are missing in the result that its format has a place for; \
        recover: the recorder file is damaged, and events are missing"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) limits: ReadOptions,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what was traced, when, and how many events there are and were lost
    Info {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        options: InfoOptions,
    },
    /// Show every event with its fields, in the order of time
    ///
    /// A line begins with the time of day (UTC), the time since the start of the trace, the level
    /// and the thread. A summary goes to standard error.
    Dump {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        options: DumpOptions,
    },
    /// Show spans as trees, with durations and the events inside, the slowest tree first
    ///
    /// A tree is as slow as the time from its first start to its last stop. The columns: duration,
    /// time in which no child was under way, outcome, span with its id, its fields, and what its
    /// end says. Below a span are its children and the events inside, in the order of time; an
    /// event has the time since the start of its tree. `>` precedes the duration of a span whose
    /// end is not in the trace: until the last event. Trees whose root is cut so, or has no start,
    /// come last and are not ranked; what has ended below such a root is a tree of its own. A dash
    /// stands for what the trace does not say. With filters, `*` marks what passes them; the tree
    /// around is shown, and the rest is folded. Activities of .NET are shown with their paths.
    Tree {
        #[command(flatten)]
        traces: TracesOrProcess,
        #[command(flatten)]
        options: TreeOptions,
    },
    /// Write a page of HTML: rates, span latencies, flame graphs, event types, threads, losses
    ///
    /// The page needs no other file and requests nothing. The trace is read once, and neither the
    /// memory nor the page grows with it. The report of a damaged trace says so, and the exit code
    /// is 1.
    Report {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        options: ReportOptions,
    },
    /// Show errors, warnings and spans that failed, grouped by event, message and route
    ///
    /// The columns: what it is with the message, in which # stands for numbers; level or `failed`;
    /// how many; the first and the last, since the start of the trace; how many over time; where:
    /// the outermost span with a dimension, such as a route, or the root; the trace of the first.
    Errors {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        options: ErrorsOptions,
    },
    /// Show what differs between two traces: which spans got slower, which events are new
    ///
    /// Each may be a folder. The columns, first of what was before: how many spans of the name,
    /// p50, p99, and their share of the time of all spans, each without its children; then by how
    /// much the mean has changed. The names with the most time gained or lost come first.
    Diff {
        /// The trace before, such as one of a service before it was deployed
        #[arg(value_hint = ValueHint::AnyPath)]
        before: PathBuf,
        /// The trace after
        #[arg(value_hint = ValueHint::AnyPath)]
        after: PathBuf,
        #[command(flatten)]
        options: DiffOptions,
    },
    /// Show a trace in the browser: as the page of report, or in Perfetto
    ///
    /// The page is a temporary file that only you can read; its path goes to standard output. A
    /// browser in a sandbox may not see it: use --serve then. The server answers requests of this
    /// machine alone.
    View {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        options: BrowserOptions,
    },
    /// Show one line of tab-separated columns for each event
    ///
    /// The columns: provider, id, version, level, keywords, opcode, thread (OS id), processor,
    /// milliseconds since the start, payload bytes, FNV-1a of the payload. A dash stands for an
    /// unknown value. A summary goes to standard error.
    Headers {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        filter: FilterOptions,
    },
    /// Check every promise that the writer of a trace makes, and list the broken ones
    ///
    /// Each is a rule of the format, or what the reference reader needs beyond it, or what this
    /// project promises. Only the first ones make the exit code 1, unless --strict is given.
    Verify {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        options: VerifyOptions,
    },
    /// Write several traces as one, in the order of time
    ///
    /// The result is of version 6. Standard error says where a file is missing between two of a
    /// recording, and how many events there are and were lost. A damaged trace is used as far as it
    /// can be read. The result is complete, and the exit code is 1.
    Merge {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        to: OutputFile,
        #[command(flatten)]
        filter: EventFilter,
    },
    /// Write the trace of a session whose process was killed, with what its recorder file has
    ///
    /// PATH is the file that the session got by `persistent`. The result has the session's trace
    /// files, and the events that the process had recorded but not yet written. The recorder file
    /// and the trace files stay as they are. Standard error says how many events there are, were
    /// recovered and are lost. If the recorder file is damaged, the result has the rest, and the
    /// exit code is 3. While the process runs, the command refuses; `nettrace info PATH` works.
    Recover {
        /// The recorder file
        #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        to: OutputFile,
        #[command(flatten)]
        options: RecoverOptions,
    },
    /// Convert a trace to another version of the format, to another format, or for a viewer
    ///
    /// Standard error lists what was read, and what the target cannot express. A damaged trace is
    /// converted as far as it can be read. The result is complete, and the exit code is 1. If
    /// events or values could not be converted that the target has a place for, the exit code is 3.
    Convert {
        #[command(flatten)]
        traces: Traces,
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
        #[command(flatten)]
        filter: FilterWithUntil,
    },
    /// Write a trace without the values of some fields, so that others may read it
    ///
    /// A text becomes ***, any other value zeros or an empty array. The result is of version 6 and
    /// has the same events, types, numbers and times. If nothing has one of the names, nothing is
    /// written, and the exit code is 2. An event that cannot be decoded is left out, and the exit
    /// code is 3.
    Redact {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        to: OutputFile,
        #[command(flatten)]
        options: RedactOptions,
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
    /// Show the events of a live process as they come, until Ctrl-C
    ///
    /// A line has the time of day (UTC), the level, and what the event says. `>` is the start of a
    /// span. `<` is its end, with its duration and its outcome; what is inside is indented. The
    /// process records only the providers and the level that are asked for. A summary goes to
    /// standard error.
    #[cfg(unix)]
    Tail {
        #[command(flatten)]
        options: TailOptions,
    },
    /// Change which events the session that NETTRACE_OUTPUT has started records
    ///
    /// The process is one of Rust that listens. The events that are chosen from now on replace the
    /// choice before.
    #[cfg(unix)]
    Select {
        #[command(flatten)]
        which: ProcessChoice,
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
    /// Show the event types of a trace or of a build, with their fields
    ///
    /// The text is that of nettrace.schema, which the test of schema_lock! writes and compares:
    /// sorted, the same for equal types.
    Schema {
        #[command(flatten)]
        options: SchemaOptions,
    },
    /// Print the completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

impl Command {
    /// What the command reads.
    pub(crate) fn traces(&self) -> Option<&[PathBuf]> {
        match self {
            Self::Tree { traces, .. } => Some(&*traces.files).filter(|files| !files.is_empty()),
            Self::Info { traces, .. }
            | Self::Dump { traces, .. }
            | Self::Report { traces, .. }
            | Self::Errors { traces, .. }
            | Self::View { traces, .. }
            | Self::Headers { traces, .. }
            | Self::Verify { traces, .. }
            | Self::Merge { traces, .. }
            | Self::Redact { traces, .. }
            | Self::Convert { traces, .. } => Some(&traces.files),
            Self::Recover { .. }
            | Self::Diff { .. }
            | Self::Schema { .. }
            | Self::Completions { .. } => None,
            #[cfg(unix)]
            Self::Ps
            | Self::Collect { .. }
            | Self::Tail { .. }
            | Self::Select { .. }
            | Self::Counters { .. }
            | Self::Top { .. } => None,
        }
    }

    /// The filters of a command that reads a trace, and what passes them with all of its trace.
    pub(crate) fn excerpt(&self) -> Option<EventFilter> {
        match self {
            Self::Report { options, .. } => Some(options.content.filter.clone()),
            Self::View { options, .. } => Some(options.content.filter.clone()),
            Self::Errors { options, .. } => Some(options.filter()),
            Self::Convert { filter, .. } => Some(filter.0.clone()),
            _ => None,
        }
    }

    /// The one file that the command reads.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        match (self, self.traces()) {
            (Self::Recover { file, .. }, _) | (_, Some([file])) => Some(file),
            _ => None,
        }
    }

    /// What the command writes to standard output while it reads the trace.
    pub(crate) fn meanwhile(&self) -> Meanwhile {
        let is_quiet = match self {
            Self::Convert { out, .. } => out.as_os_str() != "-",
            Self::Merge { to, .. } | Self::Redact { to, .. } => to.output.as_os_str() != "-",
            Self::Report { options, .. } => options.has_file(),
            Self::View { .. } => true,
            _ => false,
        };
        if is_quiet { Meanwhile::Nothing } else { Meanwhile::Output }
    }
}

/// What a command reads.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Traces {
    /// The trace, or - for standard input. Several traces, and folders with traces, are read as one
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
}

/// What `tree` reads: a trace, or a process that its options name.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TracesOrProcess {
    /// The trace, or - for standard input. Several traces, and folders with traces, are read as one
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    #[cfg_attr(unix, arg(required_unless_present_any = ["pid", "name"]))]
    #[cfg_attr(not(unix), arg(required = true))]
    pub(crate) files: Vec<PathBuf>,
}

/// Takes a target by its name.
fn targets() -> impl TypedValueParser<Value = To> {
    let names = To::names().map(|(name, about)| PossibleValue::new(name).help(about));
    let absent = To::ABSENT.iter().map(|name| PossibleValue::new(name).hide(true));
    PossibleValuesParser::new(names.chain(absent)).try_map(|name| {
        To::of_name(&name).ok_or("this build has no tables: build it with --features parquet")
    })
}
