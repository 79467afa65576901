//! Panics as events: a hook, in a chain with those that are there.
//!
//! The hook runs where the panic is, before the stack unwinds. So the span that is in force is the
//! one that panics, and a process that aborts has not aborted yet. The event goes the way of any
//! other. Then the hook asks each session to write out what it has. It waits for that only if
//! nothing comes after it: whoever catches panics, as a server does, should not wait for a disk.

use std::{
    any::Any,
    panic::{self, PanicHookInfo},
    sync::{OnceLock, Weak},
    time::Duration,
};

use crate::{
    TraceEvent,
    emit::{self, Emit as _},
    shared::{locks, sessions::write_out},
    sync::{Mutex, thread},
};

/// The most bytes of a message.
const MAX_MESSAGE: usize = 4_096;

/// A thread panicked. The event is in the span that is in force.
#[derive(TraceEvent)]
#[trace_event(
    provider = "NetTrace-Panics",
    level = Error,
    message = "panicked at {file}:{line}:{column}: {message}",
    crate = crate
)]
struct Panic<'a> {
    /// What it said. Of 4,096 bytes at most; one that was cut ends with `…`.
    message: &'a str,
    /// The file of the source code.
    file: &'a str,
    /// The line, from 1.
    line: u32,
    /// The column, from 1.
    column: u32,
}

/// Records each panic of the process as an event `Panic` of the provider `NetTrace-Panics`, with
/// level `Error`: its `message`, `file`, `line` and `column`. The event is in the span that
/// panics, whose Stop tells the outcome `panicked`.
///
/// This adds a hook to those that the process has, which run afterwards, as before. So it changes
/// nothing that is printed. Call it in `main`. A hook that is set later by
/// [`std::panic::set_hook`], and does not call the one before it, replaces this one. Further calls
/// have no effect.
///
/// If the panic aborts the process (`panic = "abort"`, or a panic where nothing can unwind), each
/// session writes out what it has before that: for two seconds at most. Otherwise nobody waits.
///
/// A session whose filters do not select `NetTrace-Panics` does not record panics, and neither does
/// one with a panic in a tree that is [sampled out](crate::Sampling).
///
/// ```
/// use nettrace_writer::{Session, record_panics, sink::MemorySink};
///
/// record_panics();
/// let session = Session::builder().sink(MemorySink::new()).start()?;
/// let panicked = std::panic::catch_unwind(|| panic!("on purpose"));
/// assert!(panicked.is_err());
/// assert_eq!(session.finish()?.written, 1);
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
pub fn record_panics() {
    static IS_SET: OnceLock<()> = OnceLock::new();
    IS_SET.get_or_init(|| {
        for ty in Panic::event_types() {
            // A type that is refused has its events counted.
            let _ = emit::register(ty);
        }
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            record(info);
            others(info);
        }));
    });
}

fn record(info: &PanicHookInfo<'_>) {
    let message = message(info.payload());
    let (file, line, column) =
        info.location().map_or(("", 0, 0), |at| (at.file(), at.line(), at.column()));
    let cut = (message.len() > MAX_MESSAGE).then(|| {
        let room = MAX_MESSAGE - '…'.len_utf8();
        let end = (0..=room).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
        format!("{}…", &message[..end])
    });
    let message = cut.as_deref().unwrap_or(message);
    Panic { message, file, line, column }.emit();
    let aborts = cfg!(panic = "abort") || cannot_unwind(message);
    tell_listeners(message, &format!("{file}:{line}:{column}"), aborts || is_main());
    if aborts {
        write_out::at_end();
    } else {
        write_out::soon();
    }
}

/// Who is told of each panic after its event was recorded. They are told in the thread that
/// panics.
pub(crate) trait AfterPanic: Send + Sync {
    /// `ends_process` says that the process probably ends.
    fn panicked(&self, message: &str, place: &str, ends_process: bool);
}

static LISTENERS: Mutex<Vec<Weak<dyn AfterPanic>>> = Mutex::new(Vec::new());

/// Records panics, and tells `listener` of each as long as it lives.
pub(crate) fn tell(listener: Weak<dyn AfterPanic>) {
    record_panics();
    let mut listeners = LISTENERS.lock();
    listeners.retain(|listener| listener.strong_count() > 0);
    listeners.push(listener);
}

fn tell_listeners(message: &str, place: &str, ends_process: bool) {
    // They take locks, which a signal handler that panics may have interrupted, or which a thread
    // of the parent holds in the child of a fork.
    let patience = Duration::from_millis(100);
    let listeners = || LISTENERS.try_lock_for(patience).map(|listeners| listeners.clone());
    let Some(Some(listeners)) = locks::holding_locks(listeners) else { return };
    for listener in listeners.iter().filter_map(Weak::upgrade) {
        listener.panicked(message, place, ends_process);
    }
}

/// Whether this is the main thread, whose panic ends the process unless somebody catches it.
fn is_main() -> bool {
    thread::current().name() == Some("main")
}

/// What the panic said.
fn message(payload: &(dyn Any + Send)) -> &str {
    match payload.downcast_ref::<String>() {
        Some(text) => text,
        None => payload.downcast_ref().copied().unwrap_or("(no text)"),
    }
}

/// Whether this is one of the panics that the standard library begins where nothing can unwind.
/// (That they cannot is not told in stable Rust.)
fn cannot_unwind(message: &str) -> bool {
    message == "panic in a function that cannot unwind"
        || message == "panic in a destructor during cleanup"
}
