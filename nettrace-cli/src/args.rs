//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use nettrace_reader::Options;

/// Shows and checks NetTrace traces (.nettrace, format versions 4, 5 and 6).
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
        2  wrong use, or the file cannot be opened or read"
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
    /// Print the completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
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
