//! A trace in a row of files.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::failure::{Failure, during};
use super::file::FileSink;
use super::platform::Identity;
use super::stream::not_started;
use super::{Batch, Padding, Sink, WriteError};

/// Fewest digits of a file's number; a longer number has more.
const DIGITS: usize = 8;
/// How many taken numbers are stepped over before that is an error.
const MAX_TAKEN: u32 = 1_000;
/// What the length of a padded file is a multiple of.
const PAGE: u64 = 4_096;

/// When a [`RotatingFiles`] begins a new file, and what it keeps.
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
    /// Options for files `DIRECTORY/STEM-NUMBER.nettrace`, without any bound yet.
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

    /// Sets what stands behind the dot, `nettrace` by default.
    pub fn extension(mut self, extension: impl Into<OsString>) -> Self {
        self.extension = extension.into();
        self
    }

    /// Bounds each file, in bytes. One flush is never split: a flush that is larger alone gets a
    /// file to itself.
    pub fn file_size(mut self, bytes: u64) -> Self {
        self.file_size = Some(bytes);
        self
    }

    /// Begins a new file with the first flush after `age`. While there are no events no file is
    /// begun.
    pub fn file_age(mut self, age: Duration) -> Self {
        self.file_age = Some(age);
        self
    }

    /// Bounds all files together, the open one included, in bytes: the oldest are deleted before a
    /// flush that would not fit.
    pub fn total_size(mut self, bytes: u64) -> Self {
        self.total_size = Some(bytes);
        self
    }

    /// Bounds the number of files, the open one included.
    pub fn total_files(mut self, files: usize) -> Self {
        self.total_files = Some(files);
        self
    }

    /// Counts, and where a bound asks for it deletes, the files of earlier runs as well: regular
    /// files in the directory whose names have exactly the form that this sink gives. Off by
    /// default. Only for a directory and stem that no other running process uses: it would lose the
    /// file that it is writing.
    pub fn adopt_existing(mut self, adopt: bool) -> Self {
        self.adopt = adopt;
        self
    }

    /// The sink. It opens nothing before the stream starts.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] where the bounds contradict each other or can't be held: a bound
    /// of 0, a total below the size of one file, a total without any bound on one file, a stem or
    /// extension that is empty or has a path separator in it.
    pub fn build(self) -> io::Result<RotatingFiles> {
        let refuse = |text: &str| Err(io::Error::new(ErrorKind::InvalidInput, text));
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
        Ok(RotatingFiles {
            options: self,
            current: None,
            closed: VecDeque::new(),
            next_number: None,
            failure: None,
        })
    }
}

/// Writes a session into one file after the other, each a complete trace of its own.
///
/// # Guarantees
/// - Each file keeps every promise of [`FileSink`], and is readable alone: the session opens a new
///   stream in it and defines again what its events refer to.
/// - Files are named `STEM-NUMBER.EXTENSION`, the number with at least eight digits, so that names
///   sort in the order of time. The first is one more than the highest number in the directory; a
///   name that is taken meanwhile, by another process too, is stepped over. Nothing is ever
///   overwritten.
/// - Files are deleted, oldest first and never the open one, only where a bound asks for it, and
///   only those that this sink created, as long as the name still stands for the very file (device
///   and inode number; where the system has none, the time of creation). Files of earlier runs
///   belong to the user, unless [`RotationOptions::adopt_existing`] hands them over.
/// - [`total_size`](RotationOptions::total_size) and [`total_files`](RotationOptions::total_files)
///   hold at every instant, a kill included, since what is in the way is deleted first. The one
///   exception is a flush that is larger than was announced to [`Sink::wants_restart`], or than the
///   total: it is not split. A file that can't be deleted ends the trace with that error.
///
/// After an error the sink stays failed, and all its files are complete.
#[derive(Debug)]
pub struct RotatingFiles {
    options: RotationOptions,
    current: Option<Current>,
    closed: VecDeque<Closed>,
    /// Known once the directory has been looked through.
    next_number: Option<u64>,
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Current {
    sink: FileSink,
    opened: Instant,
    identity: Option<Identity>,
    /// Whether nothing but the header is in it.
    is_empty: bool,
    /// How much a batch may add beyond its own size.
    slack: u64,
    length: u64,
}

/// A finished file.
#[derive(Debug)]
struct Closed {
    path: PathBuf,
    length: u64,
    identity: Option<Identity>,
}

impl RotatingFiles {
    /// The file that is being written.
    pub fn current_path(&self) -> Option<&Path> {
        self.current.as_ref().map(|current| current.sink.path())
    }

    /// Opens the next file: `start` starts the stream in it, and makes it so long. A batch may add
    /// `slack` bytes beyond its own size.
    fn open(
        &mut self,
        empty_length: u64,
        slack: u64,
        start: impl Fn(&mut FileSink) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.next_number.is_none() {
            self.next_number = Some(self.look_through()?);
        }
        self.make_room(empty_length, 1)?;
        for _ in 0..MAX_TAKEN {
            let number = self.next_number.unwrap_or(1);
            self.next_number = Some(number.saturating_add(1));
            let mut sink = FileSink::new(self.path_of(number));
            match start(&mut sink) {
                Ok(()) => {
                    let identity = sink.identity();
                    let opened = Instant::now();
                    let length = sink.length().unwrap_or(empty_length);
                    self.current =
                        Some(Current { sink, opened, identity, is_empty: true, slack, length });
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
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

    /// Finds the first free number, and the files of earlier runs if they are to be adopted.
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
        let next = found.last().map_or(1, |(number, _)| number.saturating_add(1));
        if self.options.adopt {
            for (_, path) in found {
                // A name that is gone by now, or no regular file, is none of ours.
                let Ok(identity) = Identity::at(&path) else { continue };
                let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
                let length = metadata.len();
                self.closed.push_back(Closed { path, length, identity: Some(identity) });
            }
        }
        Ok(next)
    }

    /// Deletes the oldest files until `bytes` more, in `files` more, keep the bounds.
    fn make_room(&mut self, bytes: u64, files: usize) -> io::Result<()> {
        loop {
            let current = self.current.as_ref().map_or(0, |current| current.length);
            let closed: u64 = self.closed.iter().map(|closed| closed.length).sum();
            let total = closed.saturating_add(current).saturating_add(bytes);
            let count = self.closed.len() + usize::from(self.current.is_some()) + files;
            let too_large = self.options.total_size.is_some_and(|limit| total > limit);
            let too_many = self.options.total_files.is_some_and(|limit| count > limit);
            if !too_large && !too_many {
                return Ok(());
            }
            let Some(oldest) = self.closed.front() else { return Ok(()) };
            delete(oldest)?;
            self.closed.pop_front();
        }
    }

    fn context(&self) -> String {
        let stem = self.options.stem.to_string_lossy();
        format!("cannot rotate the traces {stem} in {}", self.options.directory.display())
    }

    fn remember(&mut self, error: io::Error) -> io::Error {
        self.failure = Some(Failure::of(&error));
        error
    }
}

impl Sink for RotatingFiles {
    fn start(&mut self, header: &[u8], end_of_stream: &'static [u8]) -> io::Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.again());
        }
        self.finish()?;
        let empty_length = (header.len() + end_of_stream.len()) as u64;
        let opened = self.open(empty_length, 0, |sink| sink.start(header, end_of_stream));
        opened.map_err(|error| self.remember(error))
    }

    fn start_padded(&mut self, header: &[u8], padding: Padding) -> io::Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.again());
        }
        self.finish()?;
        let opened = self.open(PAGE, 2 * PAGE, |sink| sink.start_padded(header, padding));
        opened.map_err(|error| self.remember(error))
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        if let Some(failure) = &self.failure {
            return Err(WriteError { source: failure.again(), kept: 0 });
        }
        let size: u64 = batch.pieces.iter().map(|piece| piece.len() as u64).sum();
        let slack = self.current.as_ref().map_or(0, |current| current.slack);
        if let Err(error) = self.make_room(size + slack, 0) {
            return Err(WriteError { source: self.remember(error), kept: 0 });
        }
        let Some(current) = &mut self.current else {
            return Err(WriteError { source: not_started(), kept: 0 });
        };
        let result = current.sink.write(batch);
        match result {
            Ok(()) => {
                current.length = current.sink.length().unwrap_or(current.length + size);
                current.is_empty &= size == 0;
            }
            Err(WriteError { source, kept }) => {
                current.length += kept;
                return Err(WriteError { source: self.remember(source), kept });
            }
        }
        Ok(())
    }

    fn wants_restart(&mut self, next: u64) -> bool {
        let Some(current) = &self.current else { return false };
        if self.failure.is_some() || current.is_empty {
            return false;
        }
        let size = current.length.saturating_add(next);
        self.options.file_size.is_some_and(|limit| size > limit)
            || self.options.file_age.is_some_and(|limit| current.opened.elapsed() >= limit)
    }

    /// Ends the open file. Succeeds also after a failed write, which has reported its error itself.
    fn finish(&mut self) -> io::Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let finished = current.sink.finish();
        self.closed.push_back(Closed {
            path: current.sink.path().to_owned(),
            length: current.length,
            identity: current.identity,
        });
        finished.map_err(|error| self.remember(error))
    }
}

/// Deletes a file if its name still stands for it; one that is gone or replaced is no longer ours.
fn delete(closed: &Closed) -> io::Result<()> {
    let context = || format!("cannot delete the old trace {}", closed.path.display());
    match Identity::at(&closed.path) {
        Ok(found) if Some(found) == closed.identity => {}
        Ok(_) => return Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
            return Ok(());
        }
        Err(error) => return Err(during(context(), error)),
    }
    match fs::remove_file(&closed.path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(during(context(), error)),
        _ => Ok(()),
    }
}
