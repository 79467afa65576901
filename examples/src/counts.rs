//! Counts in a file that outlives the process, so that others can compare when it was killed.
#![allow(unsafe_code, reason = "C1")]

#[cfg(unix)]
use std::{fs::File, ptr};
use std::{io, path::Path, ptr::NonNull, sync::atomic::AtomicU64};

/// Counts, each a little-endian u64 of the file.
///
/// Invariant C1: `start` is that of `count` words of a mapping, which is never removed.
#[derive(Debug)]
pub struct Counts {
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: C1: shared references to atomics.
unsafe impl Send for Counts {}
// SAFETY: as above.
unsafe impl Sync for Counts {}

impl Counts {
    /// Makes the file, with so many counts of 0.
    ///
    /// # Errors
    /// If the file exists, or cannot be made. Always on systems other than Unix.
    #[cfg(unix)]
    pub fn create(path: &Path, count: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};

        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        let len = count * size_of::<AtomicU64>();
        file.set_len(len as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let start = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, count })
    }

    /// See the function for Unix.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(unix))]
    pub fn create(_: &Path, _: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The count with a number.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn of(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.count, "one of the counts");
        // SAFETY: C1, checked above.
        let count = unsafe { self.start.add(number) };
        // SAFETY: as above. Bytes of a file are a valid value.
        unsafe { count.as_ref() }
    }
}
