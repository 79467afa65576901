//! A kernel without `membarrier`: producers pay for the order of events, and it holds.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a filter of system calls")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{thread, time::Duration};

use nettrace_writer::{Clock, Emit, TraceEvent};

use crate::trace_support::{check, is_rerun, memory, read, rerun};

#[derive(TraceEvent)]
#[trace_event(provider = "Fences")]
struct Fenced {
    value: u64,
}

/// From here on `membarrier` does not exist for this thread and those that it starts.
fn take_membarrier_away() {
    let statement =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let mut filter = [
        // The number of the system call is the first word of `seccomp_data`.
        statement(load, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_membarrier as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: sets a flag of this thread.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let filter = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program is live, and the kernel copies and checks it.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: takes three integers.
    assert_eq!(unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) }, -1);
}

#[test]
fn order_and_counts_hold_without_membarrier() {
    if is_rerun().is_none() {
        let name = "order_and_counts_hold_without_membarrier";
        let output = rerun(name, "fences", Duration::from_secs(60));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    take_membarrier_away();
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
        assert_eq!((stats.attempted, stats.dropped()), (60_000, 0), "{stats:?}");
        check(&sink.bytes(), &stats);
        let events = read(&sink.bytes());
        assert!(events.windows(2).all(|pair| pair[0].timestamp <= pair[1].timestamp));
    }
}
