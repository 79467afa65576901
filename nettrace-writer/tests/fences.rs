//! A kernel without `membarrier`: owners execute fences, and the order of events holds.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a filter of system calls")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{sync::mpsc, thread, time::Duration};

use nettrace_writer::{Clock, Emit, TraceEvent};
use testkit::process::{self, skipped_in_emulator};

use crate::trace_support::{check, memory, read};

#[derive(TraceEvent)]
#[trace_event(provider = "Fences")]
struct Fenced {
    value: u64,
}

/// Makes `membarrier`, and perhaps another system call, fail in this process from now on.
fn take_away(other: Option<libc::c_long>) {
    let statement =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let refuse = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    // The number of the system call is the first word of `seccomp_data`.
    let mut filter = vec![statement(load, 0, 0, 0)];
    for call in [Some(libc::SYS_membarrier), other].into_iter().flatten() {
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        filter.push(statement(equal, 0, 1, call as u32));
        filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, refuse));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: sets a flag of this thread.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let (mode, all_threads) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: the program is live, and the kernel copies and checks it.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, mode, all_threads, &raw const program) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: takes three integers.
    assert_eq!(unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) }, -1);
}

/// Whether this is the process in which `test` must do its work. If not, runs the test in such a
/// process.
fn alone(test: &str) -> bool {
    // QEMU refuses every filter with EINVAL, because it could hit QEMU's own system calls.
    !skipped_in_emulator("a filter that takes a system call away") && process::alone(test)
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fences-Later")]
struct Later {
    value: u64,
}

/// A thread that emits as many events as it is told, and reports when it has.
fn on_command() -> (mpsc::Sender<u64>, mpsc::Receiver<()>, thread::JoinHandle<()>) {
    let ((command, commands), (say, said)) = (mpsc::channel::<u64>(), mpsc::channel());
    let thread = thread::spawn(move || {
        for count in commands {
            (0..count).for_each(|value| Later { value }.emit());
            say.send(()).unwrap();
        }
    });
    (command, said, thread)
}

#[test]
fn a_membarrier_that_is_taken_away_costs_no_event_and_no_order() {
    if !alone("a_membarrier_that_is_taken_away_costs_no_event_and_no_order") {
        return;
    }
    let (sink, builder) = memory("Fences-Later");
    let builder = builder.sequence_points(1, Duration::from_millis(1));
    // There is no round by itself, so a thread that has emitted has a chunk.
    let session = builder.flush_interval(Duration::from_secs(60)).start().unwrap();
    let threads: Vec<_> = (0..8).map(|_| on_command()).collect();
    threads.iter().for_each(|(command, said, _)| {
        command.send(10).unwrap();
        said.recv().unwrap();
    });
    assert!(!session.stats().pays_fences);
    take_away(None);
    // Half of the threads emit again, the others never.
    for _ in 0..50 {
        threads[..4].iter().for_each(|(command, ..)| command.send(100).unwrap());
        session.flush().unwrap();
        threads[..4].iter().for_each(|(_, said, _)| said.recv().unwrap());
    }
    let points = session.stats().sequence_points;
    assert!(points > 10, "rounds are complete: {:?}", session.stats());
    let stats = session.finish().unwrap();
    assert!(stats.pays_fences);
    assert_eq!((stats.attempted, stats.dropped()), (80 + 4 * 50 * 100, 0), "{stats:?}");
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    assert!(events.windows(2).all(|pair| pair[0].timestamp <= pair[1].timestamp));
}

#[test]
fn without_any_barrier_what_a_silent_thread_holds_waits_for_it() {
    if !alone("without_any_barrier_what_a_silent_thread_holds_waits_for_it") {
        return;
    }
    let (sink, builder) = memory("Fences-Later");
    let session = builder.flush_interval(Duration::from_secs(60)).start().unwrap();
    let threads: Vec<_> = (0..3).map(|_| on_command()).collect();
    threads.iter().for_each(|(command, said, _)| {
        command.send(10).unwrap();
        said.recv().unwrap();
    });
    take_away(Some(libc::SYS_sched_setaffinity));
    let [emits_on, ends, stays] = threads.try_into().unwrap();
    for _ in 0..20 {
        emits_on.0.send(100).unwrap();
        emits_on.1.recv().unwrap();
        session.flush().unwrap();
    }
    assert_eq!(session.stats().written, 10 + 20 * 100, "what can be proved: {:?}", session.stats());
    drop(ends.0);
    ends.2.join().unwrap();
    session.flush().unwrap();
    assert_eq!(session.stats().written, 20 + 20 * 100, "a thread that ends: {:?}", session.stats());
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.lost_in_sink), (30 + 20 * 100, 10), "{stats:?}");
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
    // The reference reader cannot start here, because its run time wants to choose processors.
    let report = nettrace_reader::verify(&sink.bytes()[..]).unwrap();
    assert_eq!((report.count, report.events), (0, stats.written), "{report:?}");
    drop(stays.0);
    stays.2.join().unwrap();
}

#[test]
fn order_and_counts_hold_without_membarrier() {
    if !alone("order_and_counts_hold_without_membarrier") {
        return;
    }
    take_away(None);
    for clock in [Clock::Auto, Clock::Monotonic] {
        let (sink, builder) = memory("Fences");
        let builder = builder.clock(clock).budget(8 << 20).flush_interval(Duration::from_millis(1));
        let session = builder.sequence_points(1, Duration::from_millis(1)).start().unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for value in 0..20_000 {
                        Fenced { value }.emit();
                        if value % 100 == 0 {
                            thread::sleep(Duration::from_micros(100));
                        }
                    }
                });
            }
        });
        let stats = session.finish().unwrap();
        assert!(stats.pays_fences);
        assert_eq!((stats.attempted, stats.dropped()), (60_000, 0), "{stats:?}");
        check(&sink.bytes(), &stats);
        let events = read(&sink.bytes());
        assert!(events.windows(2).all(|pair| pair[0].timestamp <= pair[1].timestamp));
    }
}
