//! Named pipes of Windows: instances that wait for clients, and their bytes.
//!
//! Windows has no `poll` for pipes. Every operation here is overlapped and has an event of its own,
//! and the thread that began it waits for that event, for one that ends the wait, and for a
//! deadline. An operation that did not end by itself is cancelled.
//!
//! Only here is unsafe code for Windows. Invariants:
//!
//! - W1: A function that begins an overlapped operation returns only after the system has ended it.
//!   So the system writes into no memory that is gone: neither into the structure of the operation,
//!   nor into the caller's bytes.
//! - W2: A handle that a system call gets is that of a live owner.
#![allow(unsafe_code, reason = "W1, W2")]

use std::{
    ffi::OsStr,
    fs::OpenOptions,
    io::{self, ErrorKind, IoSlice},
    os::windows::{
        ffi::OsStrExt as _,
        fs::OpenOptionsExt as _,
        io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle},
    },
    path::{Path, PathBuf},
    process, ptr,
    time::{Duration, Instant},
};

use windows_sys::Win32::{
    Foundation::{
        ERROR_ACCESS_DENIED, ERROR_IO_PENDING, ERROR_OPERATION_ABORTED, ERROR_PIPE_CONNECTED,
        HANDLE, INVALID_HANDLE_VALUE, LocalFree, WAIT_FAILED, WAIT_OBJECT_0,
    },
    Security::{
        Authorization::{
            ConvertStringSecurityDescriptorToSecurityDescriptorW as descriptor, SDDL_REVISION_1,
        },
        SECURITY_ATTRIBUTES,
    },
    Storage::FileSystem::{
        FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, PIPE_ACCESS_DUPLEX, ReadFile,
        SECURITY_IDENTIFICATION, WriteFile,
    },
    System::{
        IO::{CancelIoEx, GetOverlappedResult, OVERLAPPED},
        Pipes::{
            ConnectNamedPipe, CreateNamedPipeW, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_BYTE,
            PIPE_UNLIMITED_INSTANCES,
        },
        Threading::{CreateEventW, INFINITE, SetEvent, WaitForMultipleObjects},
    },
};

use crate::{error::Error, sync::Arc};

/// The number of bytes that the system keeps between a client and this process, in each direction.
/// .NET has as many.
const BUFFER: u32 = 16 << 10;
/// The most bytes of one write. A client shows that it reads when one is done.
const MOST: usize = 64 << 10;
/// The users that may open a pipe: the system, administrators, and the owner, who is the process's
/// user. The pipe's default would let everybody read.
const RIGHTS: &str = "D:P(A;;GA;;;SY)(A;;GA;;;BA)(A;;GA;;;OW)";

/// A descriptor that the child of a `fork` closes on other systems. There is no `fork` here.
#[derive(Debug)]
pub(crate) struct ClosedInChild;

/// A connection.
pub(crate) type Stream = Pipe;

/// The path of this process's own pipe.
pub(crate) fn own_path() -> PathBuf {
    format!(r"\\.\pipe\dotnet-diagnostic-{}", process::id()).into()
}

/// The path of the pipe that a port names: a name, or the whole path.
pub(crate) fn port_path(port: &Path) -> PathBuf {
    let is_path = port.as_os_str().as_encoded_bytes().starts_with(br"\\");
    if is_path { port.to_owned() } else { Path::new(r"\\.\pipe\").join(port) }
}

/// Something that happens once.
#[derive(Debug)]
pub(crate) struct Event(OwnedHandle);

impl Event {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointer is passed.
        let event = unsafe { CreateEventW(ptr::null(), 1, 0, ptr::null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is new, and has no other owner.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(event) }))
    }

    pub(crate) fn set(&self) {
        // SAFETY: W2.
        unsafe { SetEvent(self.raw()) };
    }

    /// Waits until it happens, or until the deadline. Whether it has happened.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> bool {
        wait(&[self], deadline) == Some(0)
    }

    fn raw(&self) -> HANDLE {
        self.0.as_raw_handle()
    }
}

/// Waits for the first of some events. Returns which it is. `None`: the deadline has passed.
fn wait(events: &[&Event], deadline: Option<Instant>) -> Option<usize> {
    let handles: Vec<HANDLE> = events.iter().map(|event| event.raw()).collect();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // Rounded up, so that the deadline has passed when this wakes.
        let milliseconds = left.map_or(INFINITE, |left| {
            u32::try_from(left.as_millis() + 1).unwrap_or(INFINITE - 1).min(INFINITE - 1)
        });
        // SAFETY: W2, and the list has as many handles as this says.
        let woken = unsafe {
            WaitForMultipleObjects(handles.len() as u32, handles.as_ptr(), 0, milliseconds)
        };
        let index = woken.wrapping_sub(WAIT_OBJECT_0) as usize;
        if index < events.len() {
            return Some(index);
        }
        if woken == WAIT_FAILED || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return None;
        }
    }
}

/// Makes the server end.
#[derive(Debug)]
pub(crate) struct Waker(pub(crate) Arc<Event>);

impl Waker {
    pub(crate) fn wake(&self) {
        self.0.set();
    }
}

/// One instance of a pipe, or a connection to one.
#[derive(Debug)]
pub(crate) struct Pipe {
    handle: OwnedHandle,
    /// Nothing more is read.
    closed: Event,
}

impl Pipe {
    /// Makes an instance that waits for a client. The first one of a path fails if there is such a
    /// pipe already.
    pub(crate) fn listen(path: &Path, is_first: bool) -> Result<Self, Error> {
        Self::instance(path.as_os_str(), is_first).map_err(|cause| {
            match is_first && cause.raw_os_error() == Some(ERROR_ACCESS_DENIED as i32) {
                true => Error::InUse { path: path.to_owned() },
                false => Error::Bind { path: path.to_owned(), cause },
            }
        })
    }

    fn instance(path: &OsStr, is_first: bool) -> io::Result<Self> {
        let path: Vec<u16> = path.encode_wide().chain([0]).collect();
        let rights: Vec<u16> = RIGHTS.encode_utf16().chain([0]).collect();
        let mut rights_of_pipe = ptr::null_mut();
        // SAFETY: the text ends with a zero, and the result goes into a live variable.
        let is_made = unsafe {
            descriptor(rights.as_ptr(), SDDL_REVISION_1, &raw mut rights_of_pipe, ptr::null_mut())
        };
        if is_made == 0 {
            return Err(io::Error::last_os_error());
        }
        let attributes = SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: rights_of_pipe,
            bInheritHandle: 0,
        };
        let first = if is_first { FILE_FLAG_FIRST_PIPE_INSTANCE } else { 0 };
        // SAFETY: the text ends with a zero, and the rights are those from above.
        let pipe = unsafe {
            CreateNamedPipeW(
                path.as_ptr(),
                PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | first,
                PIPE_TYPE_BYTE | PIPE_REJECT_REMOTE_CLIENTS,
                PIPE_UNLIMITED_INSTANCES,
                BUFFER,
                BUFFER,
                0,
                &raw const attributes,
            )
        };
        let failed = io::Error::last_os_error();
        // SAFETY: the system has made it for this, and nobody uses it any more.
        unsafe { LocalFree(rights_of_pipe) };
        if pipe == INVALID_HANDLE_VALUE {
            return Err(failed);
        }
        // SAFETY: the handle is new, and has no other owner.
        let handle = unsafe { OwnedHandle::from_raw_handle(pipe) };
        Ok(Self { handle, closed: Event::new()? })
    }

    /// Opens a pipe of another process, which learns who this user is and cannot act for it.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(FILE_FLAG_OVERLAPPED);
        let file = options.security_qos_flags(SECURITY_IDENTIFICATION).open(path)?;
        Ok(Self { handle: file.into(), closed: Event::new()? })
    }

    /// Waits for a client, until `stop` happens.
    pub(crate) fn accept(&self, stop: &Event) -> io::Result<()> {
        self.operation(&[stop], None, |pipe, operation| {
            // SAFETY: W1, W2.
            unsafe { ConnectNamedPipe(pipe, operation) }
        })
        .map(drop)
    }

    /// Reads what is there, and waits for the first of it. Fails with `TimedOut` at the deadline,
    /// and with `ConnectionAborted` when `stop` happens, or when the pipe is closed here.
    pub(crate) fn read(
        &self,
        bytes: &mut [u8],
        stop: Option<&Event>,
        deadline: Option<Instant>,
    ) -> io::Result<usize> {
        let (start, length) = (bytes.as_mut_ptr(), bytes.len().min(MOST) as u32);
        let ends: Vec<&Event> = [Some(&self.closed), stop].into_iter().flatten().collect();
        self.operation(&ends, deadline, |pipe, operation| {
            // SAFETY: W1, W2, and there are as many bytes as this says.
            unsafe { ReadFile(pipe, start, length, ptr::null_mut(), operation) }
        })
    }

    /// Writes some bytes. Fails with `TimedOut` if nobody reads them in time. Then some of them may
    /// have been read.
    fn write(&self, bytes: &[u8], patience: Duration) -> io::Result<usize> {
        let (start, length) = (bytes.as_ptr(), bytes.len().min(MOST) as u32);
        // A write goes on while the pipe is being closed.
        self.operation(&[], Some(Instant::now() + patience), |pipe, operation| {
            // SAFETY: W1, W2, and there are as many bytes as this says.
            unsafe { WriteFile(pipe, start, length, ptr::null_mut(), operation) }
        })
    }

    /// Writes all bytes. `patience` is for each 64 KiB of them.
    pub(crate) fn write_all(&self, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.write(bytes, patience)?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Begins an operation, and waits until it has ended by itself, or one of `ends` has happened,
    /// or until the deadline. Returns how many bytes it has moved.
    fn operation(
        &self,
        ends: &[&Event],
        deadline: Option<Instant>,
        begin: impl FnOnce(HANDLE, *mut OVERLAPPED) -> i32,
    ) -> io::Result<usize> {
        let pipe = self.handle.as_raw_handle();
        let done = Event::new()?;
        let ends = [&[&done], ends].concat();
        let mut operation = OVERLAPPED { hEvent: done.raw(), ..Default::default() };
        // From here on, the system uses what this points to, until `GetOverlappedResult` returns.
        let operation = &raw mut operation;
        if begin(pipe, operation) == 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error().map_or(0, |code| code as u32) {
                ERROR_IO_PENDING => {}
                // The client came before.
                ERROR_PIPE_CONNECTED => return Ok(0),
                _ => return Err(error),
            }
        }
        let ended = wait(&ends, deadline);
        if ended != Some(0) {
            // SAFETY: W2. The operation goes on until the result is there.
            unsafe { CancelIoEx(pipe, operation) };
        }
        let mut count = 0;
        // SAFETY: W2. This waits until the system has ended the operation.
        let is_done = unsafe { GetOverlappedResult(pipe, operation, &raw mut count, 1) };
        if is_done != 0 {
            return Ok(count as usize);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(ERROR_OPERATION_ABORTED as i32) {
            return Err(error);
        }
        Err(if ended.is_none() { ErrorKind::TimedOut } else { ErrorKind::ConnectionAborted }.into())
    }
}

/// Writes some bytes. Fails with `TimedOut` if the other side takes none within its patience.
pub(crate) fn send(
    stream: &Stream,
    pieces: &[IoSlice<'_>],
    patience: Duration,
) -> io::Result<usize> {
    let mut bytes = Vec::with_capacity(MOST);
    for piece in pieces {
        let room = MOST - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(room)]);
    }
    stream.write(&bytes, patience)
}

/// Makes the threads that read from a connection let go of it, which closes it.
pub(crate) fn close(stream: &Stream) {
    stream.closed.set();
}
