//! A file whose pages are memory of this process. It is locked as long as the process lives.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use nettrace_format::recorder::layout::{self, MAGIC};
use rustix::{
    fs::FallocateFlags,
    io::Errno,
    process::{Resource, getrlimit},
};

use crate::{protocol::memory::mapping::Mapping, sink::live::LiveFile};

#[derive(Debug)]
pub(super) struct SharedFile {
    file: LiveFile,
    path: PathBuf,
}

impl SharedFile {
    /// Makes a new file of `len` bytes. Only the first page has one, with magic bytes and version.
    pub(super) fn create(path: &Path, len: usize) -> io::Result<Self> {
        // Beyond the limit the system sends SIGXFSZ, which ends the process.
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        if len as u64 > limit {
            let text = format!(
                "it needs {len} bytes, and the process may write files of {limit} (`ulimit -f`)"
            );
            return Err(io::Error::new(ErrorKind::FileTooLarge, text));
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let taken = || io::Error::from(ErrorKind::ResourceBusy);
        // Another process may take it for one that was left, and removes or renames it then.
        let file = LiveFile::of_new(file.into()).map_err(|_| taken())?;
        let file = Self { file, path: path.to_owned() };
        let made = (|| {
            let descriptor = file.file.descriptor()?;
            if !is_at(descriptor, path) {
                return Err(taken());
            }
            // If the process is killed before the file is in use, this says whose it is.
            let start = [&MAGIC[..], &layout::VERSION.to_le_bytes()].concat();
            if rustix::io::pwrite(descriptor, &start, 0)? < start.len() {
                return Err(ErrorKind::WriteZero.into());
            }
            Ok(rustix::fs::ftruncate(descriptor, len as u64)?)
        })();
        made.inspect_err(|_| file.remove()).map(|()| file)
    }

    /// Gives pages to `len` bytes.
    pub(super) fn reserve(&self, at: usize, len: usize) -> io::Result<()> {
        loop {
            let flags = FallocateFlags::KEEP_SIZE;
            match rustix::fs::fallocate(self.file.descriptor()?, flags, at as u64, len as u64) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Takes the pages from `len` bytes, which nobody uses any more.
    pub(super) fn release(&self, at: usize, len: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If it fails, the pages go with the last buffer of a thread.
        if let Ok(file) = self.file.descriptor() {
            let _ = rustix::fs::fallocate(file, flags, at as u64, len as u64);
        }
    }

    /// Gives up the lock: another session can make way for its own file.
    pub(super) fn unlock(&self) {
        self.file.unlock();
    }

    /// Maps a part, which begins at a page.
    pub(super) fn map(&self, at: usize, len: usize) -> io::Result<Mapping> {
        Mapping::new(self.file.descriptor()?.as_raw_fd(), at, len)
    }

    /// Removes the file's name, unless it is another file's by now.
    pub(super) fn remove(&self) {
        if self.file.descriptor().is_ok_and(|file| is_at(file, &self.path)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether a file has this path.
pub(super) fn is_at(file: impl AsFd, path: &Path) -> bool {
    let own = rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
    let there = fs::symlink_metadata(path).map(|it| (it.dev(), it.ino()));
    own.ok().zip(there.ok()).is_some_and(|(own, there)| own == there)
}
