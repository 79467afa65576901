//! The socket: its name, who may connect, and its removal.

use std::{
    fs,
    io::{self, ErrorKind, IoSlice, Write as _},
    net::Shutdown,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileTypeExt as _, MetadataExt as _},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

use nettrace_writer::companion::variable;
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::fs::fchmod;
#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
use rustix::fs::{AtFlags, OFlags};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::Mode,
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen},
};

pub(crate) use crate::descriptors::ClosedInChild;
use crate::error::Error;

/// A connection.
pub(crate) type Stream = UnixStream;

/// The number of connections that the system keeps for us until we accept them.
const BACKLOG: i32 = 128;
/// The most bytes in a path: one less than in the system's structure.
const LONGEST_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The folder in which tools look for sockets.
pub(crate) fn directory() -> PathBuf {
    let set = variable("TMPDIR").filter(|folder| !folder.is_empty());
    set.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// The name of this process's socket.
pub(crate) fn name() -> String {
    format!("dotnet-diagnostic-{}-{}-socket", process::id(), start_time(process::id()).unwrap_or(0))
}

/// When a process began, in the unit of .NET: on Linux, clock ticks since the machine started. It
/// tells two processes with the same id apart. `None` if there is no such process, or if the system
/// does not tell.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses, and can have spaces and parentheses of its own. It
    // is the second field, and the time is the 22nd.
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// One end of a pair of sockets. The server sleeps at the other end.
#[derive(Debug)]
pub(crate) struct Waker(pub(crate) UnixStream);

impl Waker {
    /// Makes the server end.
    pub(crate) fn wake(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A socket that listens at a path, which is removed on drop.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) listener: UnixListener,
    pub(crate) address: Address,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.address.remove();
    }
}

/// The path of a socket, and which file it was when the socket was made.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) path: PathBuf,
    /// The number of the device, and of the file on it.
    file: (u64, u64),
}

impl Address {
    /// Removes the socket, unless another has taken its path.
    pub(crate) fn remove(&self) {
        if file_at(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Listening {
    /// Makes a socket at `path`. One that nobody listens at is removed first: only a process with
    /// the same id, which has died, can have made it.
    pub(crate) fn new(path: PathBuf) -> Result<Self, Error> {
        let failed = |cause: io::Error| Error::Bind { path: path.clone(), cause };
        let address = SocketAddrUnix::new(&*path).map_err(|_| path_too_long(path.clone()))?;
        let mut socket = listen_at(&path, &address);
        if matches!(&socket, Err(Errno::ADDRINUSE)) {
            if !is_stale(&path) {
                return Err(Error::InUse { path });
            }
            fs::remove_file(&path).map_err(failed)?;
            socket = listen_at(&path, &address);
        }
        let listener = UnixListener::from(socket.map_err(|errno| failed(errno.into()))?);
        let file = own_socket_at(&path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, address: Address { path, file } })
    }
}

pub(crate) fn path_too_long(path: PathBuf) -> Error {
    Error::PathTooLong { path, limit: LONGEST_PATH }
}

/// A socket that programs do not inherit which this process starts.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn new_socket() -> Result<OwnedFd, Errno> {
    use rustix::net::{SocketFlags, socket_with};

    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// A socket that programs do not inherit which this process starts, unless it starts one in the
/// middle: these systems can say so only afterwards.
#[cfg(target_vendor = "apple")]
pub(crate) fn new_socket() -> Result<OwnedFd, Errno> {
    use rustix::io::{FdFlags, fcntl_setfd};

    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    Ok(socket)
}

/// A socket that listens at a path, with a file that is for its user alone from the first moment.
/// The modes of a file at that path are never changed: in a folder that others can write to, it
/// may be theirs by then, or lead to any other.
fn listen_at(path: &Path, address: &SocketAddrUnix) -> Result<OwnedFd, Errno> {
    let socket = new_socket()?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // The system takes the modes of the file from the socket.
        let _ = path;
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, address)?;
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = address;
        bind_privately(&socket, path)?;
    }
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Gives a socket its file where the system does not take the modes from the socket: in a folder
/// that only this user may enter, from which it comes to its path.
#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
fn bind_privately(socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
    const NAME: &str = "s";

    let private = path.with_file_name(format!(".nettrace-{}", process::id()));
    let own = rustix::process::geteuid().as_raw();
    // One that a process of this id has left behind, and no link that somebody else has made.
    let is_left = |found: fs::Metadata| found.is_dir() && found.uid() == own;
    if fs::symlink_metadata(&private).is_ok_and(is_left) {
        let _ = fs::remove_file(private.join(NAME));
        let _ = fs::remove_dir(&private);
    }
    rustix::fs::mkdir(&private, Mode::RWXU)?;
    let make = || {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&private, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&folder)?;
        if found.st_uid != own || Mode::from_raw_mode(found.st_mode) != Mode::RWXU {
            return Err(Errno::PERM);
        }
        bind(socket, &SocketAddrUnix::new(private.join(NAME))?)?;
        // In the folder that was opened, whatever is at its path now.
        rustix::fs::chmodat(&folder, NAME, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        if fs::symlink_metadata(path).is_ok() {
            let _ = rustix::fs::unlinkat(&folder, NAME, AtFlags::empty());
            return Err(Errno::ADDRINUSE);
        }
        rustix::fs::renameat(&folder, NAME, rustix::fs::CWD, path)
    };
    let made = make();
    let _ = fs::remove_dir(&private);
    made
}

/// The identity of a socket's file that was made at a path, unless another has taken its place.
fn own_socket_at(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if !found.file_type().is_socket() || !is_ours {
        return Err(io::Error::other("somebody has exchanged it"));
    }
    if found.mode() & 0o600 != 0o600 {
        let _ = fs::remove_file(path);
        return Err(io::Error::other("the umask takes rights from the process's own user"));
    }
    Ok((found.dev(), found.ino()))
}

/// Whether there is a socket that nobody listens at.
fn is_stale(path: &Path) -> bool {
    // The system also says of any other file that nobody listens there.
    let is_socket = |metadata: fs::Metadata| metadata.file_type().is_socket();
    if !fs::symlink_metadata(path).is_ok_and(is_socket) {
        return false;
    }
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    UnixStream::connect(path).is_err_and(refused)
}

/// Whether the process at the other end may use this one: it has the same user, or is root's.
///
/// The modes of the socket already say so. This holds as well if somebody has changed them. Users
/// that this process's namespace does not have all look like `nobody`: they are refused, unless
/// this process is `nobody`'s. Then the modes alone decide.
#[cfg(target_os = "linux")]
pub(crate) fn is_allowed(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    crate::peer::peer(stream).is_ok_and(|peer| peer.uid == 0 || peer.uid == own)
}

/// The modes of the socket decide.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_allowed(_: &UnixStream) -> bool {
    true
}

/// Writes some bytes. Fails with `TimedOut` if the other side takes none within its patience.
pub(crate) fn send(
    mut stream: &Stream,
    pieces: &[IoSlice<'_>],
    patience: Duration,
) -> io::Result<usize> {
    let mut since = None;
    loop {
        let error = match stream.write_vectored(pieces) {
            Ok(count) => return Ok(count),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Interrupted => {}
            ErrorKind::WouldBlock => {
                let waited = since.get_or_insert_with(Instant::now).elapsed();
                let left = patience.saturating_sub(waited);
                if left.is_zero() {
                    return Err(ErrorKind::TimedOut.into());
                }
                let mut events = [PollFd::new(stream, PollFlags::OUT)];
                let left = left.max(Duration::from_millis(1)).try_into().ok();
                // An error shows again at the next write.
                let _ = poll(&mut events, left.as_ref());
            }
            _ => return Err(error),
        }
    }
}

/// Ends a connection in both directions, also if a child of a `fork` has a copy of its descriptor.
pub(crate) fn close(stream: &Stream) {
    let _ = stream.shutdown(Shutdown::Both);
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a neighbour's thread")]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt as _, symlink},
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_socket_is_private_from_the_first_moment() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("socket");
        let mode = || fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777;
        // Before anything else can happen to the file.
        let socket = listen_at(&path, &SocketAddrUnix::new(&*path).unwrap()).unwrap();
        assert_eq!(mode(), 0o600);
        drop(socket);
        fs::remove_file(&path).unwrap();
        // As other systems do it, after a process that has died in between.
        let private = path.with_file_name(format!(".nettrace-{}", process::id()));
        fs::create_dir(private).unwrap();
        let socket = new_socket().unwrap();
        bind_privately(&socket, &path).unwrap();
        listen(&socket, BACKLOG).unwrap();
        assert_eq!(mode(), 0o600);
        UnixStream::connect(&path).unwrap();
        let other = new_socket().unwrap();
        assert_eq!(bind_privately(&other, &path), Err(Errno::ADDRINUSE));
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn a_private_folder_that_is_a_neighbours_link_leads_nowhere() {
        let folder = tempdir().unwrap();
        let [path, foreign] = ["socket", "foreign"].map(|it| folder.path().join(it));
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("s"), "theirs").unwrap();
        let link = path.with_file_name(format!(".nettrace-{}", process::id()));
        symlink(&foreign, &link).unwrap();
        assert!(bind_privately(&new_socket().unwrap(), &path).is_err());
        assert_eq!(fs::read_to_string(foreign.join("s")).unwrap(), "theirs");
    }

    #[test]
    fn a_neighbour_who_exchanges_the_socket_changes_no_file_of_others() {
        let folder = tempdir().unwrap();
        let [path, aside, victim] = ["socket", "aside", "victim"].map(|it| folder.path().join(it));
        fs::write(&victim, "").unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o644)).unwrap();
        let over = AtomicBool::new(false);
        let exchange = || {
            while !over.load(Ordering::Relaxed) {
                if fs::rename(&path, &aside).is_ok() {
                    let _ = symlink(&victim, &path);
                }
            }
        };
        let mut made = 0;
        thread::scope(|scope| {
            scope.spawn(exchange);
            for _ in 0..2_000 {
                made += u32::from(Listening::new(path.clone()).is_ok());
                let _ = fs::remove_file(&path);
            }
            over.store(true, Ordering::Relaxed);
        });
        println!("{made} of 2000 were made before they were exchanged");
        let mode = fs::metadata(&victim).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }
}
