//! Hears of a tool that begins to listen, so that nobody has to look for it twice a second.
//!
//! A watch is on the folder of a socket. Other files that appear there wake the server as well, so
//! after such a wake-up the watch rests for a while.

use std::{
    ffi::OsString,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::inotify::{
    CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init as inotify_init,
};

use crate::descriptors::ClosedInChild;

/// Time that a watch rests after a file appeared that is not the tool's.
const REST: Duration = Duration::from_millis(500);
/// Room for some events. The longest name of a file is 255 bytes.
const ROOM: usize = 2_048;

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEvent {
    /// Nothing, or other files.
    Others,
    /// A file has come to the path. Or more has happened than the system remembers.
    Arrival,
    /// The folder is not where it was.
    FolderGone,
}

/// A watch on one path.
#[derive(Debug)]
pub(crate) struct PathWatch {
    /// Before the descriptor.
    _kept: ClosedInChild,
    inotify: OwnedFd,
    name: OsString,
    rests_until: Option<Instant>,
}

impl PathWatch {
    /// `None`: there is no such folder, or the user has as many watches as the system allows.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let inotify = inotify_init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let kept = ClosedInChild::new(&inotify)?;
        let arrivals = WatchFlags::CREATE | WatchFlags::MOVED_TO;
        let ends = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        let folder = folder.unwrap_or(Path::new("."));
        add_watch(&inotify, folder, arrivals | ends | WatchFlags::ONLYDIR).ok()?;
        let name = path.file_name()?.to_owned();
        Some(Self { _kept: kept, inotify, name, rests_until: None })
    }

    /// Time to wait. `None`: the watch rests.
    pub(crate) fn waits(&self, now: Instant) -> Option<BorrowedFd<'_>> {
        self.rests_until.is_none_or(|until| until <= now).then(|| self.inotify.as_fd())
    }

    /// When it no longer rests.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        self.rests_until
    }

    /// The changes since the last call.
    pub(crate) fn see(&mut self, now: Instant) -> WatchEvent {
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut events = Reader::new(&self.inotify, &mut room);
        let mut seen = WatchEvent::Others;
        while let Ok(event) = events.next() {
            let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
            let is_ours = || {
                let name = event.file_name();
                name.is_some_and(|name| name.to_bytes() == self.name.as_bytes())
            };
            if event.events().intersects(gone) {
                return WatchEvent::FolderGone;
            } else if event.events().contains(ReadFlags::QUEUE_OVERFLOW) || is_ours() {
                seen = WatchEvent::Arrival;
            }
        }
        self.rests_until = (seen == WatchEvent::Others).then(|| now + REST);
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_watch_tells_the_path_from_others_and_rests_after_those() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("port");
        let mut watch = PathWatch::new(&path).unwrap();
        let now = Instant::now();
        assert_eq!(watch.see(now), WatchEvent::Others);
        fs::write(folder.path().join("porter"), "").unwrap();
        assert_eq!(watch.see(now), WatchEvent::Others);
        assert!(watch.waits(now).is_none() && watch.waits(now + REST).is_some());
        fs::write(&path, "").unwrap();
        assert_eq!(watch.see(now), WatchEvent::Arrival);
        assert!(watch.waits(now).is_some());
        assert_eq!(watch.see(now), WatchEvent::Others);
        // A file that comes by another name.
        fs::rename(folder.path().join("porter"), &path).unwrap();
        assert_eq!(watch.see(now), WatchEvent::Arrival);
        drop(folder);
        assert_eq!(watch.see(now), WatchEvent::FolderGone);
        assert!(PathWatch::new(&path).is_none());
    }
}
