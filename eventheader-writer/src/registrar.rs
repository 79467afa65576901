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
//!   the C library keeps code that a thread has yet to run at its end (seen with glibc). In a
//!   static constructor of such a library no thread can start: the dynamic linker waits for the
//!   constructor, and the thread for the linker (seen with glibc). So the wait for it is short, and
//!   what was given up by then the thread registers when it starts.
//!
//! A forked child has one thread. Unless that is a member for certain, it registers every word
//! anew, and so founds a family of the first kind. (It can be one by chance: a thread that another
//! library has made a founder passes its family on to ours if it starts it. So the child
//! unregisters each word first, for the kernel takes none twice.)
//!
//! Rejected: registering in whatever thread comes along, and again when that ends, which leaves a
//! time without registration, and nobody to register in.
//!
//! Callers hold the lock of [`state`](crate::state): one call is under way at a time, and none
//! during a `fork`.

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

/// How long the thread may take to start and make its first call.
const START_PATIENCE: Duration = Duration::from_secs(1);

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
    /// That thread, but it has not answered the last time. It makes up for that when it can.
    Lost = 3,
}

thread_local! {
    /// Whether this is the thread that was started for the calls.
    static IS_CALLER: Cell<bool> = const { Cell::new(false) };
}

static CALLER: AtomicU32 = AtomicU32::new(Caller::Unknown as u32);

/// Where the thread finds its task, and leaves the answer. Its lock is [held](hold) during a `fork`.
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

/// Keeps the thread from what it shares with others.
pub(crate) struct Held {
    _task: MutexGuard<'static, Task>,
}

/// To be called before a `fork`, with the lock of the state, so that no call is under way.
pub(crate) fn hold() -> Held {
    Held { _task: desk() }
}

/// To be called in a forked child. `true`: the kernel may have forgotten every word there, and they
/// are to be registered again.
pub(crate) fn after_fork() -> bool {
    let had_thread = matches!(caller(), Caller::Thread | Caller::Lost);
    if had_thread {
        // With the first registration the child founds a family, in its one thread or another.
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
    DESK.changed.notify_all();
    Err(io::Error::from_raw_os_error(sys::ETIMEDOUT))
}

/// What the thread does.
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
            // Whoever holds the locks that this takes waits for this thread a moment only, for it
            // counts as lost.
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
    // Relaxed, here and below: read and written by who holds the state's lock, or the desk's. What
    // somebody has just written changes how long one waits, no more.
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

/// As if the thread had not answered; whether it makes up for that.
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
