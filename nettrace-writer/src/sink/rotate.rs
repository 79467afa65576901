//! A trace in a sequence of files.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{self, Path, PathBuf};
use std::time::Duration;

use super::failure::during;
use super::file::{FileOptions, FileSink};
use super::file_name::expand;
use super::own_file::OwnFile;
use super::platform::{Identity, LockHolders, RegularFile};
use super::stream::not_started;
use super::{Batch, Sink, StreamEnd, WriteError};
use crate::protocol::clock::Stopwatch;

/// The least number of digits of a file's number.
const DIGITS: usize = 8;
/// The number of consecutive numbers that other files may have taken.
const MAX_TAKEN: u32 = 1_000;
/// The length of a file with padding is a multiple of this.
const PAGE: u64 = 4_096;

/// When a [`RotatingFiles`] begins a new file, and which files it keeps.
///
/// ```
/// # use std::time::Duration;
/// # use nettrace_writer::sink::RotationOptions;
/// let sink = RotationOptions::new("traces", "service")
///     .file_size(64 << 20)
///     .file_age(Duration::from_secs(3600))
///     .total_size(1 << 30)
///     .build()
///     .expect("the sizes fit each other");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RotationOptions {
    directory: PathBuf,
    stem: OsString,
    extension: OsString,
    file_size: Option<u64>,
    file_age: Option<Duration>,
    total_size: Option<u64>,
    total_files: Option<usize>,
    adopt: bool,
}

impl RotationOptions {
    /// Options for files `DIRECTORY/STEM-NUMBER.nettrace`, without bounds.
    ///
    /// The stem can have the placeholders of [`SessionBuilder::file`](crate::SessionBuilder::file).
    /// They get their values in [`build`](Self::build), so all files of one sink have the same.
    ///
    /// ```
    /// # use nettrace_writer::sink::RotationOptions;
    /// # fn main() -> std::io::Result<()> {
    /// // traces/checkout-4711-00000001.nettrace, traces/checkout-4711-00000002.nettrace, …
    /// let sink = RotationOptions::new("traces", "{exe}-{pid}").file_size(64 << 20).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(directory: impl Into<PathBuf>, stem: impl Into<OsString>) -> Self {
        Self {
            directory: directory.into(),
            stem: stem.into(),
            extension: "nettrace".into(),
            file_size: None,
            file_age: None,
            total_size: None,
            total_files: None,
            adopt: false,
        }
    }

    /// Sets the file extension, `nettrace` by default. It has no placeholders.
    ///
    /// ```
    /// # use nettrace_writer::sink::RotationOptions;
    /// let options = RotationOptions::new("traces", "service").extension("trace");
    /// ```
    pub fn extension(mut self, extension: impl Into<OsString>) -> Self {
        self.extension = extension.into();
        self
    }

    /// Bounds each file, in bytes, at every instant. The first events that do not fit begin a new
    /// file. So a file is smaller than its bound by one block of events at most.
    ///
    /// A file repeats the definitions that its events need. If these and a single event exceed the
    /// bound, the file is larger, and contains nothing else.
    ///
    /// ```
    /// # use nettrace_writer::sink::RotationOptions;
    /// let options = RotationOptions::new("traces", "service").file_size(64 << 20);
    /// ```
    pub fn file_size(mut self, bytes: u64) -> Self {
        self.file_size = Some(bytes);
        self
    }

    /// Bounds the age of a file: the first events that are written after `age` begin a new file.
    /// Without events no file begins, even if there is something else to tell: that threads have
    /// ended, or how many events were lost.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::sink::RotationOptions;
    /// let hourly = Duration::from_secs(3_600);
    /// let options = RotationOptions::new("traces", "service").file_age(hourly);
    /// ```
    pub fn file_age(mut self, age: Duration) -> Self {
        self.file_age = Some(age);
        self
    }

    /// Bounds all files together, the open one included, in bytes. If something would not fit, the
    /// oldest files are deleted before it is written. This needs a [`file_size`](Self::file_size).
    ///
    /// ```
    /// # use nettrace_writer::sink::RotationOptions;
    /// let options = RotationOptions::new("traces", "service");
    /// let options = options.file_size(64 << 20).total_size(1 << 30);
    /// ```
    pub fn total_size(mut self, bytes: u64) -> Self {
        self.total_size = Some(bytes);
        self
    }

    /// Bounds the number of files, the open one included. It needs a [`file_size`](Self::file_size)
    /// or a [`file_age`](Self::file_age).
    ///
    /// ```
    /// # use nettrace_writer::sink::RotationOptions;
    /// let options = RotationOptions::new("traces", "service").file_size(64 << 20).total_files(10);
    /// ```
    pub fn total_files(mut self, files: usize) -> Self {
        self.total_files = Some(files);
        self
    }

    /// Includes the files of earlier runs: they count, and are deleted where a bound requires it.
    /// These are regular files in the directory whose names have exactly the form that this sink
    /// gives. Off by default. The files of another process or session that still runs, the one that
    /// it is writing and those that it has closed, are left alone and do not count, as far as [the
    /// file system tells](super::FileOptions::overwrite). Neither does a file that this process may
    /// not open. A stem with `{pid}` or `{time}` has no files of earlier runs.
    ///
    /// ```
    /// # use nettrace_writer::sink::RotationOptions;
    /// let options = RotationOptions::new("traces", "service")
    ///     .file_size(64 << 20)
    ///     .total_size(1 << 30) // over all runs
    ///     .adopt_existing(true);
    /// ```
    pub fn adopt_existing(mut self, adopt: bool) -> Self {
        self.adopt = adopt;
        self
    }

    /// Makes the sink. It opens nothing before the stream starts. A relative directory is resolved
    /// now, against the current directory.
    ///
    /// # Errors
    /// The system's error if the current directory is needed and cannot be found.
    /// [`ErrorKind::InvalidInput`] if the bounds contradict each other or cannot be kept: a bound
    /// of 0, a total below the size of one file, a total without any bound on one file. The same if
    /// the stem or extension is empty or has a path separator in it, or if the stem has a
    /// [placeholder that has no value](crate::sink::FileNameError).
    ///
    /// ```
    /// use nettrace_writer::sink::RotationOptions;
    ///
    /// let options = RotationOptions::new("traces", "service").total_size(1 << 30);
    /// let error = options.build().unwrap_err();
    /// assert_eq!(error.to_string(), "`total_size` needs a `file_size` that is no larger");
    /// ```
    pub fn build(mut self) -> io::Result<RotatingFiles> {
        let refuse = |text: &str| Err(io::Error::new(ErrorKind::InvalidInput, text));
        self.stem =
            expand(&self.stem).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        for part in [&self.stem, &self.extension] {
            if part.is_empty() || part.to_string_lossy().contains(std::path::is_separator) {
                return refuse("stem and extension have to be parts of a file name");
            }
        }
        if self.file_size == Some(0) || self.total_size == Some(0) || self.total_files == Some(0) {
            return refuse("a bound of 0 leaves no room for a file; leave it out to have no bound");
        }
        if self.total_size.is_some_and(|total| self.file_size.is_none_or(|file| file > total)) {
            return refuse("`total_size` needs a `file_size` that is no larger");
        }
        if self.total_files.is_some() && self.file_size.is_none() && self.file_age.is_none() {
            return refuse(
                "`total_files` needs `file_size` or `file_age`, or there is one file only",
            );
        }
        self.directory = path::absolute(&self.directory).map_err(|source| {
            during(format!("cannot find the folder {}", self.directory.display()), source)
        })?;
        Ok(RotatingFiles {
            options: self,
            current: None,
            closed: VecDeque::new(),
            keeper: None,
            next_number: None,
            has_looked: false,
        })
    }
}

/// Writes a session into one file after another. Each is a complete trace.
///
/// # Guarantees
/// - Each file keeps every promise of [`FileSink`], and can be read alone: the session opens a new
///   stream in it and defines again what its events refer to.
/// - Files are named `STEM-NUMBER.EXTENSION`. The number has at least eight digits, so names sort
///   in the order of time. The first number is one more than the highest in the directory, or the
///   first that is free if none is higher. If another process takes a name meanwhile, the number is
///   skipped. No file is ever overwritten.
/// - Files are deleted only where a bound requires it, the oldest first and never the open one.
///   Only files that this sink created are deleted, and only while the name still stands for the
///   same file (device and inode number; on systems without these, the time of creation). Files of
///   earlier runs belong to the user, unless [`RotationOptions::adopt_existing`] hands them over.
/// - [`total_size`](RotationOptions::total_size) and [`total_files`](RotationOptions::total_files)
///   hold at every instant, even after a kill, because files are deleted before others grow.
///   [`file_size`](RotationOptions::file_size) holds at every instant too, padding included if the
///   format has it. The one exception is an event that is larger than the bound, because events are
///   not split. If a file cannot be deleted, nothing is written.
/// - After an error all files are complete. If the next file cannot be opened (because of too many
///   open files, for instance), the sink does not go back to the file before. Events are lost until
///   a file opens, and that file tells how many. If a file with events accepts no more although the
///   disk has room, the next attempt begins a new file.
///
/// # Examples
///
/// ```
/// use nettrace_writer::{Session, sink::RotationOptions};
///
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let files = RotationOptions::new(directory, "service").file_size(64 << 20).build()?;
/// let session = Session::builder().sink(files).start()?;
/// session.finish()?;
/// assert!(directory.join("service-00000001.nettrace").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RotatingFiles {
    options: RotationOptions,
    current: Option<CurrentFile>,
    closed: VecDeque<ClosedFile>,
    /// The file that was written last, whose locks say which files are closed until the next one
    /// has them.
    keeper: Option<RegularFile>,
    /// `None`: the directory has to be read first.
    next_number: Option<u64>,
    /// Whether the files of earlier runs are known.
    has_looked: bool,
}

#[derive(Debug)]
struct CurrentFile {
    sink: FileSink,
    number: u64,
    opened: Stopwatch,
    identity: Option<Identity>,
    /// Whether it contains only the header.
    is_empty: bool,
    /// Whether a write failed with an error that another file may not have.
    is_bad: bool,
    length: u64,
}

/// A finished file.
#[derive(Debug)]
struct ClosedFile {
    file: OwnFile,
    number: u64,
    length: u64,
}

impl RotatingFiles {
    /// The file that is being written, if there is one.
    ///
    /// ```
    /// use nettrace_writer::sink::RotationOptions;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let files = RotationOptions::new("traces", "service").file_size(64 << 20).build()?;
    /// assert_eq!(files.current_path(), None); // no stream has started
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn current_path(&self) -> Option<&Path> {
        self.current.as_ref().map(|current| current.sink.path())
    }

    /// Opens the next file. `start` begins the stream in it, which makes it `empty_length` long.
    fn open(
        &mut self,
        empty_length: u64,
        start: impl Fn(&mut FileSink) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut number = match self.next_number {
            Some(number) => number,
            None => self.look_through()?,
        };
        self.make_room(empty_length)?;
        for _ in 0..MAX_TAKEN {
            let mut sink = FileOptions::new(self.path_of(number)).files_only().build();
            let started = start(&mut sink);
            let after = number.checked_add(1);
            self.next_number = after;
            match started {
                Ok(()) => {
                    let identity = sink.identity();
                    let opened = Stopwatch::start();
                    let length = sink.length().unwrap_or(empty_length);
                    let (is_empty, is_bad) = (true, false);
                    sink.keep_numbers(self.closed.iter().map(|closed| closed.number));
                    self.keeper = None;
                    self.current = Some(CurrentFile {
                        sink,
                        number,
                        opened,
                        identity,
                        is_empty,
                        is_bad,
                        length,
                    });
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            // There is no number behind the largest.
            let Some(after) = after else { break };
            number = after;
        }
        let text = format!("{MAX_TAKEN} numbers in a row are taken; choose another stem");
        Err(during(self.context(), io::Error::new(ErrorKind::AlreadyExists, text)))
    }

    fn path_of(&self, number: u64) -> PathBuf {
        let mut name = self.options.stem.clone();
        name.push(format!("-{number:0DIGITS$}."));
        name.push(&self.options.extension);
        self.options.directory.join(name)
    }

    /// The number of a file name, if it is exactly what [`path_of`](Self::path_of) makes of it.
    fn number_of(&self, path: &Path) -> Option<u64> {
        let name = path.file_name()?.as_encoded_bytes();
        let rest = name.strip_prefix(self.options.stem.as_encoded_bytes())?.strip_prefix(b"-")?;
        let rest = rest.strip_suffix(self.options.extension.as_encoded_bytes())?;
        let digits = std::str::from_utf8(rest.strip_suffix(b".")?).ok()?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = digits.parse().ok()?;
        (format!("{number:0DIGITS$}") == digits).then_some(number)
    }

    /// Finds the first free number, and the files of earlier runs if they are to be included.
    fn look_through(&mut self) -> io::Result<u64> {
        let entries = fs::read_dir(&self.options.directory)
            .map_err(|source| during(self.context(), source))?;
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(|source| during(self.context(), source))?.path();
            if let Some(number) = self.number_of(&path) {
                found.push((number, path));
            }
        }
        found.sort();
        let next = match found.last() {
            None => Some(1),
            Some((number, _)) => number.checked_add(1),
        };
        // Somebody has used up the numbers: the first that is free.
        let next = next.unwrap_or_else(|| {
            let in_order = (1..).zip(&found).find(|(number, (taken, _))| number != taken);
            in_order.map_or(1, |(number, _)| number)
        });
        if self.options.adopt && !std::mem::replace(&mut self.has_looked, true) {
            self.adopt(found);
        }
        Ok(next)
    }

    /// Takes over the files that nobody has. Leaves out a name that is gone by now or stands for
    /// something other than a regular file, and what cannot be asked.
    fn adopt(&mut self, found: Vec<(u64, PathBuf)>) {
        let found = found.into_iter().filter_map(|(number, path)| {
            let identity = Identity::at(&path).ok()?;
            let held = LockHolders::at(&path)
                .unwrap_or(LockHolders { is_live: true, numbers: Vec::new() });
            Some((number, path, identity, held))
        });
        let found: Vec<_> = found.collect();
        let is_others = |number: u64| {
            found.iter().flat_map(|(.., held)| &held.numbers).any(|range| range.contains(&number))
        };
        for (number, path, identity, held) in &found {
            if held.is_live || is_others(*number) {
                continue;
            }
            let Ok(metadata) = fs::symlink_metadata(path) else { continue };
            let (length, file) = (metadata.len(), OwnFile::new(path, Some(*identity)));
            self.closed.push_back(ClosedFile { file, number: *number, length });
        }
    }

    /// Deletes the oldest files until an open file of that length keeps the bounds.
    fn make_room(&mut self, length: u64) -> io::Result<()> {
        loop {
            let closed: u64 = self.closed.iter().map(|closed| closed.length).sum();
            let total = closed.saturating_add(length);
            let count = self.closed.len() + 1;
            let too_large = self.options.total_size.is_some_and(|limit| total > limit);
            let too_many = self.options.total_files.is_some_and(|limit| count > limit);
            if !too_large && !too_many {
                return Ok(());
            }
            let Some(oldest) = self.closed.front() else { return Ok(()) };
            oldest.file.delete()?;
            self.closed.pop_front();
            if self.closed.is_empty() {
                // It may be the one that was deleted, and would still take its space.
                self.keeper = None;
            }
        }
    }

    /// Ends the open file. Its locks stay until the next one has them.
    fn close(&mut self) -> io::Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let ended = current.sink.end();
        // Padding counts only while the file is open.
        let length = ended.as_ref().ok().copied().flatten().unwrap_or(current.length);
        // On Windows an open file could not be deleted.
        self.keeper = current.sink.ended_file().filter(|_| cfg!(unix));
        let (file, number) = (OwnFile::new(current.sink.path(), current.identity), current.number);
        self.closed.push_back(ClosedFile { file, number, length });
        ended.map(drop)
    }

    fn context(&self) -> String {
        let stem = self.options.stem.to_string_lossy();
        format!("cannot rotate the traces {stem} in {}", self.options.directory.display())
    }
}

impl Sink for RotatingFiles {
    fn file(&self) -> Option<&Path> {
        self.current.as_ref().and_then(|current| current.sink.file())
    }

    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.close()?;
        let length = (header.len() + end.bytes().len()) as u64;
        let empty_length = if end.padding().is_some() { PAGE } else { length };
        self.open(empty_length, |sink| sink.start(header, end))
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        let size: u64 = batch.pieces.iter().map(|piece| piece.len() as u64).sum();
        let length = self.current.as_ref().map_or(0, |current| current.sink.length_with(size));
        self.make_room(length).map_err(|source| WriteError { source, kept: 0 })?;
        let Some(current) = &mut self.current else {
            return Err(WriteError { source: not_started(), kept: 0 });
        };
        let result = current.sink.write(batch);
        let kept = result.as_ref().map_or_else(|error| error.kept, |()| size);
        current.length = current.sink.length().unwrap_or(current.length + kept);
        current.is_empty &= kept == 0;
        if let Err(error) = &result {
            // A full disk has no room for another file, either.
            let is_full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];
            current.is_bad |= !is_full.contains(&error.source.kind());
        }
        result
    }

    fn room(&self) -> u64 {
        match (&self.current, self.options.file_size) {
            (Some(current), Some(limit)) => current.sink.room(limit),
            _ => u64::MAX,
        }
    }

    fn wants_restart(&mut self) -> bool {
        let Some(current) = &mut self.current else { return false };
        let is_old = self.options.file_age.is_some_and(|limit| current.opened.elapsed() >= limit);
        current.sink.wants_restart() || !current.is_empty && (current.is_bad || is_old)
    }

    /// Ends the open file. Succeeds even after a failed write, which has reported its own error.
    fn finish(&mut self) -> io::Result<()> {
        let closed = self.close();
        // The closed files are the user's from here on.
        self.keeper = None;
        closed
    }
}
