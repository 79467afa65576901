//! The thread that a flusher runs on.
//!
//! It is a thread of the standard library, except in the child of a `fork`. Such a thread takes a
//! lock of the standard library when it begins and when it ends, for its message about stack
//! overflows. If a thread of the parent held that lock during the fork, it stays locked in the
//! child, and no thread of the standard library begins there. So in a child the flusher runs on a
//! thread of the C library, which repairs its own locks at a fork. The system knows that thread's
//! name, the standard library does not.

use std::{ffi::CStr, io};

use crate::{
    flusher::signals,
    process::{environment, generation},
    shared::channel::bounded,
    sync::thread::{self, JoinHandle, ThreadId},
};

/// The bytes of stack that a flusher asks for: as many as the standard library gives a thread.
/// 16 KiB are not enough for it, and the user's sink runs there as well. Memory is taken only for
/// what is used.
const STACK: usize = 2 << 20;

/// A flusher's thread, as its session sees it.
#[derive(Debug)]
pub(crate) struct OwnThread {
    id: ThreadId,
    /// `None` for a thread of the C library, which nobody joins.
    std: Option<JoinHandle<()>>,
}

impl OwnThread {
    /// Runs `work` on a thread of its own, which takes no signals. The system keeps the first 15
    /// bytes of the name.
    pub(crate) fn start(
        name: &'static CStr,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        if cfg!(not(unix)) || generation() == 0 {
            let std = thread::Builder::new().name(name.to_string_lossy().into_owned());
            let std = std.stack_size(stack_size());
            let std = signals::blocked(|| std.spawn(work))?;
            return Ok(Self { id: std.thread().id(), std: Some(std) });
        }
        let (told, id) = bounded(1);
        let work = move || {
            // This cannot fail, because the other side waits for the id.
            let _ = told.send(thread::current().id());
            work();
        };
        signals::blocked(|| bare::start(name, Box::new(work)))?;
        let id = id.recv().map_err(|_| io::Error::other("the thread has ended"))?;
        Ok(Self { id, std: None })
    }

    /// Whether it is the calling thread.
    pub(crate) fn is_current(&self) -> bool {
        self.id == thread::current().id()
    }

    /// Waits until the thread has ended, if that is possible.
    pub(crate) fn join(self) {
        self.std.map(JoinHandle::join);
    }
}

/// The size of the stack. `RUST_MIN_STACK` can make it larger: it is meant for the program's own
/// threads, which may need less.
fn stack_size() -> usize {
    let asked = environment::variable("RUST_MIN_STACK");
    let asked = asked.and_then(|asked| asked.to_str()?.parse().ok());
    STACK.max(asked.unwrap_or(0))
}

#[cfg(unix)]
#[allow(
    unsafe_code,
    reason = "calls of the C library on local variables, and a box that they pass"
)]
mod bare {
    use std::{
        ffi::{CStr, c_void},
        io,
        mem::MaybeUninit,
        panic::{AssertUnwindSafe, catch_unwind},
        ptr,
    };

    type Work = Box<dyn FnOnce() + Send>;

    /// The name of a thread, and what it does.
    struct Start {
        name: &'static CStr,
        work: Work,
    }

    extern "C" fn enter(start: *mut c_void) -> *mut c_void {
        // SAFETY: `start` passes a box and gives it up.
        let Start { name, work } = *unsafe { Box::from_raw(start.cast::<Start>()) };
        #[cfg(target_os = "linux")]
        // SAFETY: the name ends in NUL and lives as long as the program. The system takes the first
        // 15 bytes.
        unsafe {
            libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        }
        #[cfg(not(target_os = "linux"))]
        let _ = name;
        // A function of C must not unwind.
        let _ = catch_unwind(AssertUnwindSafe(work));
        ptr::null_mut()
    }

    /// Starts a thread of the C library.
    pub(super) fn start(name: &'static CStr, work: Work) -> io::Result<()> {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: fills the attributes that it is given.
        check(unsafe { libc::pthread_attr_init(attributes) })?;
        // SAFETY: the attributes were filled above.
        unsafe { libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED) };
        // SAFETY: as above.
        unsafe { libc::pthread_attr_setstacksize(attributes, super::stack_size()) };
        let start = Box::into_raw(Box::new(Start { name, work }));
        let mut thread = MaybeUninit::uninit();
        // SAFETY: all pointers are live; `enter` takes the box over.
        let started =
            unsafe { libc::pthread_create(thread.as_mut_ptr(), attributes, enter, start.cast()) };
        // SAFETY: the attributes were filled above and are not used again.
        unsafe { libc::pthread_attr_destroy(attributes) };
        check(started).inspect_err(|_| {
            // SAFETY: the box is from above, and no thread has begun that would take it over.
            drop(unsafe { Box::from_raw(start) });
        })
    }

    fn check(result: libc::c_int) -> io::Result<()> {
        if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
    }
}

#[cfg(not(unix))]
mod bare {
    use std::{ffi::CStr, io};

    /// There is no `fork`.
    pub(super) fn start(_: &'static CStr, _: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
