//! The command line.

use std::{fmt, path::PathBuf};

use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use nettrace_format::Format;
use nettrace_reader::Options;

/// Shows, checks and converts NetTrace traces (.nettrace, format versions 4, 5 and 6).
#[derive(Debug, Parser)]
#[command(
    name = "nettrace",
    version,
    after_help = "FILE is a path, or - for standard input, which may be a pipe. Traces in Heph's format \
        (0.1.0) are shown and checked too, their events in the order of the file; headers are then: stream, \
        counter, substream, start, end (ns), description.\n\n\
        Exit codes:\n  \
        0  the trace was read to its end; verify: it keeps every promise\n  \
        1  the trace is damaged, ends early, or breaks a promise; what was readable was shown\n  \
        2  wrong use, or a file cannot be opened, read or written"
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
    /// What was traced, when, by whom, how many events there are and how many were lost
    Info {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Show all threads, not only the twenty with the most events and those with losses
        #[arg(long)]
        threads: bool,
    },
    /// Every event with its fields, in the order of time
    Dump {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// One JSON object a line for each event
        #[arg(long)]
        json: bool,
    },
    /// One line of tab-separated columns for each event: provider, id, version, level, keywords,
    /// opcode, thread, processor, milliseconds since the start, payload bytes, FNV-1a of the payload
    Headers {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Check every promise that the writer of a trace makes, and list those that are broken
    Verify {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// How many violations to list; all are counted
        #[arg(long, default_value_t = 100)]
        most: usize,
    },
    /// Write a trace again in another version of the format; lists what that cannot say
    ///
    /// What was read and what was left out is said on standard error. A damaged trace is converted
    /// as far as it can be read; the result is complete, and the exit code 1.
    Convert {
        /// The trace, or - for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Where the result goes, or - for standard output. A file gets its name when it is complete
        #[arg(value_hint = ValueHint::FilePath)]
        out: PathBuf,
        /// The format of the result
        #[arg(long, value_enum)]
        to: TargetFormat,
        /// Replace OUT if it exists
        #[arg(long)]
        force: bool,
    },
    /// Print the completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// What a trace can be converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetFormat {
    /// NetTrace version 6
    V6,
    /// NetTrace version 5, as .NET 5 to 10 write it
    V5,
    /// NetTrace version 4, as .NET Core 3 writes it
    V4,
    /// The format of Heph's trace system, version 0.1.0
    Heph,
}

impl TargetFormat {
    pub(crate) fn format(self) -> Format {
        match self {
            Self::V6 => Format::V6,
            Self::V5 => Format::V5,
            Self::V4 => Format::V4,
            Self::Heph => Format::Heph,
        }
    }
}

impl fmt::Display for TargetFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V6 => "NetTrace V6",
            Self::V5 => "NetTrace V5",
            Self::V4 => "NetTrace V4",
            Self::Heph => "Heph",
        })
    }
}

/// Bounds on memory, for traces that are not to be trusted.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Limits {
    /// How many MiB the events may take that wait to be sorted
    #[arg(long, value_name = "MIB", default_value_t = 1024, global = true)]
    sort_limit: usize,
    /// How many MiB threads, event types, stacks and labels may take
    #[arg(long, value_name = "MIB", default_value_t = 256, global = true)]
    definitions_limit: usize,
}

impl Limits {
    /// The bound on definitions, in bytes.
    pub(crate) fn definitions(self) -> usize {
        self.definitions_limit.saturating_mul(1 << 20)
    }

    pub(crate) fn options(self) -> Options {
        Options::default()
            .sort_limit(self.sort_limit.saturating_mul(1 << 20))
            .definitions_limit(self.definitions())
    }
}
