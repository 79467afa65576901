//! The system calls: registering a word, writing an event, handlers for `fork` and unloading, and
//! blocking signals for a new thread.
//!
//! Invariants:
//!
//! - K1: a word that the kernel is told of is `'static` and an `AtomicU32`. The kernel sets and
//!   clears one bit of it at any time, by an atomic operation, until the word is unregistered or
//!   the process ends. The words of a library are unregistered before it is unloaded
//!   ([`at_unload`]).
//! - K2: pointers in the arguments of a call point to objects that live until the call returns; the
//!   kernel keeps none of them except the word's address.
//! - K3: handlers take no argument, do not unwind, and may run at any `fork` or exit.

pub(crate) use imp::{at_fork, at_unload, register, unregister, without_signals, write};

/// `EBADF`, on systems with error numbers: nobody listens any more.
#[cfg(target_os = "linux")]
pub(crate) const EBADF: i32 = libc::EBADF;
#[cfg(not(target_os = "linux"))]
pub(crate) const EBADF: i32 = 9;

/// `ETIMEDOUT`, on systems with error numbers: the registering thread has not answered.
#[cfg(target_os = "linux")]
pub(crate) const ETIMEDOUT: i32 = libc::ETIMEDOUT;
#[cfg(not(target_os = "linux"))]
pub(crate) const ETIMEDOUT: i32 = 110;

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "K1, K2, K3")]
mod imp {
    use std::{ffi::CStr, io, mem::MaybeUninit, ptr};

    use crate::sync::AtomicU32;

    /// `_IOWR('*', 0, struct user_reg *)`: the size is that of the pointer.
    const REGISTER: u32 = 0xC000_2A00 | (size_of::<usize>() as u32) << 16;
    /// `_IOW('*', 2, struct user_unreg *)`.
    const UNREGISTER: u32 = 0x4000_2A02 | (size_of::<usize>() as u32) << 16;

    /// `struct user_reg` of `linux/user_events.h`.
    #[repr(C, packed)]
    struct UserReg {
        size: u32,
        enable_bit: u8,
        enable_size: u8,
        flags: u16,
        enable_addr: u64,
        name_args: u64,
        write_index: u32,
    }

    /// `struct user_unreg`.
    #[repr(C, packed)]
    struct UserUnreg {
        size: u32,
        disable_bit: u8,
        reserved: u8,
        reserved2: u16,
        disable_addr: u64,
    }

    /// Registers a tracepoint: the kernel sets `bit` of `word` while somebody listens. Returns the
    /// write index, with which its events begin.
    pub(crate) fn register(
        fd: i32,
        command: &CStr,
        word: &'static AtomicU32,
        bit: u32,
    ) -> io::Result<u32> {
        let mut request = UserReg {
            size: size_of::<UserReg>() as u32,
            enable_bit: bit as u8,
            enable_size: size_of::<AtomicU32>() as u8,
            flags: 0,
            enable_addr: ptr::from_ref(word).expose_provenance() as u64,
            name_args: command.as_ptr().expose_provenance() as u64,
            write_index: 0,
        };
        // SAFETY: K1, K2. The kernel writes the last member of the request and one bit of the word.
        let result = unsafe { libc::ioctl(fd, REGISTER as _, ptr::from_mut(&mut request)) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(request.write_index) }
    }

    /// Unregisters a word. The kernel clears the bit.
    pub(crate) fn unregister(fd: i32, word: &'static AtomicU32, bit: u32) -> io::Result<()> {
        let request = UserUnreg {
            size: size_of::<UserUnreg>() as u32,
            disable_bit: bit as u8,
            reserved: 0,
            reserved2: 0,
            disable_addr: ptr::from_ref(word).expose_provenance() as u64,
        };
        // SAFETY: K2; clears a bit of a word that is `'static` (K1).
        let result = unsafe { libc::ioctl(fd, UNREGISTER as _, ptr::from_ref(&request)) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Writes an event. Returns the error number on failure.
    #[inline]
    pub(crate) fn write(fd: i32, bytes: &[u8]) -> Result<(), i32> {
        // SAFETY: K2. If the descriptor is closed or reused by now, the call fails or another file
        // takes the bytes; memory is not affected. (Descriptors in use are never closed.)
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if usize::try_from(written) == Ok(bytes.len()) { Ok(()) } else { Err(error(written)) }
    }

    #[cold]
    fn error(written: isize) -> i32 {
        if written >= 0 {
            return libc::EIO;
        }
        io::Error::last_os_error().raw_os_error().unwrap_or(0)
    }

    /// Registers functions to be called around every `fork`.
    pub(crate) fn at_fork(
        before: extern "C" fn(),
        in_parent: extern "C" fn(),
        in_child: extern "C" fn(),
    ) {
        // SAFETY: K3. If there is no memory for another handler, the call fails and nothing is
        // called.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }

    /// Registers a function to be called at `exit`, or when the library with this code is unloaded
    /// (the C library knows which library calls).
    pub(crate) fn at_unload(handler: extern "C" fn()) {
        // SAFETY: K3.
        unsafe { libc::atexit(handler) };
    }

    const OWN_SIGNALS: [libc::c_int; 7] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGABRT,
    ];

    /// Runs `start`, which starts a thread, with signals blocked. The thread inherits the blocked
    /// signals.
    pub(crate) fn without_signals<R>(start: impl FnOnce() -> R) -> R {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: K2; fills the set.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // Keep the signals that a thread raises by its own faults: a crash handler must see them.
        for signal in OWN_SIGNALS {
            // SAFETY: K2; a set that was filled above.
            unsafe { libc::sigdelset(all.as_mut_ptr(), signal) };
        }
        // SAFETY: K2; the first set was filled above, the second is filled if the call succeeds.
        let status =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()) };
        let result = start();
        if status == 0 {
            // SAFETY: K2; the call that filled the set succeeded.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
        }
        result
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::{ffi::CStr, io};

    use crate::sync::AtomicU32;

    pub(crate) fn register(_: i32, _: &CStr, _: &'static AtomicU32, _: u32) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn unregister(_: i32, _: &'static AtomicU32, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn write(_: i32, _: &[u8]) -> Result<(), i32> {
        Err(0)
    }

    pub(crate) fn at_fork(_: extern "C" fn(), _: extern "C" fn(), _: extern "C" fn()) {}

    pub(crate) fn at_unload(_: extern "C" fn()) {}

    pub(crate) fn without_signals<R>(start: impl FnOnce() -> R) -> R {
        start()
    }
}
