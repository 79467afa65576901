//! Registers words with the kernel, from one thread for the whole process.
//!
//! The kernel keeps registrations by *families* of threads, not by process. The first registration
//! that a thread makes founds a family; threads that a member creates later belong to it. A
//! registration lasts as long as any member of its family lives. Only a member can end it, and only
//! a member's `fork` passes it on. So a registration that a worker thread makes, for instance with
//! the first event of a type, silently ends with that worker: the kernel then never sets the word
//! again, or never clears it.
//!
//! A family that lasts is founded in one of two ways:
//!
//! - The process has one thread at its first registration. All other threads descend from it, so
//!   any of them can register. This holds if `main` registers before it starts threads.
//! - Otherwise this module starts a thread (`eventheader`) that only registers. It makes the calls
//!   for all threads until the process ends, and takes no signals. A library that contains this
//!   crate and was loaded at run time then stays in memory after it is closed: the C library keeps
//!   code that a thread has yet to run at its end (seen with glibc).
//!
//! In a static constructor of such a library no thread can start: the dynamic linker waits for the
//! constructor, and the thread for the linker (seen with glibc). So the wait for the thread is
//! short. The thread makes the calls that were given up by then when it starts.
//!
//! A forked child has one thread. Unless that thread certainly belongs to the family, it registers
//! every word again, and so founds a family of the first kind. It can also belong to the family by
//! chance: if the thread that started ours had itself founded a family, through another library, it
//! passed that family on. So the child unregisters each word first, because the kernel does not
//! register a word twice.
//!
//! Rejected: registering in any thread, and again when that thread ends. This leaves a time without
//! a registration, and possibly no thread to register in.
//!
//! Callers hold the lock of [`state`](crate::state). So at most one call is under way at a time,
//! and none during a `fork`.

use std::{
    cell::Cell,
    ffi::{CStr, CString},
    fs, io,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    state,
    sync::{AtomicU32, Ordering, spawn},
    sys,
};

/// Time for the thread to start and make its first call.
const START_PATIENCE: Duration = Duration::from_secs(1);

/// Time for the thread to finish a call. It waits only for the kernel; if it does not answer in
/// this time, somebody has stopped it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time for a call after the thread has failed to answer once.
const SHORT_PATIENCE: Duration = Duration::from_millis(10);

/// The threads that make the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Caller {
    /// No call was made yet.
    Unknown = 0,
    /// Any thread: all threads are of one family.
    Anybody = 1,
    /// The thread that was started for the calls.
    Thread = 2,
    /// A thread of this crate, which has not answered the last call. It makes up for missed calls
    /// when it can.
    Lost = 3,
}

thread_local! {
    /// Whether this is the thread that was started for the calls.
    static IS_CALLER: Cell<bool> = const { Cell::new(false) };
}

static CALLER: AtomicU32 = AtomicU32::new(Caller::Unknown as u32);

/// The place where the thread finds its task and leaves the answer. The lock is [held](hold) during
/// a `fork`.
static DESK: RegistrarQueue =
    RegistrarQueue { task: Mutex::new(Task::None), changed: Condvar::new() };

#[derive(Debug)]
struct RegistrarQueue {
    task: Mutex<Task>,
    changed: Condvar,
}

#[derive(Debug)]
enum Task {
    None,
    Asked(Call),
    Answered(io::Result<u32>),
}

#[derive(Debug)]
struct Call {
    /// The descriptor of the kernel's file, which is never closed.
    fd: i32,
    word: &'static AtomicU32,
    bit: u32,
    /// The tracepoint to register, or `None` to unregister the word.
    command: Option<CString>,
}

impl Call {
    fn make(&self) -> io::Result<u32> {
        match &self.command {
            Some(command) => sys::register(self.fd, command, self.word, self.bit),
            None => sys::unregister(self.fd, self.word, self.bit).map(|()| 0),
        }
    }
}

/// Registers a tracepoint for the life of the process: the kernel sets `bit` of `word` while
/// somebody listens. Returns the write index, with which the tracepoint's events begin.
pub(crate) fn register(
    fd: i32,
    command: &CStr,
    word: &'static AtomicU32,
    bit: u32,
) -> io::Result<u32> {
    run(Call { fd, word, bit, command: Some(command.to_owned()) })
}

/// Unregisters a word. The kernel clears the bit.
pub(crate) fn unregister(fd: i32, word: &'static AtomicU32, bit: u32) -> io::Result<()> {
    run(Call { fd, word, bit, command: None }).map(|_| ())
}

/// Locks the state that the thread shares with others, for the time of a `fork`.
pub(crate) struct ForkLock {
    _task: MutexGuard<'static, Task>,
}

/// Call this before a `fork`, with the lock of the state, so that no call is under way.
pub(crate) fn hold() -> ForkLock {
    ForkLock { _task: desk() }
}

/// Call this in a forked child. Returns `true` if the kernel may have forgotten every word there,
/// so that the words must be registered again.
pub(crate) fn after_fork() -> bool {
    let had_thread = matches!(caller(), Caller::Thread | Caller::Lost);
    if had_thread {
        // The child founds a family with its first registration, in its one thread or in another.
        set(Caller::Unknown);
    }
    had_thread
}

fn run(call: Call) -> io::Result<u32> {
    if IS_CALLER.get() {
        return call.make();
    }
    match caller() {
        Caller::Anybody => call.make(),
        Caller::Thread => ask(call, PATIENCE),
        Caller::Lost => ask(call, SHORT_PATIENCE),
        Caller::Unknown if is_alone() => {
            let result = call.make();
            if result.is_ok() {
                set(Caller::Anybody);
            }
            result
        }
        Caller::Unknown => {
            sys::without_signals(|| spawn("eventheader", serve))?;
            ask(call, START_PATIENCE)
        }
    }
}

/// Whether this is the only thread of the process. `false` if that is unknown.
fn is_alone() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Passes a call to the thread and waits for it. Withdraws a call that it has not begun in time.
fn ask(call: Call, patience: Duration) -> io::Result<u32> {
    let mut task = desk();
    *task = Task::Asked(call);
    DESK.changed.notify_all();
    let waits = |task: &mut Task| !matches!(task, Task::Answered(_));
    let waited = DESK.changed.wait_timeout_while(task, patience, waits);
    let (mut task, _) = waited.unwrap_or_else(PoisonError::into_inner);
    if let Task::Answered(result) = std::mem::replace(&mut *task, Task::None) {
        set(Caller::Thread);
        return result;
    }
    set(Caller::Lost);
    DESK.changed.notify_all();
    Err(io::Error::from_raw_os_error(sys::ETIMEDOUT))
}

/// The body of the thread.
fn serve() {
    IS_CALLER.set(true);
    let mut task = desk();
    loop {
        let waits = |task: &mut Task| !matches!(task, Task::Asked(_)) && caller() != Caller::Lost;
        task = DESK.changed.wait_while(task, waits).unwrap_or_else(PoisonError::into_inner);
        if let Task::Asked(call) = &*task {
            let result = call.make();
            *task = Task::Answered(result);
            DESK.changed.notify_all();
        } else {
            // A thread that holds the locks needed here waits for this thread only briefly, because
            // this one counts as lost.
            drop(task);
            let _ = state::retry();
            task = desk();
            set(Caller::Thread);
        }
    }
}

fn desk() -> MutexGuard<'static, Task> {
    DESK.task.lock().unwrap_or_else(PoisonError::into_inner)
}

fn caller() -> Caller {
    // Relaxed, here and below: the value is read and written under the lock of the state or of the
    // desk. A value written at this moment only changes how long a thread waits.
    match CALLER.load(Ordering::Relaxed) {
        0 => Caller::Unknown,
        1 => Caller::Anybody,
        2 => Caller::Thread,
        _ => Caller::Lost,
    }
}

fn set(caller: Caller) {
    CALLER.store(caller as u32, Ordering::Relaxed);
}

/// Acts as if the thread had not answered. Returns whether it makes up for that.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn lose() -> bool {
    let task = desk();
    assert_eq!(caller(), Caller::Thread);
    set(Caller::Lost);
    DESK.changed.notify_all();
    drop(task);
    (0..10_000).any(|_| {
        crate::sync::pause();
        caller() == Caller::Thread
    })
}
