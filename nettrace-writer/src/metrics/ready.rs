//! Instruments of the process and of the tracer.

use crate::{
    metrics::{instruments::Meter, state::observable::Observer},
    shared::{sessions, stats::Stats},
    sync::{AtomicBool, Ordering},
};

/// Values of the process that the system knows.
#[cfg(unix)]
static PROCESS: Meter = Meter::new("NetTrace.Process");
/// Values that sessions have of themselves.
static TRACER: Meter = Meter::new("NetTrace.Tracer");

/// Name, unit, description and value of an instrument for each session.
type SessionInstrument = (&'static str, &'static str, &'static str, fn(&Stats) -> u64);

/// Makes the instruments of the process and of the tracer known to clients, until the process
/// ends. Further calls do nothing. `nettrace_diagnostics::listen` calls this.
///
/// They are read when somebody looks, and cost nothing otherwise.
///
/// | meter | instrument | unit | kind |
/// |---|---|---|---|
/// | `NetTrace.Process` | `process.cpu.time` | `s` | counter |
/// | | `process.memory.usage`: the resident memory | `By` | gauge |
/// | | `process.thread.count` | `{thread}` | gauge |
/// | | `process.open_file_descriptor.count` | `{descriptor}` | gauge |
/// | `NetTrace.Tracer` | `nettrace.events`: written events | `{event}` | counter |
/// | | `nettrace.dropped`: events that were dropped | `{event}` | counter |
/// | | `nettrace.bytes`: bytes that the sink has taken | `By` | counter |
/// | | `nettrace.wakeups`: how often the session's thread has collected events | `{wakeup}` | counter |
///
/// Those of the tracer have a tag `session` with a number for each live session. Those of the
/// process are for Linux, apart from the time, which all Unix systems have. The
/// [allocator](crate::metrics::CountingAllocator) has more.
///
/// ```
/// nettrace_writer::metrics::observe_process();
/// ```
pub fn observe_process() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if IS_DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    #[cfg(unix)]
    PROCESS
        .observable_counter("process.cpu.time", |cpu| {
            use rustix::time::{ClockId, clock_gettime};
            let time = clock_gettime(ClockId::ProcessCPUTime);
            cpu.observe(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9);
        })
        .unit("s")
        .description("Processor time of all threads")
        .build()
        .forget();
    #[cfg(target_os = "linux")]
    linux::observe();
    let of_sessions: [SessionInstrument; 4] = [
        ("nettrace.events", "{event}", "Written events", |stats| stats.written),
        ("nettrace.dropped", "{event}", "Dropped events", Stats::dropped),
        ("nettrace.bytes", "By", "Bytes that the sink has taken", |stats| stats.bytes),
        ("nettrace.wakeups", "{wakeup}", "Rounds of the session's thread", |stats| stats.flushes),
    ];
    for (name, unit, description, value) in of_sessions {
        let observe = move |observer: &mut Observer<'_>| {
            for (number, session) in sessions::live() {
                observer
                    .observe_tagged(value(&session.stats()), &[("session", &number.to_string())]);
            }
        };
        let builder = TRACER.observable_counter(name, observe).unit(unit);
        builder.description(description).build().forget();
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use super::PROCESS;

    /// A field of `/proc/self/stat`, counted from 1 as in its manual.
    pub(super) fn of_stat(field: usize) -> Option<u64> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name, which is the second field, can contain anything.
        let (_, after) = stat.rsplit_once(") ")?;
        after.split(' ').nth(field.checked_sub(3)?)?.parse().ok()
    }

    pub(super) fn observe() {
        let gauge = |name, unit, description, read: fn() -> Option<u64>| {
            let observe = move |observer: &mut crate::metrics::Observer<'_>| {
                if let Some(value) = read() {
                    observer.observe(value);
                }
            };
            let builder = PROCESS.observable_gauge(name, observe).unit(unit);
            builder.description(description).build().forget();
        };
        gauge("process.memory.usage", "By", "Resident memory", || {
            Some(of_stat(24)? * rustix::param::page_size() as u64)
        });
        gauge("process.thread.count", "{thread}", "Threads", || of_stat(20));
        gauge("process.open_file_descriptor.count", "{descriptor}", "Open descriptors", || {
            // One of them is that of the folder.
            Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
        });
    }
}
