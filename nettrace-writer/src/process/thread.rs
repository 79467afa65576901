//! The identity of a thread: its number in this process, its id in the system, its name.

use std::{cell::RefCell, sync::Arc};

use crate::{
    process::generation,
    sync::{AtomicU64, Ordering, thread},
};

/// A thread of this process, as events refer to it. Cheap to clone, and valid after the thread
/// ends.
///
/// A thread makes its own by [`current`](Self::current) and hands it to whoever emits events about
/// it: see [`Origin::thread`](crate::Origin::thread).
///
/// ```
/// use std::thread;
///
/// use nettrace_writer::{ThreadRef, set_thread_key_value};
///
/// let worker = thread::Builder::new().name("worker".into()).spawn(|| {
///     set_thread_key_value("pool", "checkout")?;
///     Ok::<_, nettrace_writer::ThreadKeyValueError>(ThreadRef::current())
/// })?;
/// let worker = worker.join().expect("it does not panic")?;
/// assert_eq!(worker.name(), Some("worker"));
/// assert_eq!(worker.key_values(), [("pool".to_owned(), "checkout".to_owned())]);
/// assert_ne!(worker.number(), ThreadRef::current().number());
/// println!("the system calls it {}", worker.os_id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ThreadRef(Arc<ThreadIdentity>);

impl PartialEq for ThreadRef {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for ThreadRef {}

#[derive(Clone, Debug)]
struct ThreadIdentity {
    number: u64,
    os_id: u64,
    name: Option<String>,
    key_values: Vec<(String, String)>,
}

thread_local! {
    /// The calling thread, and the generation of the process that it belongs to.
    static CURRENT: RefCell<Option<(u32, ThreadRef)>> = const { RefCell::new(None) };
}

/// The most bytes that all keys and values of one thread have together.
pub const MAX_THREAD_KEY_VALUE_BYTES: usize = 4_096;

/// Adds a key-value pair to the description of the calling thread in all traces: which pool it
/// belongs to, for instance, or which queue it serves. If the key was set before, it gets the new
/// value.
///
/// A session describes a thread at the thread's first event in it, so call this when the thread
/// starts. A session that has described the thread already keeps that description, in all its
/// files. Version 6 of the format has key-values of threads; the other formats leave them out.
///
/// # Errors
///
/// [`ThreadKeyValueError::EmptyKey`], [`ThreadKeyValueError::TooLong`] if all keys and values of
/// the thread would exceed [`MAX_THREAD_KEY_VALUE_BYTES`], [`ThreadKeyValueError::ThreadEnding`],
/// [`ThreadKeyValueError::InSignalHandler`]. Nothing has changed then.
///
/// # Examples
///
/// ```
/// std::thread::spawn(|| {
///     nettrace_writer::set_thread_key_value("pool", "checkout")?;
///     // … emit events …
///     Ok::<(), nettrace_writer::ThreadKeyValueError>(())
/// });
/// ```
pub fn set_thread_key_value(key: &str, value: &str) -> Result<(), ThreadKeyValueError> {
    let mut identity = ThreadIdentity::clone(&ThreadRef::current().0);
    identity.key_values.retain(|(other, _)| other != key);
    identity.key_values.push((key.to_owned(), value.to_owned()));
    let bytes: usize = identity.key_values.iter().map(|(key, value)| key.len() + value.len()).sum();
    if key.is_empty() {
        return Err(ThreadKeyValueError::EmptyKey);
    }
    if bytes > MAX_THREAD_KEY_VALUE_BYTES {
        return Err(ThreadKeyValueError::TooLong);
    }
    let kept = CURRENT.try_with(|current| {
        let mut current =
            current.try_borrow_mut().map_err(|_| ThreadKeyValueError::InSignalHandler)?;
        *current = Some((generation(), ThreadRef(Arc::new(identity))));
        Ok(())
    });
    kept.unwrap_or(Err(ThreadKeyValueError::ThreadEnding))
}

/// Why a key and a value could not be set: see [`set_thread_key_value`].
///
/// ```
/// use nettrace_writer::{ThreadKeyValueError, set_thread_key_value};
///
/// assert_eq!(set_thread_key_value("", "checkout"), Err(ThreadKeyValueError::EmptyKey));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadKeyValueError {
    /// The key is empty.
    #[error("a key of a thread must have at least one byte")]
    EmptyKey,
    /// All keys and values of the thread would exceed [`MAX_THREAD_KEY_VALUE_BYTES`].
    #[error(
        "all keys and values of this thread would exceed {most} bytes; use shorter ones",
        most = MAX_THREAD_KEY_VALUE_BYTES
    )]
    TooLong,
    /// The thread is ending: its local variables are being destroyed.
    #[error("the thread is ending and can have no more keys and values")]
    ThreadEnding,
    /// The call came from a signal handler that interrupted this crate.
    #[error("a signal handler cannot describe its thread in the middle of another call")]
    InSignalHandler,
}

impl ThreadRef {
    /// The calling thread.
    ///
    /// ```
    /// use nettrace_writer::ThreadRef;
    ///
    /// // Every call on a thread refers to the same thread.
    /// assert_eq!(ThreadRef::current(), ThreadRef::current());
    /// let other = std::thread::spawn(ThreadRef::current).join().unwrap();
    /// assert_ne!(other, ThreadRef::current());
    /// ```
    #[must_use]
    pub fn current() -> Self {
        let generation = generation();
        let known = CURRENT.try_with(|current| {
            let current = current.try_borrow().ok()?;
            // Of another generation: this is the child of a fork, so the thread is another one.
            current.as_ref().filter(|(of, _)| *of == generation).map(|(_, thread)| thread.clone())
        });
        match known {
            Ok(Some(thread)) => thread,
            Ok(None) => {
                let thread = Self::new(true);
                let _ = CURRENT.try_with(|current| {
                    // The borrow fails only in a signal handler that came in between. Then the
                    // reference is not kept.
                    if let Ok(mut current) = current.try_borrow_mut() {
                        *current = Some((generation, thread.clone()));
                    }
                });
                thread
            }
            Err(_) => Self::new(false),
        }
    }

    /// `alive` says whether the standard library still knows the thread.
    fn new(alive: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = if alive { thread::current().name().map(str::to_owned) } else { None };
        Self(Arc::new(ThreadIdentity {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            os_id: os_id(),
            name: name.or_else(os_name).map(shortened),
            key_values: Vec::new(),
        }))
    }

    /// A number that no other thread of this process has.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// The thread's id in the operating system, or 0 if it is not known.
    #[must_use]
    pub fn os_id(&self) -> u64 {
        self.0.os_id
    }

    /// The name that the thread had when it was first referred to, cut to 256 bytes.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The key-values that [`set_thread_key_value`] had set before this reference was made.
    #[must_use]
    pub fn key_values(&self) -> &[(String, String)] {
        &self.0.key_values
    }
}

/// The number of bytes kept of a thread's name.
const MAX_NAME: usize = 256;

fn shortened(mut name: String) -> String {
    while name.len() > MAX_NAME {
        name.pop();
    }
    name
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a system call without memory arguments")]
fn os_id() -> u64 {
    // SAFETY: it takes no arguments, touches no memory and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u64 }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a system call that fills 16 bytes")]
fn os_name() -> Option<String> {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes up to 16 bytes, NUL included, to its second argument.
    let result = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let len = name.iter().position(|&byte| byte == 0)?;
    (result == 0 && len > 0).then(|| String::from_utf8_lossy(&name[..len]).into_owned())
}

#[cfg(windows)]
#[allow(unsafe_code, reason = "a system call without memory arguments")]
fn os_id() -> u64 {
    unsafe extern "system" {
        safe fn GetCurrentThreadId() -> u32;
    }
    u64::from(GetCurrentThreadId())
}

#[cfg(not(any(target_os = "linux", windows)))]
fn os_id() -> u64 {
    0
}

#[cfg(not(target_os = "linux"))]
fn os_name() -> Option<String> {
    None
}
