//! Calls that need this crate's locks while another thread, or the thread itself, holds them: the
//! child of a `fork`, a signal handler, a thread that waits.
//!
//! Each test runs in a process of its own. There a backend that belongs to the test takes its time
//! under the registry's lock.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "signals, fork, the time that a thread has run")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use nettrace_event::{
    EventType,
    registry::{self, Backend, BackendEntry},
};
use nettrace_writer::{
    Emit, Session, TraceEvent,
    sink::{Batch, MemorySink, Sink, StreamEnd, WriteError},
};
use testkit::process::{self, is_rerun, rerun};

use crate::trace_support::{check, memory};

/// Runs `work` in a process of its own that runs only this test.
fn alone(test: &str, work: impl FnOnce()) {
    if process::alone(test) {
        work();
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Locks")]
struct Slow {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Locks")]
struct Other {
    value: u64,
}

/// A backend that acts when [`Slow`] is registered, under the registry's lock.
struct Dawdle(fn());

impl Backend for Dawdle {
    fn attach(&self, ty: &'static EventType) {
        if ty.schema().name == "Slow" {
            IS_HELD.store(true, Ordering::SeqCst);
            (self.0)();
            IS_HELD.store(false, Ordering::SeqCst);
        }
    }
}

/// Whether the registry's lock is held.
static IS_HELD: AtomicBool = AtomicBool::new(false);

fn install(what: fn()) {
    let entry = BackendEntry::new(Box::leak(Box::new(Dawdle(what))));
    registry::install(Box::leak(Box::new(entry)));
}

fn nap() {
    thread::sleep(Duration::from_millis(500));
}

/// Starts a thread that registers [`Slow`]. It holds the lock when this returns.
fn holder() -> thread::JoinHandle<()> {
    install(nap);
    let holder = thread::spawn(|| drop(Session::builder().register::<Slow>()));
    while !IS_HELD.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    holder
}

#[test]
fn a_child_registers_types_while_a_thread_of_its_parent_did() {
    alone("a_child_registers_types_while_a_thread_of_its_parent_did", || {
        // There is no session, and there was none before: this crate has seen only the type.
        let holder = holder();
        // SAFETY: the test is about what the child does; it leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: takes a number. It ends a child that hangs.
            unsafe { libc::alarm(240) };
            Other { value: 1 }.emit();
            let (sink, builder) = memory("Locks");
            let session = builder.register::<Other>().start().unwrap();
            Other { value: 2 }.emit();
            Slow { value: 3 }.emit();
            let stats = session.finish().unwrap();
            check(&sink.bytes(), &stats);
            // SAFETY: takes a number and does not return.
            unsafe { libc::_exit(if stats.written == 2 { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the child is this process's, and the pointer is to a live variable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        holder.join().unwrap();
    });
}

#[test]
fn a_thread_that_waits_for_a_registration_sleeps() {
    alone("a_thread_that_waits_for_a_registration_sleeps", || {
        let ran = || {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the pointer is to a live `timespec`.
            unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        let holder = holder();
        let before = ran();
        drop(Session::builder().register::<Other>());
        let ran = ran() - before;
        assert!(Other::event_types()[0].is_registered());
        assert!(!IS_HELD.load(Ordering::SeqCst));
        holder.join().unwrap();
        assert!(ran < Duration::from_millis(50), "{ran:?} of processor time in a wait of 500 ms");
    });
}

extern "C" fn emit_in_handler(_: libc::c_int) {
    Other { value: 1 }.emit();
}

fn on_signal(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handler is a function of this program. The signal is sent by the program itself,
    // or it would kill the program.
    let before = unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
}

fn interrupt() {
    // SAFETY: sends a signal to this thread, which has a handler for it.
    unsafe { libc::raise(libc::SIGUSR1) };
}

#[test]
fn a_handler_that_interrupts_the_builder_is_counted() {
    alone("a_handler_that_interrupts_the_builder_is_counted", || {
        on_signal(libc::SIGUSR1, emit_in_handler);
        let (sink, builder) = memory("Locks");
        let session = builder.start().unwrap();
        install(interrupt);
        // The first event of the other type interrupts the registration on this thread.
        drop(Session::builder().register::<Slow>());
        Other { value: 2 }.emit();
        let stats = session.finish().unwrap();
        assert_eq!((stats.attempted, stats.drops.reentrant), (2, 1), "{stats:?}");
        check(&sink.bytes(), &stats);
    });
}

#[test]
fn a_handler_that_interrupts_the_registry_is_counted() {
    alone("a_handler_that_interrupts_the_registry_is_counted", || {
        on_signal(libc::SIGUSR1, emit_in_handler);
        let (sink, builder) = memory("Locks");
        let session = builder.start().unwrap();
        install(interrupt);
        // The registration comes through a backend of another crate.
        registry::register(Slow::event_types()[0]).unwrap();
        Slow { value: 2 }.emit();
        let stats = session.finish().unwrap();
        assert_eq!((stats.attempted, stats.drops.reentrant), (2, 1), "{stats:?}");
        check(&sink.bytes(), &stats);
    });
}

/// A sink that faults in its first write.
struct Faulty(MemorySink);

impl Sink for Faulty {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.0.start(header, end)
    }

    fn write(&mut self, _: &Batch<'_>) -> Result<(), WriteError> {
        let nowhere = std::ptr::dangling_mut::<u8>();
        // SAFETY: there is none. The test is about this fault, at an address that is never mapped.
        unsafe { nowhere.write_volatile(1) };
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
}

extern "C" fn say_and_leave(_: libc::c_int) {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(42) };
}

#[test]
fn a_crash_handler_runs_for_a_fault_in_a_sink() {
    if is_rerun().is_none() {
        let name = "a_crash_handler_runs_for_a_fault_in_a_sink";
        let output = rerun(name, "alone");
        assert_eq!(output.status.code(), Some(42), "{:?}", output.status);
        return;
    }
    on_signal(libc::SIGSEGV, say_and_leave);
    let session = Session::builder().sink(Faulty(MemorySink::new())).provider("Locks").start();
    Slow { value: 1 }.emit();
    let _ = session.unwrap().flush();
}
