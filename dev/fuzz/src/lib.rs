//! The checks that all fuzz targets share: the reader must not panic, hang or exceed its memory
//! limit, and its ways of reading must agree.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nettrace_cli::convert_bytes;
use nettrace_format::Format;
use nettrace_reader::{Dialect, Error, Item, Options, Reader, Totals, verify_with};
use nettrace_views::viewers::{self, View};
use testkit::perfetto::Trace;
pub use testkit::streams;

pub mod changes;
pub mod heph;
mod objects;
mod recorder;
mod report;
mod spans;
mod tables;

pub use recorder::check_recorder;
pub use report::check_report;
pub use tables::check_tables;

/// The limit for definitions and waiting events, in bytes.
const LIMIT: usize = 4 << 20;

/// The limit for all memory at one time, in bytes. A block of 16 MiB and its window are not part of
/// the limit above.
const MEMORY: usize = 128 << 20;

/// The time limit for one input.
const TIME: Duration = Duration::from_secs(10);

/// What an input asks for, from its first byte. Each input is read in only one way. So the fuzzer
/// tries many inputs a second, and learns which way leads to which code.
#[derive(Clone, Copy, Debug)]
pub struct Way(u8);

impl Way {
    /// Splits the way off the front of an input. Returns `None` if the input is empty.
    pub fn split(input: &[u8]) -> Option<(Self, &[u8])> {
        input.split_first().map(|(first, rest)| (Self(*first), rest))
    }

    /// What precedes the bytes: nothing, or a sound beginning of version 6 or 4.
    pub fn beginning(self) -> &'static [u8] {
        static NEW: LazyLock<Vec<u8>> = LazyLock::new(|| streams::Stream::new().bytes);
        static OLD: LazyLock<Vec<u8>> = LazyLock::new(|| streams::v5::Objects::new().bytes);
        match self.0 >> 2 & 3 {
            0 => &[],
            1 => &OLD,
            _ => &NEW,
        }
    }

    /// Whether the stream is of version 4 or 5, for targets that can use either.
    pub fn is_old(self) -> bool {
        self.0 & 1 == 1
    }

    fn options(self) -> Options {
        let dialect = if self.0 >> 4 & 1 == 1 { Dialect::Reference } else { Dialect::default() };
        Options::default().definitions_limit(LIMIT).sort_limit(LIMIT).dialect(dialect)
    }
}

/// Reads `bytes` in one way, and compares the result with counting alone.
pub fn check(way: Way, bytes: &[u8]) {
    bounded(|| {
        let options = way.options().keep_thread_totals(true).keep_type_totals(true);
        let counted = counted(bytes, options.clone());
        let events = counted.as_ref().map_or_else(|(totals, _)| totals.events, |it| it.events);
        match way.0 & 3 {
            0 | 1 => assert_eq!(unsorted(bytes, options), counted),
            2 => assert_eq!(items(bytes, options), events),
            _ => match (&counted, sorted(bytes, options)) {
                (Ok(_), Sorted { end: Ok(()), events: found, .. }) => assert_eq!(found, events),
                // Events that wait to be sorted have a limit of their own.
                (Ok(_), Sorted { end: Err(error), .. }) => {
                    assert!(error.contains("more than"), "{error}");
                }
                (Err((_, error)), Sorted { end: Ok(()), .. }) => panic!("only unsorted: {error}"),
                (Err(_), _) => {}
            },
        }
    });
}

/// Runs `verify`. A stream that it calls sound must be readable to its end, in the order of time.
pub fn check_verify(way: Way, bytes: &[u8]) {
    bounded(|| {
        let report = verify_with(bytes, way.options(), 3).expect("a slice cannot fail");
        assert!(report.bytes <= bytes.len() as u64);
        if !report.is_sound() {
            return;
        }
        let totals = counted(bytes, way.options()).expect("a sound stream can be read");
        assert_eq!((report.events, report.lost), (totals.events, totals.lost));
        assert_eq!((report.sequence_points, totals.step_backs), (totals.sequence_points, 0));
        let sorted = sorted(bytes, way.options());
        assert!(sorted.is_in_order, "a sound stream is out of order");
    });
}

/// Converts a stream. The result must be complete, and have no more events than the source.
pub fn check_convert(way: Way, bytes: &[u8]) {
    let to = match way.0 >> 2 & 7 {
        0 => Format::V5,
        1 => Format::V4,
        2 => Format::Heph,
        3 => return check_view(way, bytes),
        _ => Format::V6,
    };
    bounded(|| {
        let mut converted = Vec::new();
        let Some(events) = convert_bytes(bytes, way.options(), to, &mut converted) else { return };
        let after = match to {
            Format::Heph => heph::events(&converted),
            _ => counted(&converted, way.options()).expect("a whole stream").events,
        };
        assert!(after <= events, "{after} events of {events}");
        if to == Format::V6 {
            assert_eq!(after, events);
        }
    });
}

/// Converts a stream for a viewer. The result must be sound: of Perfetto, everything that it refers
/// to is defined, and slices are nested; of JSON, it is JSON.
fn check_view(way: Way, bytes: &[u8]) {
    bounded(|| {
        let Ok(reader) = way.options().open(bytes) else { return };
        let mut events = reader.sorted();
        let mut out = Vec::new();
        let options = viewers::Options::default().spans_limit(LIMIT).samples_limit(LIMIT);
        let view = View::ALL[bytes.len() % View::ALL.len()];
        viewers::write(view, &mut events, &mut out, &options).expect("a Vec");
        match view {
            View::Perfetto => {
                let trace = Trace::read(&out);
                assert!(trace.slices.len() as u64 <= 3 * events.totals().events + 2);
            }
            view if view.endings().iter().any(|ending| ending.ends_with("json")) => {
                let _: serde::de::IgnoredAny = serde_json::from_slice(&out).expect("JSON");
            }
            _ => assert!(view == View::Folded || !out.is_empty()),
        }
    });
}

/// Handles one input, and checks the limits of memory and time.
fn bounded(read: impl FnOnce()) {
    PEAK.store(0, Ordering::Relaxed);
    let before = HELD.load(Ordering::Relaxed);
    let started = Instant::now();
    read();
    assert!(started.elapsed() < TIME, "one input took {:?}", started.elapsed());
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    assert!(peak < MEMORY, "one input took {peak} bytes");
}

/// The counts, also if reading ended with an error.
type Outcome = Result<Totals, (Totals, String)>;

/// Reads in the order of the stream.
fn unsorted(bytes: &[u8], options: Options) -> Outcome {
    let fail = |totals, error: Error| Err((totals, error.to_string()));
    let mut reader = match options.open(bytes) {
        Ok(reader) => reader,
        Err(error) => return fail(Totals::default(), error),
    };
    loop {
        match reader.next_event() {
            Ok(Some(event)) => {
                for field in event.fields() {
                    if field.is_err() {
                        break;
                    }
                }
                let _ = (event.stack().map(|stack| stack.addresses().count()), event.opcode());
            }
            Ok(None) => return Ok(reader.totals().clone()),
            Err(error) => return fail(reader.totals().clone(), error),
        }
    }
}

/// Counts events without decoding them.
fn counted(bytes: &[u8], options: Options) -> Outcome {
    let mut reader = match options.open(bytes) {
        Ok(reader) => reader,
        Err(error) => return Err((Totals::default(), error.to_string())),
    };
    let end = reader.read_to_end();
    let totals = reader.totals().clone();
    end.map(|()| totals.clone()).map_err(|error| (totals, error.to_string()))
}

/// Reads every item of the stream. Returns how many events there are.
fn items(bytes: &[u8], options: Options) -> u64 {
    let mut events = 0;
    let Ok(mut reader) = options.open(bytes) else { return 0 };
    while let Ok(Some(item)) = reader.next_item() {
        events += u64::from(matches!(item, Item::Event(_)));
    }
    let by_types: u64 = reader.type_totals().map(|it| it.events).sum();
    assert_eq!(by_types, reader.totals().events);
    events
}

/// The result of reading in the order of time.
struct Sorted {
    events: u64,
    is_in_order: bool,
    end: Result<(), String>,
}

fn sorted(bytes: &[u8], options: Options) -> Sorted {
    let mut seen = Sorted { events: 0, is_in_order: true, end: Ok(()) };
    let mut last = 0;
    let mut events = match options.open(bytes).map(Reader::sorted) {
        Ok(events) => events,
        Err(error) => return Sorted { end: Err(error.to_string()), ..seen },
    };
    loop {
        match events.next_event() {
            Ok(Some(event)) => {
                seen.events += 1;
                seen.is_in_order &= last <= event.header.timestamp;
                last = event.header.timestamp;
                assert!(event.payload_offset <= bytes.len() as u64);
                let _ = (event.thread(), event.labels().len(), event.metadata());
            }
            Ok(None) => return seen,
            Err(error) => return Sorted { end: Err(error.to_string()), ..seen },
        }
    }
}

/// Small sound streams to mutate.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let samples = streams::samples::all().into_iter().chain(streams::v5_samples::all());
    let samples = samples.map(|(name, bytes)| (name.to_owned(), bytes));
    let random = [("random", random(2, 0)), ("v5-random", random(2, 1))];
    let random = random.map(|(name, bytes)| (name.to_owned(), bytes));
    let runtime = ("runtime".to_owned(), streams::runtime::sample());
    let spans = [("spans", false), ("v5-spans", true)];
    let spans = spans.map(|(name, is_old)| (name.to_owned(), spans::stream(is_old)));
    let small = samples.chain(random).filter(|(_, bytes)| bytes.len() < 800);
    small.chain([runtime]).chain(spans).collect()
}

/// A random sound stream: of version 6 if the seed is even, otherwise of version 4 or 5.
pub fn random(rounds: u64, seed: u64) -> Vec<u8> {
    match seed % 2 {
        0 => streams::random::make(seed / 2, rounds).bytes,
        _ => streams::v5_random::make(seed / 2, rounds).bytes,
    }
}

/// An allocator that counts the allocated bytes.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
