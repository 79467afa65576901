//! The events of `dirscan`.

use std::{path::Path, time::Duration};

use nettrace_writer::TraceEvent;

/// The provider of all events.
pub(crate) const PROVIDER: &str = "Example-DirScan";

/// Events of the whole scan, and events of each file and directory.
#[derive(TraceEvent)]
#[trace_event(provider = PROVIDER, name = "")]
pub(crate) enum Scan<'a> {
    /// A scan begins.
    #[trace_event(name = "ScanStart", id = 1, opcode = Start)]
    Start { roots: &'a [&'a Path], workers: u32 },
    /// A scan has ended.
    #[trace_event(id = 2, name = "ScanStop", opcode = Stop)]
    #[trace_event(message = "{files} files, {directories} directories, {bytes} bytes")]
    Stop {
        files: u64,
        directories: u64,
        errors: u64,
        bytes: u64,
        #[trace_event(rename = "duration_ns")]
        duration: Duration,
    },
    /// A file was read to its end.
    #[trace_event(id = 3, message = "{path}: {bytes} bytes")]
    File {
        path: &'a Path,
        bytes: u64,
        /// In hexadecimal digits.
        sha256: &'a str,
        /// How long reading and hashing took.
        #[trace_event(rename = "duration_ns")]
        duration: Duration,
    },
    /// The entries of a directory were listed.
    #[trace_event(id = 4, level = Verbose, message = "{path}: {entries} entries")]
    Directory {
        path: &'a Path,
        entries: u64,
        /// The depth below the root of the scan, which has depth 0.
        depth: u32,
        #[trace_event(rename = "duration_ns")]
        duration: Duration,
    },
    /// Something could not be read. The scan goes on.
    #[trace_event(id = 5, level = Error, message = "{path}: {error}")]
    Unreadable {
        path: &'a Path,
        error: &'a str,
        /// The operating system's error number.
        #[trace_event(format = errno)]
        code: Option<i32>,
    },
}
