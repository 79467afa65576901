//! Threads of another process, which run one instruction at a time.
//!
//! Invariant:
//!
//! - T1: the calls of `ptrace` and `waitpid` here name a thread of a child process by its id. They
//!   write no memory of this process but the status.
#![allow(unsafe_code, reason = "T1")]

use std::{fs, io, ptr, thread};

/// Lets the parent process step this thread, and stops it. `Ok(false)`: that is not permitted.
pub(crate) fn stop_for_parent() -> io::Result<bool> {
    // SAFETY: T1.
    let result = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, NOTHING, NOTHING) };
    if result != 0 {
        return match io::Error::last_os_error() {
            error if is_refusal(&error) => Ok(false),
            error => Err(error),
        };
    }
    // SAFETY: takes a number. The parent lets the thread go on.
    unsafe { libc::raise(libc::SIGSTOP) };
    Ok(true)
}

const NOTHING: *mut libc::c_void = ptr::null_mut();

/// Keeps this thread, and the processes that it starts, to one processor: a step then takes a
/// fraction of the time.
pub(crate) fn stay_on_processor() {
    // SAFETY: takes no arguments.
    let Ok(processor) = usize::try_from(unsafe { libc::sched_getcpu() }) else { return };
    // SAFETY: a set of bits, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is that of a processor.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the pointer is to a live set of this size. A failure costs time alone.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
}

/// The id of this thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: takes no arguments.
    unsafe { libc::gettid() }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS))
}

/// A thread that this one steps.
#[derive(Debug)]
pub(crate) struct Stepped {
    id: i32,
    /// Whether it is in a system call that waits.
    waits: bool,
    /// A signal that it gets with the next step.
    signal: i32,
}

impl Stepped {
    /// A thread that has called [`stop_for_parent`], or is about to.
    pub(crate) fn stopped(id: i32) -> io::Result<Self> {
        let mut it = Self { id, waits: false, signal: 0 };
        it.wait(0)?;
        it.signal = 0;
        // Its process ends with this one.
        request(libc::PTRACE_SETOPTIONS, id, libc::PTRACE_O_EXITKILL)?;
        Ok(it)
    }

    /// Stops another thread of a child process.
    pub(crate) fn seize(id: i32) -> io::Result<Self> {
        request(libc::PTRACE_SEIZE, id, 0)?;
        request(libc::PTRACE_INTERRUPT, id, 0)?;
        let mut it = Self { id, waits: false, signal: 0 };
        it.wait(0)?;
        it.signal = 0;
        Ok(it)
    }

    /// Executes one instruction. Returns `false` if it is not over: the thread waits for another.
    pub(crate) fn step(&mut self) -> io::Result<bool> {
        if !self.waits {
            request(libc::PTRACE_SINGLESTEP, self.id, self.signal)?;
        }
        self.waits = !self.poll()?;
        Ok(!self.waits)
    }

    /// Like [`step`](Self::step), for a thread that waits for none.
    pub(crate) fn step_through(&mut self) -> io::Result<()> {
        request(libc::PTRACE_SINGLESTEP, self.id, self.signal)?;
        self.wait(0).map(|_| ())
    }

    /// Waits until the thread stops. Returns `false` if it does not, because it sleeps.
    fn poll(&mut self) -> io::Result<bool> {
        for turn in 0_u32.. {
            if self.wait(libc::WNOHANG)? {
                return Ok(true);
            }
            // A thread that has waited is probably still asleep.
            if (turn % 16 == 15 || self.waits) && is_asleep(self.id) {
                // It may have stopped since.
                return self.wait(libc::WNOHANG);
            }
            thread::yield_now();
        }
        Ok(false)
    }

    fn wait(&mut self, options: i32) -> io::Result<bool> {
        let mut status = 0;
        // SAFETY: T1. The status is a live number.
        match unsafe { libc::waitpid(self.id, &raw mut status, libc::__WALL | options) } {
            0 => return Ok(false),
            -1 => return Err(io::Error::last_os_error()),
            _ => {}
        }
        if !libc::WIFSTOPPED(status) {
            return Err(io::Error::other(format!("the thread has ended: {status:#x}")));
        }
        let signal = libc::WSTOPSIG(status);
        let is_event = status >> 16 != 0;
        self.signal = if is_event || signal == libc::SIGTRAP { 0 } else { signal };
        Ok(true)
    }
}

impl Drop for Stepped {
    /// Waits for the thread's end: its process does not end before that is seen.
    fn drop(&mut self) {
        while self.wait(0).is_ok() {}
    }
}

/// The state of a thread, as the system names it.
pub(crate) fn state(thread: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn is_asleep(thread: i32) -> bool {
    matches!(state(thread), Some('S' | 'D'))
}

fn request(request: libc::c_uint, thread: i32, data: i32) -> io::Result<()> {
    let data = ptr::without_provenance_mut::<libc::c_void>(data as usize);
    // SAFETY: T1.
    match unsafe { libc::ptrace(request as _, thread, NOTHING, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
