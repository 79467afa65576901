//! Parts of what is kept: the last seconds, what a dump before does not have, and what comes.

use std::{
    collections::BTreeSet,
    io::{self, ErrorKind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use nettrace_reader::Reader;
use nettrace_writer::{
    Dump, Emit, Error, Keep, Label, Origin, Past, Session, SessionBuilder, TraceEvent,
    enter_labels,
    sink::{Batch, MemorySink, Sink, StreamEnd, WriteError},
};

use crate::{
    LONG,
    trace_support::{Seen, read, sound},
};

/// So that few events fill a recorder.
const TEXT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Events of a test alone: the others run at the same time.
macro_rules! events {
    ($($name:ident of $provider:literal)*) => { $(
        #[derive(TraceEvent)]
        #[trace_event(provider = $provider)]
        struct $name {
            number: u64,
            text: &'static str,
        }

        impl $name {
            fn new(number: u64) -> Self {
                Self { number, text: TEXT }
            }
        }
    )* };
}

events! {
    Disjoint of "Flight-Disjoint"
    Last of "Flight-Last"
    Followed of "Flight-Followed"
    Held of "Flight-Held"
    Anew of "Flight-Anew"
}

/// A recorder that keeps little, in memory or in a file.
fn recorder(provider: &str, keep: Keep, file: Option<&tempfile::TempDir>) -> SessionBuilder {
    let builder = Session::builder().flight_recorder(keep).provider(provider);
    #[cfg(all(feature = "persistent", target_os = "linux", target_pointer_width = "64"))]
    let builder = match file {
        Some(folder) => builder.budget(8 << 20).persistent(folder.path().join("recorder")),
        None => builder,
    };
    #[cfg(not(all(feature = "persistent", target_os = "linux", target_pointer_width = "64")))]
    let _ = file;
    builder.flush_interval(Duration::from_millis(5))
}

/// A part of what is kept, and its events. What readers count as lost is what it says.
fn dump(session: &Session, past: Past) -> (Dump, Vec<Seen>) {
    let memory = MemorySink::new();
    let dump = session.dump_past(past, memory.clone(), &[]).unwrap();
    let bytes = memory.bytes();
    assert_eq!(sound(&bytes, &[]), (dump.events, dump.given_up + dump.left_out), "{dump:?}");
    let reader = Reader::new(&bytes[..]).unwrap();
    let left_out = reader.trace().value("nettrace.left_out").map(|count| count.parse().unwrap());
    assert_eq!(left_out.unwrap_or(0), dump.left_out);
    (dump, read(&bytes))
}

/// Emits an event with a label and a stack of its own.
fn emit(event: impl Emit, number: u64) {
    let _labels = enter_labels(&[Label::Int("number", number as i64)]).unwrap();
    event.emit_with(&Origin::new().stack(&[number, 7]));
}

/// What the threads of a test are to do.
const EMIT: u64 = 0;
const WAIT: u64 = 1;
const END: u64 = 2;

/// Ends the threads of a test, also one that fails.
struct Ends<'a>(&'a AtomicU64);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(END, Ordering::SeqCst);
    }
}

#[test]
fn dumps_that_follow_each_other_have_each_event_once() {
    let folder = tempfile::tempdir().unwrap();
    for file in [None, Some(&folder)] {
        let session = recorder("Flight-Disjoint", Keep::last(LONG), file).start().unwrap();
        let stage = AtomicU64::new(EMIT);
        let all = thread::scope(|scope| {
            // They live as long as the session, so a reader knows of all that it does not see.
            let threads: Vec<_> = (0..2)
                .map(|thread| {
                    let stage = &stage;
                    scope.spawn(move || {
                        let mut number = thread << 32;
                        while stage.load(Ordering::SeqCst) == EMIT {
                            emit(Disjoint::new(number), number);
                            number += 1;
                            thread::sleep(Duration::from_micros(300));
                        }
                        while stage.load(Ordering::SeqCst) == WAIT {
                            thread::yield_now();
                        }
                        number
                    })
                })
                .collect();
            let _ends = Ends(&stage);
            let mut seen: Vec<Seen> = Vec::new();
            let (mut before, first) = dump(&session, Past::All);
            seen.extend(first);
            for round in 0..8 {
                if round == 7 {
                    // An emit that is under way ends meanwhile.
                    stage.store(WAIT, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(200));
                }
                let (next, events) = dump(&session, Past::After(before));
                assert_eq!((next.given_up, next.left_out), (0, seen.len() as u64), "{round}");
                seen.extend(events);
                before = next;
            }
            stage.store(END, Ordering::SeqCst);
            let ends = threads.into_iter().map(|thread| thread.join().unwrap());
            let expected = ends.zip(0_u64..).flat_map(|(end, thread)| thread << 32..end);
            let numbers: Vec<_> = seen.iter().map(Seen::value).collect();
            let once: BTreeSet<_> = numbers.iter().copied().collect();
            assert_eq!(once.len(), numbers.len(), "an event is in two dumps");
            assert_eq!(once, expected.collect());
            seen
        });
        for event in &all {
            assert_eq!(event.labels.len(), 1, "{event:?}");
            assert_eq!(event.stack, [event.value(), 7]);
        }
        session.finish().unwrap();
    }
}

#[test]
fn the_last_time_is_what_was_asked_for_or_a_little_more() {
    let folder = tempfile::tempdir().unwrap();
    for file in [None, Some(&folder)] {
        let session = recorder("Flight-Last", Keep::last(LONG), file);
        // A stretch is 100 ms, or longer on a machine that is busy otherwise.
        let session = session.sequence_points(1 << 20, Duration::from_millis(100));
        let session = session.start().unwrap();
        let mut number = 0;
        let (asked, part, events) = loop {
            for _ in 0..40 {
                emit(Last::new(number), number);
                number += 1;
                thread::sleep(Duration::from_millis(10));
            }
            let asked = SystemTime::now();
            let (part, events) = dump(&session, Past::Last(Duration::from_millis(200)));
            if part.left_out > 0 {
                break (asked, part, events);
            }
            assert!(number < 4_000, "{part:?}");
        };
        let back = asked.duration_since(part.begins).unwrap();
        assert!(back >= Duration::from_millis(200), "{back:?}");
        assert_eq!(part.events + part.left_out, number, "{part:?}");
        let numbers: Vec<_> = events.iter().map(Seen::value).collect();
        assert_eq!(numbers, (part.left_out..number).collect::<Vec<_>>());
        // More than there is.
        assert_eq!(dump(&session, Past::Last(LONG)).0.events, number);
        session.finish().unwrap();
    }
}

#[test]
fn whoever_follows_gets_what_was_kept_and_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    for (file, ends_session) in [(None, false), (Some(&folder), false), (None, true)] {
        let session =
            recorder("Flight-Followed", Keep::last(LONG).within(1 << 20), file).start().unwrap();
        let emitted = AtomicU64::new(0);
        let emit = |count: u64| {
            for _ in 0..count {
                let number = emitted.fetch_add(1, Ordering::SeqCst);
                emit(Followed::new(number), number);
            }
        };
        // The ring is full before, and is filled some times meanwhile.
        let fill = || {
            for _ in 0..20 {
                emit(300);
                session.flush().unwrap();
            }
        };
        fill();
        let (before, _) = dump(&session, Past::All);
        assert!(before.given_up > 0, "{before:?}");
        let memories = [MemorySink::new(), MemorySink::new()];
        let recorder = session.as_flight_recorder().unwrap();
        let following = memories.clone().map(|memory| recorder.follow(Past::All, memory).unwrap());
        drop(recorder);
        (0..4).for_each(|_| fill());
        emit(7);
        let stats = session.stats();
        if ends_session {
            session.finish().unwrap();
        }
        for (following, memory) in following.into_iter().zip(memories) {
            let dump = following.finish().unwrap();
            assert_eq!(
                dump.events + dump.given_up + stats.dropped(),
                emitted.load(Ordering::SeqCst)
            );
            assert_eq!((dump.given_up, dump.begins), (before.given_up, before.begins));
            let bytes = memory.bytes();
            assert_eq!(dump.bytes, bytes.len() as u64);
            let lost = dump.given_up + stats.dropped();
            assert_eq!(sound(&bytes, &[]), (dump.events, lost));
            assert!(read(&bytes).iter().all(|event| event.labels.len() == 1));
        }
    }
}

/// A sink that takes nothing until it is allowed to.
struct Holding(&'static Mutex<()>);

impl Sink for Holding {
    fn start(&mut self, _: &[u8], _: StreamEnd) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, _: &Batch<'_>) -> Result<(), WriteError> {
        drop(self.0.lock().unwrap());
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_takes_too_little_ends_its_own_trace_alone() {
    static HOLD: Mutex<()> = Mutex::new(());
    let folder = tempfile::tempdir().unwrap();
    for file in [None, Some(&folder)] {
        let session = recorder("Flight-Held", Keep::last(LONG).within(1 << 20), file);
        let session = session.start().unwrap();
        let emit = |numbers: std::ops::Range<u64>| {
            for number in numbers {
                Held::new(number).emit();
                if number % 400 == 0 {
                    session.flush().unwrap();
                }
            }
        };
        // The recorder is full.
        emit(0..10_000);
        let kept = dump(&session, Past::All).0;
        assert!(kept.given_up > 0, "{kept:?}");
        let held = HOLD.lock().unwrap();
        let recorder = session.as_flight_recorder().unwrap();
        let following = recorder.follow(Past::All, Holding(&HOLD)).unwrap();
        // Those that are forgotten do not count.
        for _ in 0..3 {
            let follow = || recorder.follow(Past::All, MemorySink::new());
            let others: Vec<_> = (0..15).map(|_| follow().unwrap()).collect();
            let error = follow().unwrap_err();
            assert!(error.to_string().contains("16 others follow"), "{error}");
            drop(others);
        }
        for round in 0..5 {
            emit(10_000 + round * 4_000..14_000 + round * 4_000);
            // The recorder keeps as much as if nobody held anything.
            let now = dump(&session, Past::All).0;
            assert!(now.events > kept.events / 2, "{now:?}, before {kept:?}");
        }
        drop(held);
        let error = following.finish().unwrap_err();
        let is_late = matches!(&error, Error::Sink(error) if error.kind() == ErrorKind::TimedOut);
        assert!(is_late, "{error}");
        let stats = session.stats();
        let (dump, _) = dump(&session, Past::All);
        assert_eq!(dump.events + dump.given_up + stats.dropped(), 30_000);
        session.finish().unwrap();
        let error = recorder.follow(Past::All, MemorySink::new()).unwrap_err();
        assert!(matches!(error, Error::Sink(_)), "{error}");
    }
}

#[test]
fn whoever_follows_knows_until_when_and_that_the_recorder_has_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep::last(LONG).within(1 << 20);
    let session = recorder("Flight-Anew", keep, Some(&folder)).flush_interval(LONG);
    let session = session.start().unwrap();
    let recorder = session.as_flight_recorder().unwrap();
    let hold: &'static Mutex<()> = Box::leak(Box::default());
    let held = hold.lock().unwrap();
    let following = recorder.follow(Past::All, Holding(hold)).unwrap();
    Anew::new(0).emit();
    let before = SystemTime::now();
    let ended = thread::spawn(|| following.finish().unwrap());
    thread::sleep(Duration::from_millis(300));
    let after = SystemTime::now();
    drop(held);
    let dump = ended.join().unwrap();
    assert!(dump.events == 1 && before <= dump.ends && dump.ends < after, "{dump:?}");

    let following = recorder.follow(Past::All, MemorySink::new()).unwrap();
    // What these refer to has no room.
    for number in 1..9_000 {
        let text = format!("{number:0300}");
        let _labels = enter_labels(&[Label::Str("text", &text)]).unwrap();
        Anew::new(number).emit();
    }
    session.flush().unwrap();
    let ended = following.finish();
    if cfg!(all(feature = "persistent", target_os = "linux", target_pointer_width = "64")) {
        // Or one round is more than may wait.
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("has begun anew") || error.contains("takes less"), "{error}");
    }
}
