//! A port that this process connects to.

use std::{
    io::{self, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process,
    time::Instant,
};

use rustix::{
    io::ioctl_fionbio,
    net::{SocketAddrUnix, connect},
};

use crate::{
    ports::{Delay, advertisement},
    socket::new_socket,
    watch::{PathWatch, WatchEvent},
};

/// A port that this process connects to.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The index of the server's port.
    pub(crate) port: usize,
    address: SocketAddrUnix,
    path: PathBuf,
    /// While nobody listens.
    pub(crate) watch: Option<PathWatch>,
    /// When to connect. `None`: a connection waits for a command.
    pub(crate) due: Option<Instant>,
    delay: Delay,
}

impl Outgoing {
    /// `None`: the path is too long for a socket.
    pub(crate) fn new(port: usize, path: &Path) -> Option<Self> {
        let address = SocketAddrUnix::new(path).ok()?;
        let (due, path) = (Some(Instant::now()), path.to_owned());
        Some(Self { port, address, path, watch: None, due, delay: Delay::new() })
    }

    /// Connects, and says whose connection it is. If nobody listens, tries again later.
    ///
    /// The user at the other end is not checked: who sets the environment of a process may do
    /// anything with it, and a tool in another container has another user.
    pub(crate) fn connect(&mut self, cookie: [u8; 16], now: Instant) -> Option<UnixStream> {
        let mut connected = self.try_to_connect(cookie);
        if connected.is_err() && self.watch.is_none() {
            self.watch = PathWatch::new(&self.path);
            if self.watch.is_some() {
                // A tool may have come before the watch.
                connected = self.try_to_connect(cookie);
            }
        }
        match connected {
            Ok(stream) => {
                self.watch = None;
                self.due = None;
                Some(stream)
            }
            Err(_) => {
                self.retry(now);
                None
            }
        }
    }

    /// The watch has something to tell.
    pub(crate) fn look(&mut self, now: Instant) {
        match self.watch.as_mut().map(|watch| watch.see(now)) {
            // It will listen any moment.
            Some(WatchEvent::Arrival) => self.again(now),
            Some(WatchEvent::FolderGone) => self.watch = None,
            Some(WatchEvent::Others) | None => {}
        }
    }

    fn try_to_connect(&self, cookie: [u8; 16]) -> io::Result<UnixStream> {
        let socket = new_socket()?;
        ioctl_fionbio(&socket, true)?;
        connect(&socket, &self.address)?;
        let mut stream = UnixStream::from(socket);
        // There is room for it, because nothing was written before.
        stream.write_all(&advertisement(cookie, process::id()))?;
        Ok(stream)
    }

    /// The connection was not used: nobody listens, or the tool has closed it.
    pub(crate) fn retry(&mut self, now: Instant) {
        self.due = Some(now + self.delay.next());
    }

    /// A tool is there: the connection is in use, so it needs another for its next command, or it
    /// has just come.
    pub(crate) fn again(&mut self, now: Instant) {
        self.delay = Delay::new();
        self.due = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::DELAYS;

    #[test]
    fn retries_become_rarer() {
        let mut outgoing = Outgoing::new(1, Path::new("/no/such/socket")).unwrap();
        let now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..40 {
            assert!(outgoing.connect([0; 16], now).is_none());
            delays.push(outgoing.due.unwrap() - now);
        }
        assert!(delays.is_sorted(), "{delays:?}");
        assert_eq!((delays[0], delays[39]), DELAYS);
        outgoing.again(now);
        assert_eq!(outgoing.due, Some(now));
        outgoing.retry(now);
        assert_eq!(outgoing.due, Some(now + DELAYS.0));
        assert!(Outgoing::new(1, Path::new(&"x".repeat(200))).is_none());
    }
}
