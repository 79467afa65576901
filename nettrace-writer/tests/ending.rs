//! The end of sessions: their counts are exact to the last event, and they leave no memory behind.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    fs, io, panic,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use nettrace_event::{EventSchema, EventType, FieldSchema, FieldType};
use nettrace_reader::heph;
use nettrace_writer::{
    Emit, Error, Format, OnFull, Session, SessionBuilder, TraceEvent,
    sink::{Batch, MemorySink, Sink, StreamEnd, WriteError},
};
use testkit::effort::all_or;

use crate::trace_support::{Hostile, check, schema, sound};

/// A sink into memory that calls a function before each write.
struct Slow<F> {
    memory: MemorySink,
    before: F,
}

impl<F: FnMut() + Send> Sink for Slow<F> {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.memory.start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        (self.before)();
        self.memory.write(batch)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.memory.finish()
    }
}

/// A session with little memory.
fn narrow(
    provider: &str,
    on_full: OnFull,
    before: impl FnMut() + Send + 'static,
) -> (MemorySink, SessionBuilder) {
    let memory = MemorySink::new();
    let sink = Slow { memory: memory.clone(), before };
    let builder = Session::builder().sink(sink).provider(provider).on_full(on_full);
    (memory, builder.budget(256 << 10).chunk_size(4_096).prefault(0))
}

/// Makes a sink stop at its first write until it is told to go on.
fn gate() -> (mpsc::Receiver<()>, mpsc::Sender<()>, impl FnMut() + Send + 'static) {
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let stop = move || {
        let _ = reached.send(());
        let _ = may_go_on.recv();
    };
    (is_reached, go_on, stop)
}

/// Waits until a count has not changed for a while.
fn settled(count: &AtomicU64) {
    let mut last = (count.load(Ordering::SeqCst), Instant::now());
    while last.1.elapsed() < Duration::from_millis(300) {
        thread::sleep(Duration::from_millis(10));
        let now = count.load(Ordering::SeqCst);
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
}

/// A thread of this process, as the system knows it.
struct SystemThread(PathBuf);

impl SystemThread {
    fn current() -> Self {
        Self(fs::read_link("/proc/thread-self").map_or_else(
            |_| PathBuf::new(), // not on Linux
            |own| Path::new("/proc").join(own),
        ))
    }

    /// Whether it sleeps, and does not only wait for a processor. True for all threads of a system
    /// that is not Linux.
    fn sleeps(&self) -> bool {
        let Ok(stat) = fs::read_to_string(self.0.join("stat")) else { return true };
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
    }
}

/// Whether the flushers of all sessions sleep.
fn flushers_sleep() -> bool {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return true };
    threads.flatten().map(|thread| thread.path()).all(|thread| {
        let name = fs::read_to_string(thread.join("comm")).unwrap_or_default();
        !name.starts_with("nettrace-flushe") || SystemThread(thread).sleeps()
    })
}

/// Waits until each of these threads waits in an event: it has been seen asleep, again and again,
/// since the last event began.
fn all_wait(threads: &[SystemThread], begun: &AtomicU64) {
    settled(begun);
    let (mut last, mut asleep) = (0, vec![0; threads.len()]);
    while asleep.iter().any(|times| *times < 3) {
        thread::sleep(Duration::from_millis(5));
        let now = begun.load(Ordering::SeqCst);
        if now != last {
            (last, asleep) = (now, vec![0; threads.len()]);
        }
        for (times, thread) in asleep.iter_mut().zip(threads) {
            *times += u32::from(thread.sleeps());
        }
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Ending-Block")]
struct Waiting {
    value: u64,
    text: &'static str,
}

#[test]
fn events_that_wait_for_room_when_the_session_ends_are_counted() {
    let (reached, go_on, stop) = gate();
    let (memory, builder) = narrow("Ending-Block", OnFull::Block, stop);
    let session = builder.start().unwrap();
    let begun = Arc::new(AtomicU64::new(0));
    let is_ending = Arc::new(AtomicBool::new(false));
    let (started, are_started) = mpsc::channel();
    let threads: Vec<_> = (0..400)
        .map(|_| {
            let (begun, is_ending) = (Arc::clone(&begun), Arc::clone(&is_ending));
            let started = started.clone();
            thread::spawn(move || {
                started.send(SystemThread::current()).unwrap();
                while !is_ending.load(Ordering::SeqCst) {
                    let value = begun.fetch_add(1, Ordering::SeqCst);
                    Waiting { value, text: "text that fills the chunks in no time" }.emit();
                }
            })
        })
        .collect();
    reached.recv().unwrap();
    // Every thread waits, because the sink takes nothing.
    let system: Vec<_> = are_started.iter().take(threads.len()).collect();
    all_wait(&system, &begun);
    is_ending.store(true, Ordering::SeqCst);
    let finishing = thread::spawn(move || session.finish().unwrap());
    // The session does not listen any more, because it is ending.
    while Waiting::is_any_enabled() {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(100));
    drop(go_on);
    let stats = finishing.join().unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(stats.attempted, begun.load(Ordering::SeqCst), "{stats:?}");
    assert!(stats.drops.no_room > 0, "some waited to the end: {stats:?}");
    check(&memory.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Ending-Buffer")]
struct Late {
    value: u64,
}

#[test]
fn events_that_wait_for_a_buffer_when_the_session_ends_are_counted() {
    const FIELDS: &[FieldSchema] = &[FieldSchema::new("value", FieldType::U64)];
    const fn with_id(name: &'static str) -> EventSchema {
        EventSchema { id_is_explicit: true, ..schema("Ending-Buffer", name, 7, FIELDS) }
    }
    static TAKES: EventSchema = with_id("Takes");
    static TAKEN: EventType = EventType::new(&TAKES);
    static IS_REFUSED: EventSchema = with_id("Refused");
    static REFUSED: EventType = EventType::new(&IS_REFUSED);
    let emit = |ty| Hostile { ty, bytes: &|| vec![0; 8] }.emit();
    let (reached, go_on, stop) = gate();
    let (memory, builder) = narrow("Ending-Buffer", OnFull::Block, stop);
    let session = builder.start().unwrap();
    emit(&TAKEN);
    reached.recv().unwrap();
    // Each of these leaves a buffer and takes no memory, until there are too many buffers for
    // another.
    let mut begun = 1;
    while session.stats().threads >= begun {
        begun += 1;
        let (started, is_started) = mpsc::channel();
        let thread = thread::spawn(move || {
            started.send(SystemThread::current()).unwrap();
            emit(&REFUSED);
        });
        // It ends, or sleeps until there is a buffer, and looks every 5 ms whether there is one. On
        // a busy machine it is hardly ever seen asleep so often at a stretch. It may sleep for a
        // moment for other reasons.
        let (system, mut asleep) = (is_started.recv().unwrap(), 0);
        while !thread.is_finished() && asleep < 100 {
            thread::sleep(Duration::from_micros(if asleep > 5 { 5_000 } else { 100 }));
            asleep += u32::from(system.sleeps());
        }
        if !thread.is_finished() {
            break;
        }
    }
    assert!((512..5_000).contains(&begun), "{begun}");
    let (started, are_started) = mpsc::channel();
    let waiting: Vec<_> = (0..8)
        .map(|value| {
            let started = started.clone();
            thread::spawn(move || {
                started.send(SystemThread::current()).unwrap();
                Late { value }.emit();
            })
        })
        .collect();
    begun += waiting.len() as u64;
    // Each thread has seen that the session listens, and sleeps until there is a buffer.
    for thread in are_started.iter().take(waiting.len()) {
        while !thread.sleeps() {
            thread::sleep(Duration::from_millis(1));
        }
    }
    let finishing = thread::spawn(move || session.finish().unwrap());
    while Late::is_any_enabled() {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(100));
    drop(go_on);
    let stats = finishing.join().unwrap();
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(stats.attempted, begun, "{stats:?}");
    check(&memory.bytes(), &stats);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Ending-Panic")]
struct Panicky {
    value: u64,
    text: &'static str,
}

#[test]
fn a_sink_that_panics_leaves_exact_counts() {
    for (run, on_full) in [OnFull::Drop, OnFull::Block].into_iter().cycle().take(6).enumerate() {
        let mut writes = 0;
        let (memory, builder) = narrow("Ending-Panic", on_full, move || {
            writes += 1;
            if writes > 2 {
                panic::resume_unwind(Box::new("on purpose"));
            }
        });
        let session = builder.start().unwrap();
        let is_over = AtomicBool::new(false);
        let (stats, result) = thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    let mut value = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        Panicky { value, text: "text that fills the chunks in no time" }.emit();
                        value += 1;
                    }
                });
            }
            // The threads go on while the session is abandoned.
            while Panicky::is_any_enabled() {
                thread::sleep(Duration::from_millis(1));
            }
            let answer = session.finish_with_stats();
            is_over.store(true, Ordering::Relaxed);
            answer
        });
        assert!(matches!(result, Err(Error::FlusherDied)), "run {run}: {result:?}");
        assert_eq!(stats.attempted, stats.written + stats.dropped(), "run {run}: {stats:?}");
        let (events, _) = sound(&memory.bytes(), &[]);
        assert_eq!(events, stats.written, "run {run}");
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Ending-Pipe")]
struct Piped {
    value: u64,
    text: &'static str,
}

#[cfg(unix)]
#[test]
fn finish_gives_up_on_a_pipe_that_nobody_reads() {
    use std::{io::Read as _, os::unix::net::UnixStream};

    use nettrace_writer::sink::StreamSink;

    let (to, mut from) = UnixStream::pair().unwrap();
    let session = Session::builder().sink(StreamSink::new(to)).provider("Ending-Pipe");
    let session = session.on_full(OnFull::Block).budget(1 << 20).chunk_size(4_096).prefault(0);
    let session = session.finish_timeout(Duration::from_millis(300)).start().unwrap();
    let begun = Arc::new(AtomicU64::new(0));
    let is_ending = Arc::new(AtomicBool::new(false));
    let (started, are_started) = mpsc::channel();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (begun, is_ending) = (Arc::clone(&begun), Arc::clone(&is_ending));
            let started = started.clone();
            thread::spawn(move || {
                started.send(SystemThread::current()).unwrap();
                while !is_ending.load(Ordering::SeqCst) {
                    let value = begun.fetch_add(1, Ordering::SeqCst);
                    Piped { value, text: "text that fills the chunks in no time" }.emit();
                }
            })
        })
        .collect();
    // Each thread waits for room, because the flusher waits for the pipe.
    let system: Vec<_> = are_started.iter().take(threads.len()).collect();
    // There is a megabyte of memory, in pieces that rounds may take while almost empty. Whoever
    // waits wakes now and then, so not all of them are ever seen asleep at once on a busy machine.
    let (mut last, mut asleep) = (0, 0);
    while asleep < 3 {
        all_wait(&system, &begun);
        let now = begun.load(Ordering::SeqCst);
        asleep = if now == last && now > 100 { asleep + u32::from(flushers_sleep()) } else { 0 };
        last = now;
    }
    is_ending.store(true, Ordering::SeqCst);
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || done.send(session.finish_with_stats()).is_ok());
    let (stats, result) = is_done.recv_timeout(Duration::from_secs(240)).expect("finish gives up");
    assert!(matches!(result, Err(Error::FinishTimeout { .. })), "{result:?}");
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let begun = begun.load(Ordering::SeqCst);
    assert_eq!(stats.attempted, begun, "{stats:?}");
    assert_eq!(stats.dropped(), 8, "each thread waits for room: {stats:?}");
    assert!(stats.pending() > 0, "{stats:?}");
    // Somebody reads after all, so the rest follows, and the end.
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    assert_eq!(sound(&bytes, &[]), (begun - 8, 8));
}

#[derive(TraceEvent)]
#[trace_event(provider = "Ending-Inside")]
struct Inside {
    value: u64,
}

#[test]
fn a_sink_that_drops_its_own_session_ends_it() {
    let own = Arc::new(Mutex::new(None::<Session>));
    let inside = Arc::clone(&own);
    let (memory, builder) = narrow("Ending-Inside", OnFull::Drop, move || {
        drop(inside.lock().unwrap().take());
    });
    let session = builder.start().unwrap();
    *own.lock().unwrap() = Some(session);
    let start = Instant::now();
    Inside { value: 1 }.emit();
    // The sink has the other reference until it is dropped.
    while Arc::strong_count(&own) > 1 {
        assert!(start.elapsed() < Duration::from_secs(240), "the session does not end");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(sound(&memory.bytes(), &[]), (1, 0));
}

/// Pages of this process: those with an address, and those in memory.
#[cfg(target_os = "linux")]
fn pages() -> [u64; 2] {
    let status = fs::read_to_string("/proc/self/statm").expect("procfs");
    let mut numbers = status.split_whitespace().map(|pages| pages.parse().expect("a number"));
    [0; 2].map(|_| numbers.next().expect("two numbers"))
}

#[cfg(target_os = "linux")]
const MIB: u64 = (1 << 20) / 4096;

#[derive(TraceEvent)]
#[trace_event(provider = "Ending-Memory")]
struct Often {
    value: u64,
}

/// Runs sessions one after another, which their threads outlive: one thread emits to all sessions,
/// and some emit once. There are a thousand sessions, or as many as `NETTRACE_SESSIONS` says.
#[cfg(target_os = "linux")]
#[test]
fn sessions_leave_no_memory_behind() {
    use testkit::process::{is_rerun, once_in, rerun_within, skipped_in_emulator};

    const IDLE: usize = 50;
    let count = std::env::var("NETTRACE_SESSIONS").map_or(1_000, |count| count.parse().unwrap());
    if skipped_in_emulator("a bound on this process's memory, of which it has its share") {
        return;
    }
    // In a process of its own, because other tests have sessions as well.
    if is_rerun().is_none() {
        let name = "sessions_leave_no_memory_behind";
        let output = rerun_within(Duration::from_secs(3_600), name, "alone");
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{text}");
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let end = Arc::new(Mutex::new(()));
    let stay = end.lock().unwrap();
    let idle: Vec<_> = (0..IDLE)
        .map(|_| {
            let (once, when) = mpsc::channel::<mpsc::Sender<()>>();
            let end = Arc::clone(&end);
            thread::spawn(move || {
                while let Ok(done) = when.recv() {
                    Often { value: 1 }.emit();
                    done.send(()).unwrap();
                }
                drop(end.lock());
            });
            once
        })
        .collect();
    let session = |idle: &[mpsc::Sender<mpsc::Sender<()>>]| {
        let session = Session::builder().sink(MemorySink::new()).provider("Ending-Memory");
        let session = session.prefault(64 << 10).start().unwrap();
        Often { value: 0 }.emit();
        for thread in idle {
            let (done, is_done) = mpsc::channel();
            thread.send(done).unwrap();
            is_done.recv().unwrap();
        }
        let stats = session.finish().unwrap();
        assert_eq!(stats.attempted, stats.written);
        assert_eq!(stats.attempted, 1 + idle.len() as u64);
    };
    // What the allocator and the first sessions need once. All threads emit in each.
    (0..40).for_each(|_| session(&idle));
    // The allocator may take more when threads first compete for it. What leaks grows each time.
    once_in(3, || {
        let before = pages();
        for round in 0..count {
            // Each of the others emits in one of many sessions, and keeps its buffer to the end.
            let at = round * IDLE / count;
            let is_first = round * IDLE % count < IDLE;
            session(if is_first { &idle[at..=at] } else { &[] });
        }
        let after = pages();
        let grown = [0, 1].map(|at| after[at].saturating_sub(before[at]));
        let outcome = format!("{count} sessions: {before:?} pages before, {after:?} after");
        println!("{outcome}");
        if grown[0] <= 2 * MIB && grown[1] <= 2 * MIB { Ok(()) } else { Err(outcome) }
    });
    drop(stay);
}

#[cfg(target_os = "linux")]
#[test]
fn memory_stays_while_a_thread_is_stuck_and_is_freed_afterwards() {
    use testkit::process::alone;

    const FIELDS: &[FieldSchema] = &[FieldSchema::new("value", FieldType::U64)];
    static SCHEMA: EventSchema = schema("Ending-Stuck", "Stuck", 7, FIELDS);
    static STUCK: EventType = EventType::new(&SCHEMA);
    const BUDGET: u64 = 1 << 30;
    if !alone("memory_stays_while_a_thread_is_stuck_and_is_freed_afterwards") {
        return;
    }
    let without = pages()[0];
    let session = Session::builder().sink(MemorySink::new()).provider("Ending-Stuck");
    let session = session.flush_interval(Duration::from_secs(60)).budget(BUDGET as usize);
    let session = session.start().unwrap();
    let (encoding, is_encoding) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (out, is_out) = mpsc::channel();
    let (end, is_end) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        for value in 0..10_u64 {
            let bytes = || value.to_le_bytes().to_vec();
            Hostile { ty: &STUCK, bytes: &bytes }.emit();
        }
        let bytes = || {
            encoding.send(()).unwrap();
            let _ = may_go_on.recv();
            7_u64.to_le_bytes().to_vec()
        };
        Hostile { ty: &STUCK, bytes: &bytes }.emit();
        out.send(()).unwrap();
        let _ = is_end.recv();
    });
    is_encoding.recv().unwrap();
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.lost_in_sink), (10, 10), "{stats:?}");
    assert!(pages()[0] - without > BUDGET / 4096, "the thread can still write");
    // Its event is encoded more than once.
    drop(go_on);
    is_out.recv().unwrap();
    let start = Instant::now();
    while pages()[0] - without > BUDGET / 4096 {
        assert!(start.elapsed() < Duration::from_secs(240), "the memory is not freed");
        thread::sleep(Duration::from_millis(10));
    }
    // It goes on in whatever session there is.
    drop(end);
    thread.join().unwrap();
}

#[derive(TraceEvent)]
#[trace_event(provider = "Ending-Owed")]
struct Owed {
    value: u64,
}

/// What a thread had recorded that is stuck at the end is lost, and the trace says so: of a thread
/// that readers know, and of one that they do not.
#[test]
fn what_a_stuck_thread_had_recorded_is_a_gap_in_the_trace() {
    const FIELDS: &[FieldSchema] = &[FieldSchema::new("value", FieldType::U64)];
    static SCHEMA: EventSchema = schema("Ending-Owed", "Stuck", 7, FIELDS);
    static STUCK: EventType = EventType::new(&SCHEMA);
    // A round in between would write what is to be lost.
    const LONG: Duration = Duration::from_secs(60);
    // Each waits four seconds for the threads.
    for &format in all_or(Format::ALL, &[Format::V6]) {
        let memory = MemorySink::new();
        let session = Session::builder().sink(memory.clone()).provider("Ending-Owed");
        let session = session.format(format).flush_interval(LONG).start().unwrap();
        let (known, is_known) = mpsc::channel();
        let (begun, is_begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let may_go_on = Arc::new(Mutex::new(may_go_on));
        let get_stuck = |first: u64, then: u64| {
            let (known, begun) = (known.clone(), begun.clone());
            let may_go_on = Arc::clone(&may_go_on);
            let (written, is_written) = mpsc::channel::<()>();
            let thread = thread::spawn(move || {
                (0..first).for_each(|value| Owed { value }.emit());
                known.send(()).unwrap();
                is_written.recv().unwrap();
                (0..then).for_each(|value| Owed { value }.emit());
                let bytes = || {
                    let _ = begun.send(());
                    let _ = may_go_on.lock().unwrap().recv();
                    vec![1; 8]
                };
                Hostile { ty: &STUCK, bytes: &bytes }.emit();
            });
            is_known.recv().unwrap();
            session.flush().unwrap();
            written.send(()).unwrap();
            is_begun.recv().unwrap();
            thread
        };
        let threads = [get_stuck(20, 30), get_stuck(0, 40)];
        let stats = session.finish().unwrap();
        drop(go_on);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((stats.attempted, stats.written, stats.lost_in_sink), (90, 20, 70), "{format}");
        assert_eq!(events_and_lost(format, &memory.bytes()), (20, 70), "{format}");
    }
}

/// How many events a sound trace has, and how many it says are missing.
fn events_and_lost(format: Format, bytes: &[u8]) -> (u64, u64) {
    if format != Format::Heph {
        return sound(bytes, &[]);
    }
    let mut reader = heph::Reader::new(bytes);
    while reader.next_event().unwrap().is_some() {}
    (reader.totals().events, reader.totals().lost)
}
