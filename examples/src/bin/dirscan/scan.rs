//! The workers. Each takes a directory or a file, reads it, and records what it found.

use std::{
    fs::{self, File, FileType, Metadata},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use nettrace_writer::{Emit, Label, LabelScope, enter_labels};
use sha2::{Digest, Sha256};

use crate::{
    events::Scan,
    queue::{Job, Kind, Queue},
};

/// A path to scan, and the file system that the scan must not leave.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    kind: Kind,
    file_system: Option<u64>,
}

/// The counts of a scan so far.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Links, pipes, devices, other file systems, and the trace itself.
    pub(crate) skipped: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

impl Root {
    /// Looks up what `path` is. A link counts as its target.
    ///
    /// # Errors
    /// If `path` does not exist, or is neither a file nor a directory.
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        let metadata = fs::metadata(&path)?;
        let Some(kind) = kind(metadata.file_type()) else {
            return Err(io::Error::other("it is neither a file nor a directory"));
        };
        Ok(Self { path, kind, file_system: file_system(&metadata) })
    }

    pub(crate) fn job(&self, root: usize) -> Job {
        Job { path: self.path.clone(), kind: self.kind, root, depth: 0 }
    }
}

/// A worker.
pub(crate) struct Worker<'a> {
    roots: &'a [Root],
    queue: &'a Queue,
    found: &'a Found,
    /// The file that is the trace, if any.
    trace: Option<(u64, u64)>,
    buffer: Box<[u8]>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(roots: &'a [Root], queue: &'a Queue, found: &'a Found, trace: &Path) -> Self {
        let trace = fs::metadata(trace).ok().and_then(|metadata| identity(&metadata));
        Self { roots, queue, found, trace, buffer: vec![0; 256 << 10].into() }
    }

    /// Works until no jobs are left.
    pub(crate) fn run(mut self) {
        let mut scope: Option<(usize, LabelScope)> = None;
        while let Some(taken) = self.queue.take() {
            let job = &taken.job;
            if scope.as_ref().is_none_or(|(root, _)| *root != job.root) {
                // Scopes nest, so the old one must end before the new one begins.
                drop(scope.take());
                scope = self.label(job.root).map(|labels| (job.root, labels));
            }
            let result = match job.kind {
                Kind::File => self.file(&job.path),
                Kind::Directory => self.directory(job),
            };
            if let Err(error) = result {
                self.unreadable(&job.path, &error);
            }
        }
    }

    /// Puts the root's name in force as a label for what follows.
    fn label(&self, root: usize) -> Option<LabelScope> {
        let name = self.roots[root].path.to_string_lossy();
        // Names that are too long for a label are rare. The scan goes on without the label.
        enter_labels(&[Label::Str("root", &name), Label::Int("root_number", root as i64)]).ok()
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        let start = Instant::now();
        let mut file = File::open(path)?;
        if self.trace.is_some() && identity(&file.metadata()?) == self.trace {
            self.found.skipped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let mut hasher = Sha256::new();
        let mut bytes = 0;
        loop {
            let count = match file.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            hasher.update(&self.buffer[..count]);
            bytes += count as u64;
            self.found.bytes.fetch_add(count as u64, Ordering::Relaxed);
        }
        let (hash, duration) = (hasher.finalize(), start.elapsed());
        let mut digits = [0; 64];
        Scan::File { path, bytes, sha256: hexadecimal(&hash, &mut digits), duration }.emit();
        self.found.files.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn directory(&self, job: &Job) -> io::Result<()> {
        let start = Instant::now();
        let mut jobs = Vec::new();
        let mut entries = 0;
        for entry in fs::read_dir(&job.path)? {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    // Entries that were listed before the error are read nevertheless.
                    self.unreadable(&job.path, &error);
                    break;
                }
            };
            entries += 1;
            match self.kind_of(&entry, job.root) {
                Ok(Some(kind)) => jobs.push(Job {
                    path: entry.path(),
                    kind,
                    root: job.root,
                    depth: job.depth + 1,
                }),
                Ok(None) => {
                    self.found.skipped.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => self.unreadable(&entry.path(), &error),
            }
        }
        self.queue.add(jobs);
        let (path, depth) = (&*job.path, job.depth);
        Scan::Directory { path, entries, depth, duration: start.elapsed() }.emit();
        self.found.directories.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns `None` for what is not read.
    fn kind_of(&self, entry: &fs::DirEntry, root: usize) -> io::Result<Option<Kind>> {
        let kind = kind(entry.file_type()?);
        if kind == Some(Kind::Directory) && self.roots[root].file_system.is_some() {
            let here = file_system(&entry.metadata()?);
            return Ok(kind.filter(|_| here == self.roots[root].file_system));
        }
        Ok(kind)
    }

    fn unreadable(&self, path: &Path, error: &io::Error) {
        let (text, code) = (error.to_string(), error.raw_os_error());
        Scan::Unreadable { path, error: &text, code }.emit();
        self.found.errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// Links are not followed, and pipes and devices have no end, so they are not read.
fn kind(file_type: FileType) -> Option<Kind> {
    if file_type.is_dir() {
        Some(Kind::Directory)
    } else if file_type.is_file() {
        Some(Kind::File)
    } else {
        None
    }
}

#[cfg(unix)]
fn file_system(metadata: &Metadata) -> Option<u64> {
    Some(std::os::unix::fs::MetadataExt::dev(metadata))
}

#[cfg(not(unix))]
fn file_system(_: &Metadata) -> Option<u64> {
    None
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

fn hexadecimal<'a>(bytes: &[u8], digits: &'a mut [u8; 64]) -> &'a str {
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    std::str::from_utf8(digits).expect("digits")
}
