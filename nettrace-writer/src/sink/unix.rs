//! Files through the system calls of Unix.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, AsRawFd as _, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::complete::FileCalls;
use super::failure::during;
pub(super) use super::live::LockHolders;
use super::live::{Claim, LiveFile, check_that_nobody_writes};
use super::publish::Directory;
use super::stream::pause;

/// The pause between two checks for a reader of a named pipe, or for the right to replace a file.
const PAUSE: Duration = Duration::from_millis(5);
/// Time to wait for a process that replaces the same file, which soon has replaced it.
const CLAIM_PATIENCE: Duration = Duration::from_secs(1);
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const CREATE: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A regular file, open for writing.
#[derive(Debug)]
pub(super) struct RegularFile(LiveFile);

impl RegularFile {
    /// The identity of this file, whatever its name.
    pub(super) fn identity(&self) -> io::Result<Identity> {
        Identity::of_file(self.0.descriptor()?)
    }

    /// Says which closed files are those of this process, in ascending order.
    pub(super) fn keep_numbers(&self, numbers: impl Iterator<Item = u64>) {
        self.0.keep_numbers(numbers);
    }
}

impl FileCalls for RegularFile {
    fn write_at(&mut self, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(self.0.descriptor()?, pieces, offset)?)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(self.0.descriptor()?, length)?)
    }

    fn size_limit(&mut self) -> u64 {
        getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
    }

    fn too_large(&self) -> io::Error {
        Errno::FBIG.into()
    }

    /// After a truncation by somebody else, a write at the old end leaves zeros before it.
    fn is_whole(&self, first: u8, length: u64) -> bool {
        let byte = |offset| {
            let mut byte = [0];
            let count = rustix::io::pread(self.0.descriptor()?, &mut byte, offset)?;
            io::Result::Ok((count == 1).then_some(byte[0]))
        };
        match (byte(0), byte(length.saturating_sub(1))) {
            (Ok(start), Ok(end)) => start == Some(first) && end.is_some(),
            _ => true,
        }
    }

    fn has_name(&self) -> bool {
        let stat = self.0.descriptor().and_then(rustix::fs::fstat);
        stat.map_or(true, |stat| stat.st_nlink > 0)
    }
}

/// The device and inode number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The identity of the regular file that `path` names now. A link is not followed.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        Self::in_directory(CWD, path.as_os_str())
    }

    /// The same in an open directory.
    fn in_directory(directory: impl AsFd, name: &OsStr) -> io::Result<Self> {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok(Self::of(&stat))
    }

    /// The identity of what a link leads to.
    pub(super) fn of_target(link: &Path) -> io::Result<Self> {
        Ok(Self::of(&rustix::fs::stat(link)?))
    }

    pub(super) fn of_file(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::of(&rustix::fs::fstat(file)?))
    }

    #[allow(clippy::unnecessary_cast, reason = "the fields differ in type between systems")]
    fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev as u64, inode: stat.st_ino as u64 }
    }
}

/// A directory, by its descriptor: it stays the same one even if it is renamed meanwhile.
#[derive(Debug)]
pub(super) struct OpenDirectory(OwnedFd);

impl OpenDirectory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let access = OFlags::PATH;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let access = OFlags::RDONLY;
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(again(|| rustix::fs::open(path, flags, Mode::empty()))?))
    }

    /// The kind of file that `name` stands for. A link is not followed.
    pub(super) fn look(&self, name: &OsStr) -> io::Result<PathKind> {
        let stat = match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(PathKind::Nothing),
            Err(errno) => return Err(errno.into()),
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => PathKind::Regular,
            FileType::Symlink => PathKind::Link,
            FileType::Directory => PathKind::Directory,
            FileType::Fifo | FileType::CharacterDevice => PathKind::Stream,
            FileType::BlockDevice => PathKind::BlockDevice,
            FileType::Socket | FileType::Unknown => PathKind::Other,
        })
    }

    /// Opens a device or named pipe for writing. Waits up to `patience` for a pipe's reader.
    pub(super) fn open_stream(&self, name: &OsStr, patience: Duration) -> io::Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        refuse_foreign_pipe(&rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
        let since = Instant::now();
        let descriptor = loop {
            match again(|| rustix::fs::openat(&self.0, name, flags, Mode::empty())) {
                Err(Errno::NXIO) if since.elapsed() < patience => pause(PAUSE),
                Err(Errno::NXIO) => {
                    let text = format!("nothing read from it within {patience:?}");
                    return Err(io::Error::new(ErrorKind::TimedOut, text));
                }
                opened => break opened?,
            }
        };
        // The name may stand for something else since the check.
        let stat = rustix::fs::fstat(&descriptor)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            let text = "it became a regular file while it was opened";
            return Err(io::Error::new(ErrorKind::AlreadyExists, text));
        }
        refuse_foreign_pipe(&stat)?;
        let status = rustix::fs::fcntl_getfl(&descriptor)?;
        rustix::fs::fcntl_setfl(&descriptor, status - OFlags::NONBLOCK)?;
        Ok(File::from(descriptor))
    }
}

impl Directory for OpenDirectory {
    type File = RegularFile;
    type Claim = Claim;

    fn claim(&mut self, name: &OsStr) -> io::Result<Option<Claim>> {
        let since = Instant::now();
        loop {
            // To claim it, it has to be open for writing.
            let opened = open_existing(&self.0, name, OFlags::RDWR)
                .or_else(|_| open_existing(&self.0, name, OFlags::RDONLY));
            let file = match opened {
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::ACCESS) => {
                    let text = "it may not be opened to see whether somebody writes it; choose \
                                another name";
                    return Err(io::Error::new(ErrorKind::ResourceBusy, text));
                }
                Err(errno) => {
                    let text = "cannot open the old file to see whether somebody writes it";
                    return Err(during(text, errno.into()));
                }
                Ok(file) => file,
            };
            let identity = Identity::of_file(&file)?;
            // A file is live from its first instant or never.
            check_that_nobody_writes(&file)?;
            let claim = match Claim::on(file) {
                Err(file) if since.elapsed() >= CLAIM_PATIENCE => Claim::without_lock(file),
                claim => claim.ok(),
            };
            match claim {
                // The claim is on this file, which may have been replaced or moved meanwhile.
                Some(claim) => match Identity::in_directory(&self.0, name) {
                    Ok(named) if named == identity => return Ok(Some(claim)),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(error),
                },
                None if since.elapsed() < CLAIM_PATIENCE => pause(PAUSE),
                None => {
                    let text = "another process is replacing it; choose another name";
                    return Err(io::Error::new(ErrorKind::ResourceBusy, text));
                }
            }
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn create_unnamed(&mut self) -> io::Result<RegularFile> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = again(|| rustix::fs::openat(&self.0, ".", flags, MODE))?;
        // Without `/proc` it could not get a name, and that may come only when it is full.
        if Identity::of_target(&descriptor_path(&file))? != Identity::of_file(&file)? {
            return Err(ErrorKind::Unsupported.into());
        }
        Ok(RegularFile(LiveFile::new(file)))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn create_unnamed(&mut self) -> io::Result<RegularFile> {
        Err(ErrorKind::Unsupported.into())
    }

    fn link_unnamed(&mut self, file: &RegularFile, name: &OsStr) -> io::Result<()> {
        // The alternative, AT_EMPTY_PATH, needs a capability on kernels before 6.10.
        let path = descriptor_path(file.0.descriptor()?);
        Ok(rustix::fs::linkat(CWD, &path, &self.0, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn create_new(&mut self, name: &OsStr) -> io::Result<RegularFile> {
        let file = again(|| rustix::fs::openat(&self.0, name, CREATE, MODE))?;
        Ok(RegularFile(LiveFile::new(file)))
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    fn rename_new(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(&self.0, from, &self.0, to, flags)?)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    fn rename_new(&mut self, _from: &OsStr, _to: &OsStr) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn link(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match rustix::fs::linkat(&self.0, from, &self.0, to, AtFlags::empty()) {
            // Which of these says that there are no hard links depends on the file system.
            Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {
                Err(ErrorKind::Unsupported.into())
            }
            linked => Ok(linked?),
        }
    }

    fn rename(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    fn remove(&mut self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

/// Refuses a named pipe that somebody else has made, and could read. Root reads what it wants.
fn refuse_foreign_pipe(stat: &Stat) -> io::Result<()> {
    let is_pipe = FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
    if is_pipe && ![0, rustix::process::geteuid().as_raw()].contains(&stat.st_uid) {
        let text = "it is a named pipe of another user, who could read the trace; choose another \
                    name, or make the pipe as the user of this process";
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// The kind of file that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathKind {
    Nothing,
    Regular,
    Link,
    Directory,
    /// Something that is written in order: a named pipe or a character device.
    Stream,
    BlockDevice,
    Other,
}

/// The path that Linux has for an open file.
fn descriptor_path(file: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// Opens what is there, whatever it is: does not wait for the other end of a pipe, and follows no
/// link.
pub(crate) fn open_existing(
    directory: impl AsFd,
    name: &OsStr,
    access: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    again(|| rustix::fs::openat(directory.as_fd(), name, flags, Mode::empty()))
}

fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::publish::{Existing, publish_marked};
    use super::*;

    /// A real directory without some operations, as on other file systems.
    struct Lacking {
        real: OpenDirectory,
        unnamed: bool,
        rename_new: bool,
        link: bool,
    }

    fn only<T>(has: bool, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if has { call() } else { Err(ErrorKind::Unsupported.into()) }
    }

    impl Directory for Lacking {
        type File = RegularFile;
        type Claim = Claim;

        fn claim(&mut self, name: &OsStr) -> io::Result<Option<Claim>> {
            self.real.claim(name)
        }

        fn create_unnamed(&mut self) -> io::Result<RegularFile> {
            only(self.unnamed, || self.real.create_unnamed())
        }

        fn link_unnamed(&mut self, file: &RegularFile, name: &OsStr) -> io::Result<()> {
            self.real.link_unnamed(file, name)
        }

        fn create_new(&mut self, name: &OsStr) -> io::Result<RegularFile> {
            self.real.create_new(name)
        }

        fn rename_new(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            only(self.rename_new, || self.real.rename_new(from, to))
        }

        fn link(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            only(self.link, || self.real.link(from, to))
        }

        fn rename(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            self.real.rename(from, to)
        }

        fn remove(&mut self, name: &OsStr) -> io::Result<()> {
            self.real.remove(name)
        }
    }

    #[test]
    fn each_way_names_a_real_file_once() {
        let ways = [(true, true, true), (false, true, true), (false, false, true)];
        for (unnamed, rename_new, link) in ways.into_iter().chain([(false, false, false)]) {
            let folder = tempfile::tempdir().unwrap();
            let real = OpenDirectory::open(folder.path()).unwrap();
            let mut directory = Lacking { real, unnamed, rename_new, link };
            let name = OsStr::new("trace");
            let file =
                publish_marked(&mut directory, name, Existing::Stays, b"header", b"end").unwrap();
            let path = folder.path().join(name);
            assert_eq!(fs::read(&path).unwrap(), b"headerend");
            assert_eq!(file.calls().identity().unwrap(), Identity::at(&path).unwrap());
            let error = publish_marked(&mut directory, name, Existing::Stays, b"other", b"end")
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"headerend");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a hidden file is left");
        }
    }
}
