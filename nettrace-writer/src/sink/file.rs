//! A trace in a file.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{self, Path, PathBuf};
use std::time::Duration;

use super::complete::{CompleteFile, FileCalls};
use super::failure::during;
use super::own_file::OwnFile;
use super::padding::PaddedFile;
use super::platform::{Identity, OpenDirectory, PathKind, RegularFile};
use super::publish::{Existing, UnnamedFile, publish};
use super::stream::{StreamSink, not_started};
use super::{Batch, Sink, StreamEnd, WriteError};

/// The default time that the start waits for a reader of a named pipe.
const DEFAULT_READER_TIMEOUT: Duration = Duration::from_secs(10);

/// The options of a [`FileSink`]'s file.
///
/// ```
/// # use nettrace_writer::sink::FileOptions;
/// let sink = FileOptions::new("service.nettrace").overwrite(true).build();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct FileOptions {
    path: PathBuf,
    existing: Existing,
    kinds: AllowedKinds,
    naming: Naming,
    reader_timeout: Duration,
}

/// The kinds of files that the name may already stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllowedKinds {
    /// Also a device or a named pipe, which gets the trace.
    FilesAndStreams,
    /// A regular file. Anybody can put a pipe where a name leads that is made here, and read there.
    Files,
}

/// When a regular file gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// At the start.
    AtOnce,
    /// In the end, and only if nothing is missing.
    WhenWhole,
}

impl FileOptions {
    /// Options for a new file at `path`, which is taken as it is: it has no
    /// [placeholders](crate::SessionBuilder::file).
    ///
    /// ```
    /// use nettrace_writer::sink::FileOptions;
    ///
    /// let sink = FileOptions::new("{not a placeholder}.nettrace").build();
    /// assert!(sink.path().ends_with("{not a placeholder}.nettrace"));
    /// ```
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            existing: Existing::default(),
            kinds: AllowedKinds::FilesAndStreams,
            naming: Naming::AtOnce,
            reader_timeout: DEFAULT_READER_TIMEOUT,
        }
    }

    /// Allows a regular file of that name to be replaced. The new trace, without events, replaces
    /// it at once and as a whole. A process that has the old file open keeps the old file. It also
    /// allows writing to a block device. Off by default.
    ///
    /// A file that a session of any process is writing is not replaced: the start fails with
    /// [`ErrorKind::ResourceBusy`], and names the process. The session finds out by a lock of the
    /// system, which does not hinder readers; on Windows, by the file being open for writing. Some
    /// network file systems, and Unixes other than Linux and Apple's, have no such locks. There the
    /// file is replaced. A file that may not be opened is not replaced either, because its lock
    /// cannot be read.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::FileOptions};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("service.nettrace");
    /// std::fs::write(&path, "the trace of the run before")?;
    /// let sink = FileOptions::new(&path).overwrite(true).build();
    /// let session = Session::builder().sink(sink).start()?;
    /// # session.finish()?;
    /// # assert!(std::fs::read(&path)?.starts_with(b"Nettrace"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.existing = if overwrite { Existing::IsReplaced } else { Existing::Stays };
        self
    }

    /// As [`overwrite`](Self::overwrite), but keeps the file that is replaced: `service.nettrace`
    /// has the name `service.previous.nettrace` from then on. So the trace of a run that has
    /// crashed is there after the restart. The file of that name is replaced.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::FileOptions};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// let path = directory.join("service.nettrace");
    /// std::fs::write(&path, "the trace of the run before")?;
    /// let sink = FileOptions::new(&path).keep_previous().build();
    /// let session = Session::builder().sink(sink).start()?;
    /// let previous = std::fs::read(directory.join("service.previous.nettrace"))?;
    /// assert_eq!(previous, b"the trace of the run before");
    /// # session.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep_previous(self) -> Self {
        self.existing(Existing::IsKept)
    }

    pub(crate) fn existing(mut self, existing: Existing) -> Self {
        self.existing = existing;
        self
    }

    /// Takes a pipe or device of that name for a file that exists.
    pub(crate) fn files_only(mut self) -> Self {
        self.kinds = AllowedKinds::Files;
        self
    }

    /// Sets how long the start waits for a reader of a named pipe. The default is 10 s.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::sink::FileOptions;
    /// let sink = FileOptions::new("pipe").reader_timeout(Duration::from_secs(60)).build();
    /// ```
    pub fn reader_timeout(mut self, timeout: Duration) -> Self {
        self.reader_timeout = timeout;
        self
    }

    /// Makes the sink. It opens nothing before the stream starts. A relative path is resolved now,
    /// against the current directory.
    ///
    /// ```
    /// use nettrace_writer::sink::FileOptions;
    ///
    /// let sink = FileOptions::new("service.nettrace").build();
    /// assert!(sink.path().is_absolute());
    /// ```
    #[must_use]
    pub fn build(mut self) -> FileSink {
        // If the current directory cannot be found, the start reports what is wrong with the path.
        if let Ok(absolute) = path::absolute(&self.path) {
            self.path = absolute;
        }
        let (state, unnamed, ended) = (FileSinkState::Closed, None, None);
        FileSink { options: self, state, first: 0, spoilt: None, unnamed, ended }
    }
}

/// Writes a trace to a file that is complete at every instant, or to a device or named pipe.
///
/// # Guarantees for a regular file
/// - From the first instant of its name to the end the file is a complete trace: header, whole
///   blocks and an end of stream. If the process is killed, at whatever instant, every reader opens
///   the file; it lacks only the batches that had not been written. (That is not promised for a
///   power failure: nothing is synchronised to the disk.)
/// - An existing file is never overwritten, unless [`FileOptions::overwrite`] allows it. A symbolic
///   link is refused even then, and so is a dangling one. Links among the directories of the path
///   are followed.
/// - The file has mode 0600, and its descriptor is not passed on to programs that are executed.
/// - If the disk is full, or a quota or the file size limit is reached ([`ErrorKind::StorageFull`],
///   `QuotaExceeded`, `FileTooLarge`), the file keeps the whole blocks of the batch that fit.
///   [`WriteError::kept`] says how many bytes that is. The file size limit (`RLIMIT_FSIZE`) is read
///   before each write and never reached, so the signal `SIGXFSZ`, which would end the process, is
///   not raised.
/// - After an error the file takes further batches as soon as there is room again.
/// - If somebody else truncates the file (as `copytruncate` of logrotate does), the next write
///   notices and fails. After that the file begins anew, with a header and all definitions.
///   [`RotatingFiles`](super::RotatingFiles) bounds the disk's space without a loss. The same if
///   somebody deletes the file or puts another one in its place; the new file needs a free name
///   then, as at the start. A file that is only moved goes on under its new name.
///
/// In a format without an end of stream, padding follows the last block until the session ends. It
/// reaches the end of the next memory page at most. A kill leaves that padding, and may leave as
/// much more as the last batch has bytes. If the format has no padding either, batches are written
/// in order, and a kill in the middle of a write leaves a part of the last one.
///
/// A copy that is made while the file grows is a valid trace, unless the copying reads some of the
/// few switched bytes before the switch and the others after it.
///
/// A [dump](crate::Session::dump) is different, because it is worth something only as a whole: the
/// file gets its name when it has all of it. A dump that fails leaves no file.
///
/// # Devices and named pipes
/// `/dev/null`, a terminal or a named pipe is a stream: bytes in order, and the end of stream once,
/// when the session ends. What [`StreamSink`] says holds for it. The start waits for a reader of a
/// named pipe ([`FileOptions::reader_timeout`]). A named pipe must belong to the user of the
/// process, because in a folder for all anybody can make one and read there. `/dev/stdout` is a
/// symbolic link and therefore refused: use [`StreamSink::stdout`].
///
/// # Examples
///
/// ```
/// use nettrace_writer::{Session, sink::FileSink};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("service.nettrace");
/// let session = Session::builder().sink(FileSink::new(&path)).start()?;
/// // The file is a complete trace from here on, whatever becomes of the process.
/// let bytes = std::fs::read(&path)?;
/// assert!(bytes.starts_with(b"Nettrace") && bytes.ends_with(&[0; 4]));
/// # session.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileSink {
    options: FileOptions,
    state: FileSinkState,
    /// The first byte of the header.
    first: u8,
    /// The damage that another process has done to the open regular file.
    spoilt: Option<DamageCause>,
    /// The open regular file has no name yet.
    unnamed: Option<UnnamedFile<OpenDirectory>>,
    /// The regular file that was ended last.
    ended: Option<(OwnFile, RegularFile)>,
}

/// The reason why a stream in a regular file ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DamageCause {
    Truncated,
    /// It has no name any more: it was deleted, or replaced.
    Deleted,
}

#[derive(Debug)]
enum FileSinkState {
    Closed,
    Regular(CompleteFile<RegularFile>),
    Padded(PaddedFile<RegularFile>),
    Stream(StreamSink<File>),
}

impl FileSink {
    /// A sink for a new file at `path`; [`FileOptions`] has further settings. It opens nothing
    /// before the stream starts. The path is taken as it is: it has no
    /// [placeholders](crate::SessionBuilder::file).
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::FileSink};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// let path = directory.join("service.nettrace");
    /// let session = Session::builder().sink(FileSink::new(&path)).start()?;
    /// session.finish()?;
    /// assert!(nettrace_reader::verify(std::fs::File::open(&path)?)?.is_sound());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        FileOptions::new(path).build()
    }

    /// The absolute path that the trace is written to.
    ///
    /// ```
    /// use nettrace_writer::sink::FileSink;
    ///
    /// let sink = FileSink::new("service.nettrace");
    /// println!("the trace goes to {}", sink.path().display());
    /// ```
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.options.path
    }

    /// The length of the open regular file's trace with its end, in bytes.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.state {
            FileSinkState::Regular(file) => Some(file.length()),
            FileSinkState::Padded(file) => Some(file.length()),
            _ => None,
        }
    }

    /// The number of bytes that may be added without making the open regular file longer than
    /// `limit`.
    pub(super) fn room(&self, limit: u64) -> u64 {
        match &self.state {
            FileSinkState::Regular(file) => file.room(limit),
            FileSinkState::Padded(file) => file.room(limit),
            _ => u64::MAX,
        }
    }

    /// The largest length of the open regular file after `bytes` more.
    pub(super) fn length_with(&self, bytes: u64) -> u64 {
        match &self.state {
            FileSinkState::Regular(file) => file.length() + bytes,
            FileSinkState::Padded(file) => file.length_with(bytes),
            _ => 0,
        }
    }

    /// The identity of the open regular file, as opposed to others that may get its name later.
    pub(super) fn identity(&self) -> Option<Identity> {
        match &self.state {
            FileSinkState::Regular(file) => file.calls().identity().ok(),
            FileSinkState::Padded(file) => file.calls().identity().ok(),
            _ => None,
        }
    }

    /// Looks what somebody else has done to the open regular file.
    fn look(&mut self) {
        fn spoilt(
            file: &RegularFile,
            first: u8,
            length: u64,
            has_name: bool,
        ) -> Option<DamageCause> {
            if has_name && !file.has_name() {
                return Some(DamageCause::Deleted);
            }
            (!file.is_whole(first, length)).then_some(DamageCause::Truncated)
        }
        let (first, has_name) = (self.first, self.unnamed.is_none());
        let found = match &self.state {
            FileSinkState::Regular(file) => spoilt(file.calls(), first, file.length(), has_name),
            FileSinkState::Padded(file) => spoilt(file.calls(), first, file.length(), has_name),
            FileSinkState::Closed | FileSinkState::Stream(_) => None,
        };
        self.spoilt = self.spoilt.or(found);
    }

    /// Says which closed files are those of this process, in ascending order.
    pub(super) fn keep_numbers(&self, numbers: impl Iterator<Item = u64>) {
        match &self.state {
            FileSinkState::Regular(file) => file.calls().keep_numbers(numbers),
            FileSinkState::Padded(file) => file.calls().keep_numbers(numbers),
            FileSinkState::Closed | FileSinkState::Stream(_) => {}
        }
    }

    /// [`finish`](Sink::finish). Also returns the length of the regular file, which may have become
    /// shorter.
    pub(super) fn end(&mut self) -> io::Result<Option<u64>> {
        self.look();
        let unnamed = self.unnamed.take();
        if let Some(spoilt) = self.spoilt.take() {
            // To cut it at the old end would fill it with zeros.
            self.state = FileSinkState::Closed;
            return match unnamed {
                None => Ok(Some(0)),
                Some(_) => Err(self.context("cannot end the trace", spoilt.error())),
            };
        }
        let identity = self.identity();
        let length = match &mut self.state {
            FileSinkState::Closed => return Ok(None),
            FileSinkState::Regular(file) => {
                file.finish();
                Some(file.length())
            }
            FileSinkState::Padded(file) => {
                file.finish();
                Some(file.length())
            }
            FileSinkState::Stream(stream) => {
                let finished = stream.finish();
                finished.map_err(|source| self.context("cannot end the trace", source))?;
                None
            }
        };
        let file = match std::mem::replace(&mut self.state, FileSinkState::Closed) {
            FileSinkState::Regular(file) => Some(file.into_calls()),
            FileSinkState::Padded(file) => Some(file.into_calls()),
            FileSinkState::Closed | FileSinkState::Stream(_) => None,
        };
        if let (Some(unnamed), Some(file)) = (unnamed, &file) {
            let published = unnamed.publish(file);
            published.map_err(|source| self.context("cannot create the trace", source))?;
        }
        self.ended = file.map(|file| (OwnFile::new(self.path(), identity), file));
        Ok(length)
    }

    /// The regular file that was ended last.
    pub(crate) fn ended(&mut self) -> Option<OwnFile> {
        self.ended.take().map(|(own, _)| own)
    }

    /// The same, and still open.
    pub(super) fn ended_file(&mut self) -> Option<RegularFile> {
        self.ended.take().map(|(_, file)| file)
    }

    fn open(&mut self, header: &[u8], end: StreamEnd) -> io::Result<FileSinkState> {
        let options = &self.options;
        let name = options.path.file_name().filter(|_| !ends_with_separator(&options.path));
        let Some(name) = name else {
            return Err(refusal(ErrorKind::InvalidInput, "the path does not end with a file name"));
        };
        let mut directory = OpenDirectory::open(options.path.parent().unwrap_or(Path::new("")))
            .map_err(|source| during("cannot open its directory", source))?;
        let overwrite = options.existing != Existing::Stays;
        match directory.look(name)? {
            PathKind::Nothing => {}
            PathKind::Regular if overwrite => {}
            PathKind::Stream | PathKind::BlockDevice if options.kinds == AllowedKinds::Files => {
                return Err(refusal(ErrorKind::AlreadyExists, "it exists, and is no file"));
            }
            PathKind::Stream => return self.open_stream(&directory, header, end),
            PathKind::BlockDevice if overwrite => {
                return self.open_stream(&directory, header, end);
            }
            PathKind::Regular | PathKind::BlockDevice => {
                let text = "it exists; choose another name, or allow it with `overwrite(true)` or \
                            `keep_previous()`";
                return Err(refusal(ErrorKind::AlreadyExists, text));
            }
            PathKind::Link => {
                let text = "it is a symbolic link, which a trace never follows; name its target";
                return Err(refusal(ErrorKind::AlreadyExists, text));
            }
            PathKind::Directory => {
                return Err(refusal(
                    ErrorKind::IsADirectory,
                    "it is a directory; name a file in it",
                ));
            }
            PathKind::Other => {
                let text =
                    "it is no file, device or pipe; connect to a socket and use `StreamSink`";
                return Err(refusal(ErrorKind::Unsupported, text));
            }
        }
        let existing = options.existing;
        let marked = |file| CompleteFile::begin(file, header, end.bytes());
        let padded = |file, padding| PaddedFile::begin(file, header, padding);
        match (options.naming, end.padding()) {
            (Naming::AtOnce, None) => {
                let calls = CompleteFile::calls;
                publish(&mut directory, name, existing, marked, calls).map(FileSinkState::Regular)
            }
            (Naming::AtOnce, Some(padding)) => {
                let (begin, calls) = (|file| padded(file, padding), PaddedFile::calls);
                publish(&mut directory, name, existing, begin, calls).map(FileSinkState::Padded)
            }
            (Naming::WhenWhole, padding) => {
                let begin = |file| match padding {
                    None => marked(file).map(FileSinkState::Regular),
                    Some(padding) => padded(file, padding).map(FileSinkState::Padded),
                };
                let (unnamed, state) = UnnamedFile::begin(directory, name, existing, begin)?;
                self.unnamed = Some(unnamed);
                Ok(state)
            }
        }
    }

    fn open_stream(
        &self,
        directory: &OpenDirectory,
        header: &[u8],
        end: StreamEnd,
    ) -> io::Result<FileSinkState> {
        let name = self.options.path.file_name().unwrap_or_default();
        let file = directory.open_stream(name, self.options.reader_timeout)?;
        let mut stream = StreamSink::new(file);
        stream.start(header, end)?;
        Ok(FileSinkState::Stream(stream))
    }

    fn context(&self, action: &str, source: io::Error) -> io::Error {
        let path = &self.options.path;
        let path: &dyn fmt::Display =
            if path.as_os_str().is_empty() { &"with an empty path" } else { &path.display() };
        during(format!("{action} {path}"), source)
    }
}

impl Sink for FileSink {
    fn file(&self) -> Option<&Path> {
        let is_regular = matches!(self.state, FileSinkState::Regular(_) | FileSinkState::Padded(_));
        is_regular.then_some(&*self.options.path)
    }

    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        match self.spoilt.filter(|_| self.unnamed.is_none()) {
            Some(DamageCause::Truncated) => {
                let begun = match &mut self.state {
                    FileSinkState::Regular(file) => file.begin_anew(header),
                    FileSinkState::Padded(file) => file.begin_anew(header),
                    FileSinkState::Closed | FileSinkState::Stream(_) => Ok(()),
                };
                begun.map_err(|source| self.context("cannot begin the trace anew", source))?;
                self.spoilt = None;
                return Ok(());
            }
            // Another file gets the name.
            Some(DamageCause::Deleted) => (self.state, self.spoilt) = (FileSinkState::Closed, None),
            None => {}
        }
        self.finish()?;
        let opened = self.open(header, end);
        self.state = opened.map_err(|source| self.context("cannot create the trace", source))?;
        self.first = header.first().copied().unwrap_or_default();
        Ok(())
    }

    /// A file that was truncated or deleted begins anew: a stream cannot go on without its first
    /// part.
    fn wants_restart(&mut self) -> bool {
        self.spoilt.is_some()
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        self.look();
        if let Some(spoilt) = self.spoilt {
            let source = self.context("cannot go on with the trace", spoilt.error());
            return Err(WriteError { source, kept: 0 });
        }
        let result = match &mut self.state {
            FileSinkState::Regular(file) => file.append(batch),
            FileSinkState::Padded(file) => file.append(batch),
            FileSinkState::Stream(stream) => stream.write(batch),
            FileSinkState::Closed => Err(WriteError { source: not_started(), kept: 0 }),
        };
        if result.is_err() && self.unnamed.take().is_some() {
            // It will not be whole.
            self.state = FileSinkState::Closed;
        }
        result.map_err(|WriteError { source, kept }| {
            let source = self.context("cannot write the trace", source);
            WriteError { source, kept }
        })
    }

    fn name_when_whole(&mut self) {
        self.options.naming = Naming::WhenWhole;
    }

    fn is_torn(&self) -> bool {
        matches!(&self.state, FileSinkState::Stream(stream) if stream.is_torn())
    }

    /// Ends the stream and closes the file. A regular file needs no further write, so this succeeds
    /// even after a failed write, which has reported its own error.
    fn finish(&mut self) -> io::Result<()> {
        self.end().map(drop)
    }
}

/// Whether the path ends as that of a directory does. [`Path::file_name`] ignores such an end.
fn ends_with_separator(path: &Path) -> bool {
    let last = path.as_os_str().as_encoded_bytes().last();
    last.is_some_and(|byte| path::is_separator(char::from(*byte)))
}

fn refusal(kind: ErrorKind, text: &str) -> io::Error {
    io::Error::new(kind, text)
}

impl DamageCause {
    fn error(self) -> io::Error {
        io::Error::other(match self {
            Self::Truncated => {
                "somebody has truncated it, as `copytruncate` of logrotate does; it begins anew, \
                 without what was in it; let the session rotate it instead"
            }
            Self::Deleted => {
                "somebody has deleted or replaced it, so nobody could read what follows; it begins \
                 anew, without what was in it"
            }
        })
    }
}
