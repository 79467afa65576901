//! Locks of the system on files that are being written: each file that a sink writes has a lock of
//! the system.
//!
//! It is a lock on bytes far behind the end of any file (`F_OFD_SETLK`), which nobody else asks
//! for. Readers, and programs that move or delete files, never notice it. The older `flock` would
//! not do: .NET asks for it whenever it opens a file, and does not read one that is locked.
//!
//! The lock belongs to the open file. So it holds under every name that the file has or gets, and
//! ends with the process, however that ends. The file has it before it has its public name. The
//! place of the lock tells the process: [`OWNERS`].
//!
//! A process that rotates files keeps those that it has closed. Its open file has a lock on the
//! number of each ([`NUMBERS`]), so that nobody else takes them for files of an earlier run.
//!
//! A recorder file has the same lock as a trace. Whoever makes way for another recorder file has a
//! lock on all these places ([`TakenOver`]), so that the file's maker cannot get its own meanwhile.
//!
//! The child of a `fork` would share the lock, and hold it after its parent's death. So it closes
//! its copies of the [descriptors](crate::process::descriptors), and a [`LiveFile`] that it has a
//! copy of is of no use there. A child of a raw `clone`, or of a `fork` in the instant between the
//! opening of a file and its [`ClosedInChild`], keeps the lock as long as it lives.
//!
//! Some file systems have no such locks, and neither have Unixes other than Linux and Apple's, nor
//! systems of 32 bits. Files are then written without, and a live one is not known as such.
//!
//! The only unsafe code is one system call.
#![allow(unsafe_code, reason = "fcntl, whose only memory argument is one live struct")]

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::platform::{Identity, open_existing};
use crate::process::{descriptors::ClosedInChild, generation, handlers::close_in_child};

/// A process that writes a file has a lock on the byte at this offset and its id.
const OWNERS: i64 = 1 << 62;
/// Ids of processes are below this.
const PIDS: i64 = 1 << 32;
/// The byte of an old file that a process locks while it replaces the file.
const CLAIM: i64 = OWNERS - 1;
/// A process that rotates files has locks on its open one: on the bytes at this offset and the
/// numbers of its closed files.
const NUMBERS: i64 = 1 << 61;
/// Numbers of files that have a lock are below this.
const MOST_NUMBERS: i64 = 1 << 60;

/// An open file with a lock, which tells others that this process writes it.
#[derive(Debug)]
pub(crate) struct LiveFile {
    /// `None` only while it is dropped.
    descriptor: Option<OwnedFd>,
    /// `None`: there was no place, and a child does not close its copy.
    entry: Option<ClosedInChild>,
    /// The process that has opened it.
    generation: u32,
}

impl LiveFile {
    /// Takes a file that nobody else knows yet.
    pub(super) fn new(descriptor: OwnedFd) -> Self {
        // Without locks the file is written all the same: see the module.
        Self::with_lock(descriptor).0
    }

    /// Takes a file that somebody may take for one that was left.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if somebody has [taken it over](TakenOver).
    #[allow(dead_code, reason = "for recorder files, which 64-bit Linux has")]
    pub(crate) fn of_new(descriptor: OwnedFd) -> rustix::io::Result<Self> {
        let (file, locked) = Self::with_lock(descriptor);
        locked.map(|()| file)
    }

    fn with_lock(descriptor: OwnedFd) -> (Self, rustix::io::Result<()>) {
        let entry = close_in_child(descriptor.as_raw_fd());
        let locked = Lock::own().set(&descriptor);
        (Self { descriptor: Some(descriptor), entry, generation: generation() }, locked)
    }

    /// Gives up the lock: others can take the file over, or replace it.
    #[allow(dead_code, reason = "for recorder files, which 64-bit Linux has")]
    pub(crate) fn unlock(&self) {
        if let Ok(descriptor) = self.descriptor() {
            let _ = Lock::own().remove(descriptor);
        }
    }

    /// Says which closed files are those of this process, in ascending order.
    pub(super) fn keep_numbers(&self, numbers: impl Iterator<Item = u64>) {
        let Ok(descriptor) = self.descriptor() else { return };
        let mut run: Option<Lock> = None;
        let set = |run: Lock| {
            let _ = run.set(descriptor); // or there are no locks: see the module
        };
        for number in numbers.filter_map(|number| i64::try_from(number).ok()) {
            let first = NUMBERS + number.min(MOST_NUMBERS);
            match &mut run {
                Some(run) if run.first + run.bytes == first => run.bytes += 1,
                _ => run.replace(Lock { first, bytes: 1 }).into_iter().for_each(set),
            }
        }
        run.into_iter().for_each(set);
    }

    /// The file. Fails in the child of a `fork`.
    pub(crate) fn descriptor(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        match &self.descriptor {
            Some(descriptor) if self.is_ours() => Ok(descriptor.as_fd()),
            _ => Err(Errno::BADF),
        }
    }

    fn is_ours(&self) -> bool {
        self.generation == generation()
    }
}

impl Drop for LiveFile {
    fn drop(&mut self) {
        let Some(descriptor) = self.descriptor.take() else { return };
        if self.is_ours() {
            // A child that has a copy, or is forked from here on, has no lock.
            let _ = Lock::own().remove(&descriptor);
            if let Some(entry) = &self.entry {
                entry.remove();
            }
        } else if self.entry.is_some() {
            // The child has closed it, and may have another file of that number.
            std::mem::forget(descriptor);
        }
    }
}

/// The right to replace a file: while one process has it, no other one gets it.
#[derive(Debug)]
pub(super) struct Claim(OwnedFd);

impl Claim {
    /// `Err`: somebody else has it, or a lock that keeps everybody from it.
    pub(super) fn on(file: OwnedFd) -> Result<Self, OwnedFd> {
        match Lock::CLAIM.set(&file) {
            Err(Errno::AGAIN | Errno::ACCESS) => Err(file),
            _ => Ok(Self(file)), // or there are no locks here: see the module
        }
    }

    /// Does without the lock if nobody has one who may write the file. A lock for reading is that
    /// of a stranger, who must not keep others from replacing the file.
    pub(super) fn without_lock(file: OwnedFd) -> Option<Self> {
        let holder = Lock::CLAIM.ask(&file).ok().flatten();
        holder.is_none().then_some(Self(file))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Or the child of a `fork` would hold it.
        let _ = Lock::CLAIM.remove(&self.0);
    }
}

/// A recorder file that a process has left, and that nobody else can take.
#[allow(dead_code, reason = "for recorder files, which 64-bit Linux has")]
#[derive(Debug)]
pub(crate) struct TakenOver<'a>(&'a fs::File);

#[allow(dead_code, reason = "for recorder files, which 64-bit Linux has")]
impl<'a> TakenOver<'a> {
    const PLACES: Lock = Lock { first: CLAIM, bytes: 1 + PIDS };

    /// # Errors
    /// [`Errno::AGAIN`] or [`Errno::ACCESS`] if somebody writes the file, or has taken it over.
    pub(crate) fn new(file: &'a fs::File) -> rustix::io::Result<Self> {
        Self::PLACES.set(file).map(|()| Self(file))
    }
}

impl Drop for TakenOver<'_> {
    fn drop(&mut self) {
        // Or the child of a `fork` would hold it.
        let _ = Self::PLACES.remove(self.0);
    }
}

/// # Errors
/// [`ErrorKind::ResourceBusy`] if somebody writes the file. The text says who.
pub(super) fn check_that_nobody_writes(file: &OwnedFd) -> io::Result<()> {
    let Some(pid) = owner(file) else { return Ok(()) };
    let owner = if !has_open(pid, Identity::of_file(file)?) {
        "a process of another user, container or machine".to_owned()
    } else if pid == process::id() {
        "another session of this process".to_owned()
    } else {
        match fs::read_to_string(format!("/proc/{pid}/comm")) {
            Ok(name) => format!("process {pid} (`{}`)", name.trim_end().escape_debug()),
            Err(_) => format!("process {pid}"),
        }
    };
    let text = format!("{owner} is writing it; choose another name");
    Err(io::Error::new(ErrorKind::ResourceBusy, text))
}

/// The facts that the locks of a file tell, as far as can be known.
#[derive(Debug, Default)]
pub(super) struct LockHolders {
    /// Whether somebody writes it.
    pub(super) is_live: bool,
    /// The numbers of the files that its process has closed.
    pub(super) numbers: Vec<Range<u64>>,
}

impl LockHolders {
    /// The holders of locks on the file of that name. A link is not followed.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let file = open_existing(rustix::fs::CWD, path.as_os_str(), OFlags::RDONLY)?;
        let mut numbers = Vec::new();
        let (mut first, end) = (NUMBERS, NUMBERS + MOST_NUMBERS);
        while first < end {
            let range = Lock { first, bytes: end - first };
            let Some(found) = range.ask(&file).ok().flatten() else { break };
            // A lock without a length reaches to the end: somebody has all of the file.
            let bytes = if found.l_len > 0 { found.l_len } else { end };
            let (from, to) = (found.l_start.max(first), found.l_start.saturating_add(bytes));
            numbers.push((from - NUMBERS) as u64..(to.min(end) - NUMBERS) as u64);
            first = to.max(first + 1);
        }
        Ok(Self { is_live: owner(&file).is_some(), numbers })
    }
}

/// The process that writes a file, by the id that it has where it runs. A lock of the older kind,
/// which `nettrace collect` has on the whole file, belongs to a process, which the system names.
fn owner(file: impl AsFd) -> Option<u32> {
    let found = Lock { first: OWNERS, bytes: PIDS }.ask(file).ok()??;
    let pid = if found.l_pid > 0 { i64::from(found.l_pid) } else { found.l_start - OWNERS };
    Some(u32::try_from(pid).unwrap_or(0))
}

/// Whether the process of that id here has the file open. Only Linux tells; elsewhere it has.
fn has_open(pid: u32, file: Identity) -> bool {
    if cfg!(not(target_os = "linux")) {
        return true;
    }
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let open = open.filter(|entry| Identity::of_target(&entry.path()).is_ok_and(|it| it == file));
    // This process has it open to ask.
    open.count() > usize::from(pid == process::id())
}

/// A write lock on a range of bytes.
#[derive(Clone, Copy, Debug)]
struct Lock {
    first: i64,
    bytes: i64,
}

impl Lock {
    const CLAIM: Self = Self { first: CLAIM, bytes: 1 };

    /// The lock on a file which this process writes.
    fn own() -> Self {
        Self { first: OWNERS + i64::from(process::id()), bytes: 1 }
    }

    /// Fails with [`Errno::AGAIN`] or [`Errno::ACCESS`] if somebody else has a lock in the range.
    /// The file must be open for writing.
    fn set(self, file: impl AsFd) -> Result<(), Errno> {
        self.call(file, Command::Set).map(drop)
    }

    fn remove(self, file: impl AsFd) -> Result<(), Errno> {
        self.call(file, Command::Remove).map(drop)
    }

    /// A lock for writing that somebody else has in the range. Whoever may only read the file can
    /// have one for reading, which says nothing.
    fn ask(self, file: impl AsFd) -> Result<Option<libc::flock>, Errno> {
        self.call(file, Command::Ask)
    }

    #[cfg(all(target_pointer_width = "64", any(target_os = "linux", target_vendor = "apple")))]
    fn call(self, file: impl AsFd, command: Command) -> Result<Option<libc::flock>, Errno> {
        let (operation, kind) = match command {
            Command::Set => (libc::F_OFD_SETLK, libc::F_WRLCK),
            Command::Remove => (libc::F_OFD_SETLK, libc::F_UNLCK),
            Command::Ask => (libc::F_OFD_GETLK, libc::F_RDLCK),
        };
        let mut range = libc::flock {
            l_type: kind as _,
            l_whence: libc::SEEK_SET as _,
            l_start: self.first,
            l_len: self.bytes,
            l_pid: 0,
        };
        let file = file.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open, and the operations take a pointer to a live struct.
        if unsafe { libc::fcntl(file, operation, &raw mut range) } == -1 {
            return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL));
        }
        let is_free = i64::from(range.l_type) == i64::from(libc::F_UNLCK);
        Ok((!is_free).then_some(range))
    }

    #[cfg(not(all(
        target_pointer_width = "64",
        any(target_os = "linux", target_vendor = "apple")
    )))]
    fn call(self, _: impl AsFd, _: Command) -> Result<Option<libc::flock>, Errno> {
        Err(Errno::NOSYS)
    }
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Set,
    Remove,
    Ask,
}
