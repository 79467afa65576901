//! Who registers words with the kernel: one thread for the whole process.
//!
//! The kernel keeps registrations by *families* of threads, not by process. The first registration
//! that a thread makes founds a family; threads that a member creates later belong to it. A
//! registration lasts as long as one member of its family lives, only a member can end it, and only
//! a member's `fork` passes it on. So a registration that a worker thread makes, with the first
//! event of a type for instance, ends with that worker, in silence: the word is never set again, or
//! never cleared.
//!
//! A family that lasts is founded in one of two ways:
//!
//! - The process has one thread at its first registration. All others will descend from it, and any
//!   of them can register. This is so where `main` registers before it starts threads.
//! - Otherwise a thread is started for nothing else (`eventheader`). It makes the calls for
//!   everybody, and waits for the next, until the process ends. It takes no signals. A library that
//!   has this crate in it and was loaded at run time then stays in memory, even when it is closed:
//!   the C library keeps code that a thread has yet to run at its end (seen with glibc).
//!
//! A forked child has one thread. Where that is no member, it registers every word anew, and founds
//! a family of the first kind.
//!
//! Rejected: registering in whatever thread comes along, and again when that ends, which leaves a
//! time without registration, and nobody to register in.
//!
//! Callers hold the lock of [`state`](crate::state): one call is under way at a time, and none
//! during a `fork`.

use std::{
    ffi::{CStr, CString},
    fs, io,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    sync::{AtomicU32, Ordering, spawn},
    sys,
};

/// How long the thread may take for a call. It waits for nothing but the kernel; if it does not
/// answer, somebody has stopped it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long once it has not answered.
const SHORT_PATIENCE: Duration = Duration::from_millis(10);

/// Who makes the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Caller {
    /// Nobody has made one.
    Unknown = 0,
    /// Whoever has something to register: all threads are of one family.
    Anybody = 1,
    /// The thread that was started for it.
    Thread = 2,
    /// That thread, but it has not answered the last time.
    Lost = 3,
}

static CALLER: AtomicU32 = AtomicU32::new(Caller::Unknown as u32);

/// Where the thread finds its task, and leaves the answer. In a forked child it is not touched, for
/// the thread may have held the lock.
static DESK: Desk = Desk { task: Mutex::new(Task::None), changed: Condvar::new() };

#[derive(Debug)]
struct Desk {
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
    /// What is registered; without, the word is unregistered.
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

/// Registers a tracepoint: the kernel keeps `bit` of `word` at whether somebody listens, as long as
/// the process lives. The number is what an event of it begins with.
pub(crate) fn register(
    fd: i32,
    command: &CStr,
    word: &'static AtomicU32,
    bit: u32,
) -> io::Result<u32> {
    run(Call { fd, word, bit, command: Some(command.to_owned()) })
}

/// Has the kernel forget a word; it clears the bit.
pub(crate) fn unregister(fd: i32, word: &'static AtomicU32, bit: u32) -> io::Result<()> {
    run(Call { fd, word, bit, command: None }).map(|_| ())
}

/// To be called in a forked child. `true`: the kernel has forgotten every word there, and they are
/// to be registered again.
pub(crate) fn after_fork() -> bool {
    let had_thread = matches!(caller(), Caller::Thread | Caller::Lost);
    if had_thread {
        set(Caller::Anybody);
    }
    had_thread
}

fn run(call: Call) -> io::Result<u32> {
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
            ask(call, PATIENCE)
        }
    }
}

/// Whether this is the only thread of the process. Not where nobody can tell.
fn is_alone() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Has the thread make a call. One that it has not begun in time is taken back.
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
    Err(io::ErrorKind::TimedOut.into())
}

/// What the thread does.
fn serve() {
    let mut task = desk();
    loop {
        let waits = |task: &mut Task| !matches!(task, Task::Asked(_));
        task = DESK.changed.wait_while(task, waits).unwrap_or_else(PoisonError::into_inner);
        if let Task::Asked(call) = &*task {
            let result = call.make();
            *task = Task::Answered(result);
            DESK.changed.notify_all();
        }
    }
}

fn desk() -> MutexGuard<'static, Task> {
    DESK.task.lock().unwrap_or_else(PoisonError::into_inner)
}

fn caller() -> Caller {
    // Relaxed, here and below: read and written by who holds the state's lock.
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
