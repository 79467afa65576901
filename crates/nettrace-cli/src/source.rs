//! The input of a command: a file or standard input, with progress on the terminal.

use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    path::Path,
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use nettrace_reader::ReadAhead;

use crate::{failure::Failure, standard_error};

/// The bytes of a trace.
pub(crate) type Bytes = Box<dyn Read + Send>;

/// The bytes of a NetTrace trace. If it is long, a thread reads the next piece while one is
/// decoded.
pub(crate) type Source = ReadAhead;

/// The standard output of a command while it reads a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meanwhile {
    /// Maybe something. On a terminal, it would mix with the progress.
    Output,
    Nothing,
}

/// Opens `file`, or standard input for `-`. Shows progress on standard error after the first
/// second, if that is a terminal and nothing else is written to one `meanwhile`.
pub(crate) fn open(file: &Path, meanwhile: Meanwhile) -> Result<Bytes, Failure> {
    let (source, size): (Bytes, _) = if file.as_os_str() == "-" {
        (Box::new(io::stdin()), None)
    } else {
        let fail = |error| Failure::Open(file.display().to_string(), error);
        let file = File::open(file).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        (Box::new(file), metadata.is_file().then_some(metadata.len()))
    };
    Ok(watched(source, size, meanwhile))
}

/// Shows how much of `source` was read, as [`open`] says.
pub(crate) fn watched(source: Bytes, size: Option<u64>, meanwhile: Meanwhile) -> Bytes {
    let is_mixed = meanwhile == Meanwhile::Output && io::stdout().is_terminal();
    if is_mixed || !io::stderr().is_terminal() {
        return source;
    }
    let bar = standard_error::progress_bar(size);
    Box::new(ProgressReader { source, bar, seen: 0, started: Instant::now() })
}

/// The time before progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);

struct ProgressReader {
    source: Bytes,
    bar: &'static ProgressBar,
    seen: u64,
    started: Instant,
}

impl Read for ProgressReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.seen += count as u64;
        if self.started.elapsed() > PATIENCE && !self.bar.is_finished() {
            self.bar.set_position(self.seen);
        }
        Ok(count)
    }
}
