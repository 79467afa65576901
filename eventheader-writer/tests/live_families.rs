//! Forks with unusual families of threads in the kernel (see `registrar`).
//!
//! Run by `cargo xtask vm`. Elsewhere each test reports that it is skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]
#![allow(unsafe_code, reason = "fork, and a registration behind the crate's back")]

mod machine;

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    panic::{AssertUnwindSafe, catch_unwind},
    process::exit,
    ptr,
    sync::atomic::AtomicU32,
    thread,
    time::Duration,
};

use eventheader_writer::{DynamicProvider, Emit, Level, TraceEvent, counters, status};

use machine::{finish_role, inside, listen, registered, role, start_role, wait_until};

const NAME: &str = "Live_Family_L4K0";

#[derive(TraceEvent)]
#[trace_event(provider = "Live_Family")]
struct Related;

#[test]
fn a_child_writes_where_another_library_has_founded_the_family() {
    if inside() {
        finish_role(start_role("in_a_role", "adopted", None));
    }
}

#[test]
fn a_child_that_inherits_no_registration_founds_a_family() {
    if inside() {
        finish_role(start_role("in_a_role", "orphan", None));
    }
}

/// The work of the programs that the tests above start. Run as a test, it does nothing.
#[test]
fn in_a_role() {
    if role().is_some() {
        let threads = fs::read_dir("/proc/self/task").expect("proc is mounted").count();
        assert!(threads > 1, "the crate starts its thread only beside others");
    }
    match role().as_deref() {
        Some("adopted") => {
            // The thread that starts the crate's own thread is a founder, and so passes on its
            // family.
            register_as_another();
            assert_eq!(registered::<Related>(), NAME);
            listen(NAME, true);
            wait_until("the word is set", is_enabled);
            in_a_child(emits);
            emits();
            listen(NAME, false);
            wait_until("the word is cleared", || !is_enabled());
        }
        Some("orphan") => {
            let provider = DynamicProvider::new("Live_Family").expect("a good name");
            drop(provider.tracepoint(Level::Error, 1));
            in_a_child(|| {
                thread::spawn(|| Related.emit()).join().expect("it ends well");
                // The kernel cleans up after a thread with a delay.
                thread::sleep(Duration::from_millis(500));
                listen(NAME, true);
                wait_until("the word is set", is_enabled);
                emits();
                listen(NAME, false);
                wait_until("the word is cleared", || !is_enabled());
            });
        }
        Some(other) => panic!("no such role: {other}"),
        None => {}
    }
}

#[track_caller]
fn emits() {
    let before = counters().written;
    Related.emit();
    let point = status().tracepoints.into_iter().find(|point| point.name == NAME);
    assert_eq!(counters().written, before + 1, "{point:?}");
}

fn is_enabled() -> bool {
    status().tracepoints.iter().any(|point| point.name == NAME && point.enabled)
}

/// Does `work` in a forked child, and waits for its end.
#[track_caller]
fn in_a_child(work: impl FnOnce()) {
    let mut status = 0;
    // SAFETY: the process's other thread only waits; the child does its work and ends.
    let id = unsafe { libc::fork() };
    if id == 0 {
        exit(i32::from(catch_unwind(AssertUnwindSafe(work)).is_err()));
    }
    assert!(id > 0, "{}", io::Error::last_os_error());
    // SAFETY: writes a number into `status`.
    let ended = unsafe { libc::waitpid(id, &mut status, 0) };
    assert_eq!((ended, status), (id, 0));
}

/// Registers a tracepoint as another library would.
fn register_as_another() {
    /// `struct user_reg`.
    #[repr(C, packed)]
    struct Request {
        size: u32,
        bit: u8,
        word_size: u8,
        flags: u16,
        word: u64,
        command: u64,
        index: u32,
    }
    static WORD: AtomicU32 = AtomicU32::new(0);
    let data = "/sys/kernel/tracing/user_events_data";
    let file = File::options().write(true).open(data).expect("root may");
    let mut request = Request {
        size: size_of::<Request>() as u32,
        bit: 0,
        word_size: 4,
        flags: 0,
        word: ptr::from_ref(&WORD).expose_provenance() as u64,
        command: c"Live_Another u32 number".as_ptr().expose_provenance() as u64,
        index: 0,
    };
    let register: u32 = 0xC008_2A00;
    // C libraries differ in the type of the number.
    // SAFETY: the kernel writes the last member of the request, and a bit of a static word.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), register as _, &raw mut request) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}
