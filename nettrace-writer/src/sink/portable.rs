//! Files through the standard library alone, for systems other than Unix.
//!
//! The same steps make the same files. But checking a name and using it are two system calls, and
//! there is no file mode: a new file inherits its directory's rights.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::complete::FileCalls;
use super::publish::Directory;

/// A regular file, open for writing.
#[derive(Debug)]
pub(super) struct RegularFile(File);

impl RegularFile {
    /// The identity of this file, as opposed to others that had its name.
    pub(super) fn identity(&self) -> io::Result<Identity> {
        Ok(Identity { created: self.0.metadata()?.created().ok() })
    }

    /// There are no locks that say so.
    #[cfg_attr(unix, allow(dead_code, reason = "on Unix, locks tell"))]
    pub(super) fn keep_numbers(&self, _: impl Iterator<Item = u64>) {}
}

impl FileCalls for RegularFile {
    fn write_at(&mut self, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.0.seek(SeekFrom::Start(offset))?;
        self.0.write_vectored(pieces)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn size_limit(&mut self) -> u64 {
        u64::MAX
    }

    fn too_large(&self) -> io::Error {
        ErrorKind::FileTooLarge.into()
    }

    fn is_whole(&self, _first: u8, length: u64) -> bool {
        self.0.metadata().map_or(true, |metadata| metadata.len() >= length)
    }
}

/// The time at which a file was created, if the system knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    created: Option<SystemTime>,
}

impl Identity {
    /// The identity of the regular file that `path` names now. A link is not followed.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok(Self { created: metadata.created().ok() })
    }
}

/// A directory, by its path.
#[derive(Debug)]
pub(super) struct OpenDirectory(PathBuf);

impl OpenDirectory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        if !fs::metadata(path)?.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        Ok(Self(path.to_owned()))
    }

    /// The kind of file that `name` stands for. A link is not followed.
    pub(super) fn look(&self, name: &OsStr) -> io::Result<PathKind> {
        let file_type = match fs::symlink_metadata(self.0.join(name)) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(PathKind::Nothing),
            Err(error) => return Err(error),
        };
        Ok(if file_type.is_symlink() {
            PathKind::Link
        } else if file_type.is_dir() {
            PathKind::Directory
        } else if file_type.is_file() {
            PathKind::Regular
        } else {
            PathKind::Stream
        })
    }

    /// Opens for writing something other than a file, link or directory.
    pub(super) fn open_stream(&self, name: &OsStr, _patience: Duration) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.0.join(name))
    }
}

impl Directory for OpenDirectory {
    type File = RegularFile;
    type Claim = ();

    fn claim(&mut self, name: &OsStr) -> io::Result<Option<()>> {
        let path = self.0.join(name);
        if is_live(&path)? {
            let text = "another session or process is writing it; choose another name";
            return Err(io::Error::new(ErrorKind::ResourceBusy, text));
        }
        Ok(path.exists().then_some(()))
    }

    fn create_unnamed(&mut self) -> io::Result<RegularFile> {
        Err(ErrorKind::Unsupported.into())
    }

    fn link_unnamed(&mut self, _file: &RegularFile, _name: &OsStr) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn create_new(&mut self, name: &OsStr) -> io::Result<RegularFile> {
        let path = self.0.join(name);
        OpenOptions::new().write(true).create_new(true).open(path).map(RegularFile)
    }

    fn rename_new(&mut self, _from: &OsStr, _to: &OsStr) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn link(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        /// ERROR_INVALID_FUNCTION and ERROR_NOT_SUPPORTED of Windows, which FAT returns.
        const NO_LINKS: [Option<i32>; 2] = [Some(1), Some(50)];

        let linked = fs::hard_link(self.0.join(from), self.0.join(to));
        linked.map_err(|error| {
            let unsupported = cfg!(windows) && NO_LINKS.contains(&error.raw_os_error());
            if unsupported { ErrorKind::Unsupported.into() } else { error }
        })
    }

    fn rename(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&mut self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }
}

/// The locks of others on a file.
#[cfg_attr(unix, allow(dead_code, reason = "on Unix, locks tell"))]
#[derive(Debug, Default)]
pub(super) struct LockHolders {
    pub(super) is_live: bool,
    /// The numbers of the files that its process has closed, which no system tells here.
    pub(super) numbers: Vec<Range<u64>>,
}

impl LockHolders {
    #[cfg_attr(unix, allow(dead_code, reason = "on Unix, locks tell"))]
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { is_live: is_live(path)?, numbers: Vec::new() })
    }
}

/// Whether somebody has the file open for writing. Only Windows tells, and an instant later that
/// may have changed.
fn is_live(path: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt as _;

        // FILE_SHARE_READ and FILE_SHARE_DELETE, without FILE_SHARE_WRITE.
        options.share_mode(1 | 4);
    }
    match options.open(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        // ERROR_SHARING_VIOLATION
        Err(error) if cfg!(windows) && error.raw_os_error() == Some(32) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The kind of file that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the same list as on Unix, which knows more kinds")]
pub(super) enum PathKind {
    Nothing,
    Regular,
    Link,
    Directory,
    /// Something that is written in order.
    Stream,
    BlockDevice,
    Other,
}

#[cfg(test)]
mod tests {
    use super::super::Batch;
    use super::super::publish::{Existing, publish_marked};
    use super::*;

    const END: &[u8] = &[0; 4];

    #[test]
    fn a_file_grows_and_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let name = path.file_name().unwrap();
        let mut directory = OpenDirectory::open(folder.path()).unwrap();
        assert_eq!(directory.look(name).unwrap(), PathKind::Nothing);
        let mut file =
            publish_marked(&mut directory, name, Existing::Stays, b"header", END).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"header\0\0\0\0");
        assert_eq!(directory.look(name).unwrap(), PathKind::Regular);
        assert_eq!(file.calls().identity().unwrap(), Identity::at(&path).unwrap());

        let pieces = [IoSlice::new(b"blo"), IoSlice::new(b"ck"), IoSlice::new(b"block")];
        for _ in 0..2 {
            file.append(&Batch::new(&pieces, &[5, 10])).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), b"headerblockblockblockblock\0\0\0\0");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        let taken =
            publish_marked(&mut directory, name, Existing::Stays, b"header", END).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        publish_marked(&mut directory, name, Existing::IsReplaced, b"other", END).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"other\0\0\0\0");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_file_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        let directory = OpenDirectory::open(folder.path()).unwrap();
        assert_eq!(directory.look(OsStr::new("folder")).unwrap(), PathKind::Directory);
        assert!(Identity::at(&folder.path().join("folder")).is_err());
        assert!(OpenDirectory::open(&folder.path().join("absent")).is_err());
        let devices = OpenDirectory(PathBuf::from("/dev"));
        if let Ok(PathKind::Stream) = devices.look(OsStr::new("null")) {
            let mut null = devices.open_stream(OsStr::new("null"), Duration::ZERO).unwrap();
            null.write_all(b"gone").unwrap();
        }
    }
}
