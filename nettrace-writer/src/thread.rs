//! Who a thread is: its number in this process, its id in the operating system, its name.

use std::{cell::RefCell, sync::Arc};

use crate::{
    sessions,
    sync::{AtomicU64, Ordering, thread},
};

/// A thread of this process, as events refer to it. Cheap to clone; outlives the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRef(Arc<Identity>);

#[derive(Debug, PartialEq, Eq)]
struct Identity {
    number: u64,
    os_id: u64,
    name: Option<String>,
}

impl ThreadRef {
    /// The calling thread.
    #[must_use]
    pub fn current() -> Self {
        thread_local! {
            static CURRENT: RefCell<Option<(u32, ThreadRef)>> = const { RefCell::new(None) };
        }
        let generation = sessions::generation();
        let known = CURRENT.try_with(|current| {
            let current = current.try_borrow().ok()?;
            // Of another generation: this is the child of a fork, another thread of another process.
            current.as_ref().filter(|(of, _)| *of == generation).map(|(_, thread)| thread.clone())
        });
        match known {
            Ok(Some(thread)) => thread,
            Ok(None) => {
                let thread = Self::new(true);
                let _ = CURRENT.try_with(|current| {
                    // Borrowed only where this is a signal handler that came in between: then it is not kept.
                    if let Ok(mut current) = current.try_borrow_mut() {
                        *current = Some((generation, thread.clone()));
                    }
                });
                thread
            }
            Err(_) => Self::new(false),
        }
    }

    /// `alive`: the standard library still knows the thread.
    fn new(alive: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = if alive { thread::current().name().map(str::to_owned) } else { None };
        Self(Arc::new(Identity {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            os_id: os_id(),
            name: name.or_else(os_name).map(shortened),
        }))
    }

    /// A number that no other thread of this process has had.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// The id that the operating system knows the thread by; 0 where it has none that is known.
    #[must_use]
    pub fn os_id(&self) -> u64 {
        self.0.os_id
    }

    /// The name that it had when it was first referred to; at most 256 bytes of it.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }
}

/// The most bytes of a thread's name that are kept.
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
    // SAFETY: takes nothing, touches nothing, cannot fail.
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
