//! Parts of what is kept: the last seconds, what a dump before does not have, and what comes.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use nettrace_format::v6;
use nettrace_reader::{Options, Reader};
use nettrace_writer::{
    Dump, Emit, Error, Keep, Label, Origin, Past, Session, SessionBuilder, TraceEvent,
    enter_labels,
    sink::{Batch, MemorySink, Sink, StreamEnd, WriteError},
};

use crate::{
    LONG,
    trace_support::{Seen, read, read_sorted, sound},
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
    Joined of "Flight-Joined"
    Cut of "Flight-Cut"
    Last of "Flight-Last"
    Followed of "Flight-Followed"
    Held of "Flight-Held"
    Anew of "Flight-Anew"
}

/// Rows of it say no more than that they are like the one before, but for the time.
#[derive(TraceEvent)]
#[trace_event(provider = "Flight-Joined")]
struct Like {
    number: u64,
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
    let (dump, bytes) = dump_bytes(session, past);
    let lost = dump.given_up + dump.left_out;
    assert_eq!(sound(&bytes, &[]), (dump.events, lost), "{dump:?}");
    (dump, read(&bytes))
}

fn dump_bytes(session: &Session, past: Past) -> (Dump, Vec<u8>) {
    let memory = MemorySink::new();
    let dump = session.dump_past(past, memory.clone(), &[]).unwrap();
    let bytes = memory.bytes();
    let reader = Reader::new(&bytes[..]).unwrap();
    let left_out = reader.trace().value("nettrace.left_out").map(|count| count.parse().unwrap());
    assert_eq!(left_out.unwrap_or(0), dump.left_out);
    (dump, bytes)
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
fn dumps_that_overlap_are_read_as_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    for file in [None, Some(&folder)] {
        let session = recorder("Flight-Joined", Keep::last(LONG).within(100 << 10), file);
        let session = session.sequence_points(64, Duration::from_millis(20)).start().unwrap();
        let emit_some = |numbers: std::ops::Range<u64>| {
            for number in numbers {
                match number % 8 {
                    0 => emit(Joined::new(number), number),
                    1 => Joined::new(number).emit(),
                    _ => Like { number }.emit(),
                }
                // Dumps come meanwhile.
                if number % 32 == 0 {
                    thread::sleep(Duration::from_micros(200));
                }
            }
        };
        let mut dumps: Vec<(Dump, Vec<u8>)> = Vec::new();
        for round in 0..10_u64 {
            // Some rounds are more than the recorder keeps.
            let count = if round % 5 == 4 { 2_000 } else { 300 };
            let first = round << 32;
            thread::scope(|scope| {
                for thread in 1..3 {
                    let begin = first + (thread << 16);
                    scope.spawn(move || emit_some(begin..begin + count));
                }
                for _ in 0..3 {
                    dumps.push(dump_bytes(&session, Past::Last(Duration::from_millis(1))));
                }
                emit_some(first..first + count);
                thread::sleep(Duration::from_millis(20));
            });
            let past = match (round % 4, dumps.last()) {
                (0, Some((before, _))) => Past::After(*before),
                (1, _) => Past::Last(Duration::from_millis(30)),
                _ => Past::All,
            };
            dumps.push(dump_bytes(&session, past));
        }
        dumps.sort_by_key(|(dump, bytes)| (dump.given_up + dump.left_out, !bytes.len()));
        assert!(dumps.iter().any(|(dump, _)| dump.given_up > 0));
        let dumps: Vec<_> = dumps.iter().map(|(_, bytes)| (bytes, read(bytes))).collect();
        let key = |event: &Seen| (event.capture_thread, event.number);
        for seed in 1..12_u64 {
            let chosen = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 7;
            let chosen = dumps.iter().enumerate().filter(|(place, _)| chosen >> place & 1 == 1);
            let (joined, all): (Vec<_>, Vec<_>) = chosen.map(|(_, it)| (&**it.0, &it.1)).unzip();
            let expected: BTreeMap<_, _> =
                all.into_iter().flatten().map(|event| (key(event), event)).collect();

            let joined = joined.concat();
            let options = Options::default().joined(true).keep_thread_totals(true);
            let reader = options.clone().open(&joined[..]).unwrap();
            let mut reader = reader.sorted();
            let seen = read_sorted(&mut reader);
            assert!(seen.is_sorted_by_key(|event| event.timestamp));
            assert_eq!(seen.len(), expected.len());
            assert_eq!(seen.iter().map(key).collect::<BTreeSet<_>>().len(), seen.len());
            for event in &seen {
                let alone = &expected[&key(event)];
                assert_eq!((&event.stack, &event.labels), (&alone.stack, &alone.labels));
            }
            let totals = reader.totals();
            assert_eq!((totals.events, totals.step_backs), (seen.len() as u64, 0));
            let threads = reader.finished_threads().iter().chain(reader.live_threads());
            let mut indices = BTreeSet::new();
            for thread in threads {
                assert!(indices.insert(thread.thread.index), "{thread:?} was counted twice");
                let numbers = thread.events + thread.lost;
                assert_eq!(numbers, u64::from(thread.last_sequence), "{thread:?}");
            }
            let mut counted = options.open(&joined[..]).unwrap();
            counted.read_to_end().unwrap();
            assert_eq!(counted.totals(), totals);
        }
        session.finish().unwrap();
    }
}

#[test]
fn a_dump_that_was_cut_goes_on_with_the_next() {
    let session = recorder("Flight-Cut", Keep::last(LONG), None).start().unwrap();
    Cut::new(0).emit();
    session.flush().unwrap();
    thread::scope(|scope| {
        let threads = [1, 1001].map(|first| {
            scope.spawn(move || {
                for number in first..first + 500 {
                    Cut::new(number).emit();
                    thread::yield_now();
                }
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
    });
    let (_, first) = dump_bytes(&session, Past::All);
    Cut::new(2000).emit();
    let (_, second) = dump_bytes(&session, Past::All);
    let whole = read(&second);
    let numbers: Vec<_> = whole.iter().map(Seen::value).collect();
    assert!(!numbers.is_sorted(), "the threads took turns");

    let mut header = Vec::new();
    v6::stream_header(&mut header);
    let mut end = header.len();
    let mut cuts = 0;
    for block in v6::read::blocks(&first[header.len()..]) {
        let block = block.unwrap();
        if block.is(v6::BlockKind::EndOfStream) {
            break;
        }
        end += block.whole.len();
        let joined = [&first[..end], &v6::END_OF_STREAM, &second].concat();
        let mut reader = Options::default().joined(true).open(&joined[..]).unwrap().sorted();
        let seen = read_sorted(&mut reader);
        assert!(seen.iter().map(Seen::value).eq(numbers.iter().copied()), "cut at {end}");
        assert_eq!((reader.totals().events, reader.totals().lost), (1_002, 0));
        cuts += 1;
    }
    assert!(cuts > 6, "{cuts}");
    session.finish().unwrap();
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
        // The ring is full before, and is filled some times meanwhile. A follower may be as late as
        // the ring is large, so each has got the last event, known by its stack, before more comes.
        let fill = |followers: &[MemorySink]| {
            for _ in 0..20 {
                let had: Vec<_> = followers.iter().map(|it| it.bytes().len()).collect();
                let dropped = session.stats().dropped();
                emit(300);
                session.flush().unwrap();
                if session.stats().dropped() > dropped {
                    // Perhaps the last one.
                    continue;
                }
                let last = emitted.load(Ordering::SeqCst) - 1;
                let stack = [last.to_le_bytes(), 7_u64.to_le_bytes()].concat();
                let has_it = |(follower, had): (&MemorySink, &usize)| {
                    follower.bytes()[*had..].windows(stack.len()).any(|bytes| bytes == stack)
                };
                let begin = Instant::now();
                while !followers.iter().zip(&had).all(has_it) {
                    assert!(begin.elapsed() < Duration::from_secs(300), "a follower gets nothing");
                    thread::sleep(Duration::from_millis(1));
                }
            }
        };
        fill(&[]);
        let (before, _) = dump(&session, Past::All);
        assert!(before.given_up > 0, "{before:?}");
        let memories = [MemorySink::new(), MemorySink::new()];
        let recorder = session.as_flight_recorder().unwrap();
        let following = memories.clone().map(|memory| recorder.follow(Past::All, memory).unwrap());
        drop(recorder);
        (0..4).for_each(|_| fill(&memories));
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
