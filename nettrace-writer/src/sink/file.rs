//! A trace in a file.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::complete::CompleteFile;
use super::failure::{Failure, during};
use super::padded::PaddedFile;
use super::platform::{Found, Identity, OpenDirectory, RegularFile};
use super::publish::publish;
use super::stream::{StreamSink, not_started};
use super::{Batch, Padding, Sink, WriteError};

/// How long the opening of a named pipe waits for its reader.
const DEFAULT_READER_TIMEOUT: Duration = Duration::from_secs(10);

/// How a [`FileSink`] opens its file.
///
/// ```
/// # use nettrace_writer::sink::FileOptions;
/// let sink = FileOptions::new("service.nettrace").overwrite(true).build();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct FileOptions {
    path: PathBuf,
    overwrite: bool,
    reader_timeout: Duration,
}

impl FileOptions {
    /// Options for a new file at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), overwrite: false, reader_timeout: DEFAULT_READER_TIMEOUT }
    }

    /// Allows a regular file of that name to be replaced: at once and as a whole, by the new trace
    /// without events. Whoever has the old file open keeps the old file. Allows a block device to
    /// be written, too. Off by default.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Sets how long the start waits for someone to read a named pipe: 10 s by default.
    pub fn reader_timeout(mut self, timeout: Duration) -> Self {
        self.reader_timeout = timeout;
        self
    }

    /// The sink. It opens nothing before the stream starts.
    #[must_use]
    pub fn build(self) -> FileSink {
        FileSink { options: self, state: State::Closed }
    }
}

/// Writes a trace to a path: a file that is complete at every instant, or a device or named pipe.
///
/// # Guarantees for a regular file
/// - From the first instant that the name exists until the end the file is a complete trace: it has
///   its header, whole blocks and an end of stream. A process that is killed, at whatever instant,
///   leaves a file that every reader opens; it lacks the batches that had not been written. (Not
///   promised: the same after a power failure. Nothing is synchronised to the disk.)
/// - What exists is never overwritten, unless [`FileOptions::overwrite`] says so. A symbolic link
///   is refused even then, a dangling one too; links among the directories on the way are followed.
/// - The file is created with mode 0600 and its descriptor is not passed on to programs that are
///   executed.
/// - Disk full, quota or file size limit reached ([`ErrorKind::StorageFull`], `QuotaExceeded`,
///   `FileTooLarge`): the file keeps the whole blocks of the batch that fit, and
///   [`WriteError::kept`] says exactly how many bytes that is. The file size limit (`RLIMIT_FSIZE`)
///   is looked up before each write and never touched, so the signal `SIGXFSZ`, which would end the
///   process, is not raised.
/// - After an error the sink stays failed: each later batch gives the first error's kind, and keeps
///   0.
///
/// In a format without an end of stream, padding stands behind the last block, at most up to the end
/// of the next memory page, until the session ends; a kill leaves it, and may leave as much of it as
/// the last batch has bytes. Without padding either ([`Sink::start`] with an empty end) batches are
/// written in order, and a kill in the middle of a write leaves part of the last one.
///
/// Someone who copies the file while it grows gets a valid trace, unless the copy reads one half of
/// the few bytes that are being switched before and the other half after the switch.
///
/// # Devices and named pipes
/// `/dev/null`, a terminal or a named pipe is a stream: bytes in order, the end of stream once,
/// when the session ends, and otherwise what [`StreamSink`] says. The start waits for a named
/// pipe's reader ([`FileOptions::reader_timeout`]). `/dev/stdout` is a symbolic link, so refused:
/// [`StreamSink::stdout`] serves there.
#[derive(Debug)]
pub struct FileSink {
    options: FileOptions,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed,
    Regular(CompleteFile<RegularFile>),
    Padded(PaddedFile<RegularFile>),
    Stream(StreamSink<File>),
    /// A regular file that is complete and takes no more.
    Failed(Failure),
}

/// What stands behind the last block, so that the file is complete.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Mark(&'static [u8]),
    Padding(Padding),
}

impl FileSink {
    /// A sink for a new file at `path`; [`FileOptions`] has the other ways. It opens nothing before
    /// the stream starts.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        FileOptions::new(path).build()
    }

    /// Where the trace goes.
    pub fn path(&self) -> &Path {
        &self.options.path
    }

    /// The length of the open regular file's trace with its end, in bytes.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.state {
            State::Regular(file) => Some(file.length()),
            State::Padded(file) => Some(file.length()),
            _ => None,
        }
    }

    /// What tells the open regular file from others that may get its name.
    pub(super) fn identity(&self) -> Option<Identity> {
        match &self.state {
            State::Regular(file) => file.calls().identity().ok(),
            State::Padded(file) => file.calls().identity().ok(),
            _ => None,
        }
    }

    fn begin(&mut self, header: &[u8], ending: Ending) -> io::Result<()> {
        self.finish()?;
        if let State::Failed(failure) = &self.state {
            return Err(failure.again());
        }
        let opened = self.open(header, ending);
        self.state = opened.map_err(|source| self.context("cannot create the trace", source))?;
        Ok(())
    }

    fn open(&self, header: &[u8], ending: Ending) -> io::Result<State> {
        let options = &self.options;
        let Some(name) = options.path.file_name() else {
            return Err(refusal(ErrorKind::InvalidInput, "the path does not end with a file name"));
        };
        let mut directory = OpenDirectory::open(options.path.parent().unwrap_or(Path::new("")))?;
        match directory.look(name)? {
            Found::Nothing => {}
            Found::Regular if options.overwrite => {}
            Found::Stream => return self.open_stream(&directory, header, ending),
            Found::BlockDevice if options.overwrite => {
                return self.open_stream(&directory, header, ending);
            }
            Found::Regular | Found::BlockDevice => {
                let text = "it exists; choose another name, or allow it with `overwrite(true)`";
                return Err(refusal(ErrorKind::AlreadyExists, text));
            }
            Found::Link => {
                let text = "it is a symbolic link, which a trace never follows; name its target";
                return Err(refusal(ErrorKind::AlreadyExists, text));
            }
            Found::Directory => {
                return Err(refusal(
                    ErrorKind::IsADirectory,
                    "it is a directory; name a file in it",
                ));
            }
            Found::Other => {
                let text =
                    "it is no file, device or pipe; connect to a socket and use `StreamSink`";
                return Err(refusal(ErrorKind::Unsupported, text));
            }
        }
        let overwrite = options.overwrite;
        match ending {
            Ending::Mark(end_of_stream) => {
                let begin = |file| CompleteFile::begin(file, header, end_of_stream);
                publish(&mut directory, name, overwrite, begin, CompleteFile::calls)
                    .map(State::Regular)
            }
            Ending::Padding(padding) => {
                let begin = |file| PaddedFile::begin(file, header, padding);
                publish(&mut directory, name, overwrite, begin, PaddedFile::calls)
                    .map(State::Padded)
            }
        }
    }

    fn open_stream(
        &self,
        directory: &OpenDirectory,
        header: &[u8],
        ending: Ending,
    ) -> io::Result<State> {
        let name = self.options.path.file_name().unwrap_or_default();
        let file = directory.open_stream(name, self.options.reader_timeout)?;
        let mut stream = StreamSink::new(file);
        match ending {
            Ending::Mark(end_of_stream) => stream.start(header, end_of_stream)?,
            Ending::Padding(padding) => stream.start_padded(header, padding)?,
        }
        Ok(State::Stream(stream))
    }

    fn context(&self, action: &str, source: io::Error) -> io::Error {
        during(format!("{action} {}", self.options.path.display()), source)
    }
}

impl Sink for FileSink {
    fn start(&mut self, header: &[u8], end_of_stream: &'static [u8]) -> io::Result<()> {
        self.begin(header, Ending::Mark(end_of_stream))
    }

    fn start_padded(&mut self, header: &[u8], padding: Padding) -> io::Result<()> {
        self.begin(header, Ending::Padding(padding))
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        let result = match &mut self.state {
            State::Regular(file) => file.append(batch),
            State::Padded(file) => file.append(batch),
            State::Stream(stream) => stream.write(batch),
            State::Closed => Err(WriteError { source: not_started(), kept: 0 }),
            State::Failed(failure) => {
                return Err(WriteError { source: failure.again(), kept: 0 });
            }
        };
        result.map_err(|WriteError { source, kept }| {
            // A batch that was refused for its form has touched nothing.
            let misuse =
                source.kind() == ErrorKind::InvalidInput && source.raw_os_error().is_none();
            let source = self.context("cannot write the trace", source);
            if matches!(self.state, State::Regular(_) | State::Padded(_)) && !misuse {
                self.state = State::Failed(Failure::of(&source));
            }
            WriteError { source, kept }
        })
    }

    /// Ends the stream and closes the file. A regular file has nothing to be written any more, so
    /// this succeeds, also after a failed write, which has reported its error itself.
    fn finish(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Closed | State::Failed(_) => return Ok(()),
            State::Regular(file) => file.finish(),
            State::Padded(file) => file.finish(),
            State::Stream(stream) => {
                let finished = stream.finish();
                finished.map_err(|source| self.context("cannot end the trace", source))?;
            }
        }
        self.state = State::Closed;
        Ok(())
    }
}

fn refusal(kind: ErrorKind, text: &str) -> io::Error {
    io::Error::new(kind, text)
}
