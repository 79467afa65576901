//! The process at the other end of a connection. The system knows; a name of a socket is only a
//! claim.
//!
//! On Linux a client is told who listens, and a server who has connected. On other systems neither
//! is asked: there the modes of the socket, and of its folder, decide.
#![cfg_attr(
    target_os = "linux",
    allow(unsafe_code, reason = "one `getsockopt`, into its own value")
)]

#[cfg(target_os = "linux")]
use std::io;
use std::os::unix::net::UnixStream;

/// A process, as this one sees it.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// 0 if it is in a namespace of processes that this one does not see.
    pub(crate) pid: u32,
    /// The user of the process, or `nobody` if this process's namespace of users does not have that
    /// user.
    pub(crate) uid: u32,
}

/// The process that listens at the other end, or that has connected.
///
/// rustix has this, too, but there a process id is never 0.
#[cfg(target_os = "linux")]
pub(crate) fn peer(stream: &UnixStream) -> io::Result<Peer> {
    use std::os::fd::AsRawFd as _;

    let mut told = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the system writes at most `size` bytes to `told`, which is so large, and lives.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), level, option, (&raw mut told).cast(), &raw mut size)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { pid: u32::try_from(told.pid).unwrap_or(0), uid: told.uid })
}

/// The system's record of a live process.
#[cfg(target_os = "linux")]
struct PeerStatus {
    /// The effective user. The owner of `/proc/PID` is root where a program has changed its rights.
    uid: u32,
    /// The id that the process has for itself: in its own namespace.
    own_pid: u32,
}

#[cfg(target_os = "linux")]
fn status(pid: u32) -> Option<PeerStatus> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let words = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::split_ascii_whitespace)
    };
    let uid = words("Uid:")?.nth(1)?.parse().ok()?;
    // Kernels without these namespaces have no such line.
    let own_pid = words("NSpid:").and_then(|mut ids| ids.next_back()?.parse().ok()).unwrap_or(pid);
    Some(PeerStatus { uid, own_pid })
}

/// Whether the process `pid` listens at the other end, and its user has made it do so. If not, why.
///
/// A listener of root's is believed as well: a process that began as root's keeps its socket when
/// it takes another user.
#[cfg(target_os = "linux")]
pub(crate) fn belongs_to(stream: &UnixStream, pid: u32) -> Result<(), String> {
    let peer = peer(stream).map_err(|error| error.to_string())?;
    if peer.pid == 0 {
        return Err("its process is in another namespace of processes, so the system does not \
                    tell whose it is; run this command there, or on the host"
            .to_owned());
    }
    if peer.pid != pid {
        return Err(format!("process {} of user {} listens there", peer.pid, peer.uid));
    }
    match status(pid) {
        Some(status) if peer.uid == status.uid || peer.uid == 0 => Ok(()),
        Some(status) => Err(format!(
            "user {} listens there, and the process is user {}'s",
            peer.uid, status.uid
        )),
        None => Err("there is no such process".to_owned()),
    }
}

/// The process that listens at the other end, if it knows itself by the id `own`: one of a
/// container, for instance, that this process sees under another id.
#[cfg(target_os = "linux")]
pub(crate) fn known_to_itself_as(stream: &UnixStream, own: u32) -> Option<u32> {
    let pid = peer(stream).ok()?.pid;
    (pid != 0 && status(pid)?.own_pid == own).then_some(pid)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn belongs_to(_: &UnixStream, _: u32) -> Result<(), String> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn known_to_itself_as(_: &UnixStream, own: u32) -> Option<u32> {
    Some(own)
}
