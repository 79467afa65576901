//! What every fuzz target asks of the reader: no panic, no hang, no memory beyond a bound, and that its
//! ways of reading agree.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use nettrace_reader::{Error, Item, Options, Reader, Totals, verify_with};

pub mod changes;
pub mod heph;
mod objects;
#[path = "../../nettrace-reader/tests/support/mod.rs"]
pub mod support;

/// Definitions and waiting events may take this much.
const LIMIT: usize = 4 << 20;

/// All memory at one time. A block of 16 MiB and its window come on top of the limits.
const MEMORY: usize = 128 << 20;

/// For one input of at most a megabyte.
const TIME: Duration = Duration::from_secs(10);

/// Reads `bytes` in every way there is.
pub fn check(bytes: &[u8]) {
    bounded(|| read(bytes));
}

/// Does what there is to do with one input, within bounds of memory and time.
fn bounded(read: impl FnOnce()) {
    PEAK.store(0, Ordering::Relaxed);
    let before = HELD.load(Ordering::Relaxed);
    let started = Instant::now();
    read();
    assert!(started.elapsed() < TIME, "one input took {:?}", started.elapsed());
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    assert!(peak < MEMORY, "one input took {peak} bytes");
}

fn read(bytes: &[u8]) {
    let options = Options::default().definitions_limit(LIMIT).sort_limit(LIMIT);
    let report = verify_with(bytes, options.clone(), 3).expect("a slice cannot fail");
    let options = options.keep_thread_totals(true).keep_type_totals(true);
    let raw = unsorted(bytes, options.clone());
    let counted = counted(bytes, options.clone());
    let items = items(bytes, options.clone());
    let (sorted, sorted_end) = sorted(bytes, options);
    match (&raw, &sorted_end) {
        (Ok(totals), Ok(())) => assert_eq!(totals.events, sorted),
        // What waits to be sorted has a limit of its own; the rest fails in the same place.
        (Ok(_), Err(error)) => assert!(error.to_string().contains("more than"), "{error}"),
        (Err((_, error)), Ok(())) => panic!("only unsorted: {error}"),
        (Err(_), Err(_)) => {}
    }
    if report.is_sound() {
        assert!(raw.is_ok(), "sound, but {:?}", raw.unwrap_err());
    }
    let raw = raw.map_err(|(totals, error)| (totals, error.to_string()));
    let counted = counted.map_err(|(totals, error)| (totals, error.to_string()));
    assert_eq!(raw, counted);
    let events = raw.map_or_else(|(totals, _)| totals.events, |totals| totals.events);
    assert_eq!(events, items);
}

/// What was counted, also before an error.
type Outcome = Result<Totals, (Totals, Error)>;

/// Reads in the order of the stream.
fn unsorted(bytes: &[u8], options: Options) -> Outcome {
    let mut reader = options.open(bytes).map_err(|error| (Totals::default(), error))?;
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
            Err(error) => return Err((reader.totals().clone(), error)),
        }
    }
}

/// Counts without looking.
fn counted(bytes: &[u8], options: Options) -> Outcome {
    let mut reader = options.open(bytes).map_err(|error| (Totals::default(), error))?;
    let end = reader.read_to_end();
    let totals = reader.totals().clone();
    let by_types: u64 = reader.type_totals().map(|it| it.events).sum();
    assert_eq!(by_types, totals.events);
    end.map(|()| totals.clone()).map_err(|error| (totals, error))
}

/// Reads everything that the stream says. Returns how many events are among it.
fn items(bytes: &[u8], options: Options) -> u64 {
    let mut events = 0;
    let Ok(mut reader) = options.open(bytes) else { return 0 };
    while let Ok(Some(item)) = reader.next_item() {
        events += u64::from(matches!(item, Item::Event(_)));
    }
    events
}

fn sorted(bytes: &[u8], options: Options) -> (u64, Result<(), Error>) {
    let mut count = 0;
    let mut events = match options.open(bytes).map(Reader::sorted) {
        Ok(events) => events,
        Err(error) => return (0, Err(error)),
    };
    loop {
        match events.next_event() {
            Ok(Some(event)) => {
                count += 1;
                assert!(event.payload_offset <= bytes.len() as u64);
                let _ = (event.thread(), event.labels().len(), event.metadata());
            }
            Ok(None) => return (count, Ok(())),
            Err(error) => return (count, Err(error)),
        }
    }
}

/// Small sound streams, from which mutation starts.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let samples = support::samples::all().into_iter().chain(support::v5_samples::all());
    let samples = samples.map(|(name, bytes)| (name.to_owned(), bytes));
    let random = (0..8).flat_map(|seed| {
        [
            (format!("random-{seed}"), random(6, 2 * seed)),
            (format!("v5-random-{seed}"), random(6, 2 * seed + 1)),
        ]
    });
    samples.chain(random).filter(|(_, bytes)| bytes.len() < 4000).collect()
}

/// A sound stream made of chance: of version 6 where the seed is even, else of version 4 or 5.
pub fn random(rounds: u64, seed: u64) -> Vec<u8> {
    match seed % 2 {
        0 => support::random::make(seed / 2, rounds).bytes,
        _ => support::v5_random::make(seed / 2, rounds).bytes,
    }
}

/// Counts what is allocated.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator as it came.
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
