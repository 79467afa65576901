//! A file whose pages are memory of this process. It is locked as long as the process lives.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use nettrace_format::recorder::layout::{self, MAGIC};
use rustix::{
    fs::{FallocateFlags, FlockOperation},
    io::Errno,
};

use crate::{process::descriptors::Entry, protocol::memory::mapping::Mapping};

#[derive(Debug)]
pub(super) struct SharedFile {
    file: File,
    path: PathBuf,
    /// The child of a `fork` closes its copy, which would keep the lock.
    entry: Option<Entry>,
}

impl SharedFile {
    /// Makes a new file of `len` bytes. Only the first page has one, with magic bytes and version.
    pub(super) fn create(path: &Path, len: usize) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let entry = Entry::of(file.as_raw_fd());
        let file = Self { file, path: path.to_owned(), entry };
        let made = lock(&file.file).and_then(|()| {
            if !is_at(&file.file, path) {
                // Another process has taken it for one that was left.
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            // If the process is killed before the file is in use, this says whose it is.
            file.file.write_all_at(&[&MAGIC[..], &layout::VERSION.to_le_bytes()].concat(), 0)?;
            file.file.set_len(len as u64)
        });
        made.inspect_err(|_| file.remove()).map(|()| file)
    }

    /// Gives pages to `len` bytes.
    pub(super) fn reserve(&self, at: usize, len: usize) -> io::Result<()> {
        loop {
            let flags = FallocateFlags::KEEP_SIZE;
            match rustix::fs::fallocate(&self.file, flags, at as u64, len as u64) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Takes the pages from `len` bytes, which nobody uses any more.
    pub(super) fn release(&self, at: usize, len: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If it fails, the pages go with the last buffer of a thread.
        let _ = rustix::fs::fallocate(&self.file, flags, at as u64, len as u64);
    }

    /// Gives up the lock: another session can make way for its own file.
    pub(super) fn unlock(&self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }

    /// Maps a part, which begins at a page.
    pub(super) fn map(&self, at: usize, len: usize) -> io::Result<Mapping> {
        Mapping::new(self.file.as_raw_fd(), at, len)
    }

    /// Removes the file's name, unless it is another file's by now.
    pub(super) fn remove(&self) {
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // Before the descriptor's number can be another file's.
        if let Some(entry) = &self.entry {
            entry.remove();
        }
    }
}

/// Locks a file for this process.
///
/// # Errors
/// [`WouldBlock`](io::ErrorKind::WouldBlock) if another one has it.
pub(super) fn lock(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

/// Whether a file has this path.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |it: fs::Metadata| (it.dev(), it.ino());
    let (own, there) = (file.metadata().map(identity), fs::symlink_metadata(path).map(identity));
    own.ok().zip(there.ok()).is_some_and(|(own, there)| own == there)
}
