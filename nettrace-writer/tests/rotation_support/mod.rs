//! The contents of a directory of traces, while it is written and afterwards.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use nettrace_reader::{Reader, heph, verify};
use nettrace_writer::{Format, Stats};
use testkit::reference::judged;

/// How many files of a directory to show to the reference reader, which takes a tenth of a second
/// for each.
const JUDGED: usize = 4;

/// What the files of a directory hold altogether.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) bytes: u64,
    /// The first field of each event, in order.
    pub(crate) values: Vec<u64>,
}

impl Found {
    pub(crate) fn empty(bytes: u64) -> Self {
        Self { events: 0, lost: 0, bytes, values: Vec::new() }
    }
}

fn paths(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The sizes of the files, by name. A file that disappears meanwhile is left out.
pub(crate) fn file_sizes(directory: &Path) -> Vec<u64> {
    paths(directory).iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).collect()
}

/// Reads all files. Each must keep every promise of a writer. If none was deleted, together they
/// must have what the session counted.
pub(crate) fn inspect(format: Format, directory: &Path, stats: &Stats) -> Found {
    let mut found = Found::empty(0);
    let paths = paths(directory);
    for (at, path) in paths.iter().enumerate() {
        let bytes = fs::read(path).unwrap();
        found.bytes += bytes.len() as u64;
        let of_file = if format == Format::Heph {
            inspect_heph(&bytes, &mut found.values)
        } else {
            let of_file = inspect_one(&bytes, &mut found.values);
            if at < JUDGED / 2 || at + JUDGED / 2 >= paths.len() {
                if let Some(verdict) = judged(&bytes) {
                    verdict.assert_holds(of_file.0, of_file.1);
                }
            }
            of_file
        };
        found.events += of_file.0;
        found.lost += of_file.1;
    }
    found.values.sort_unstable();
    assert!(found.values.windows(2).all(|pair| pair[0] < pair[1]), "an event is in one file only");
    assert!(found.events <= stats.written && found.lost <= stats.dropped());
    found
}

fn inspect_one(bytes: &[u8], values: &mut Vec<u64>) -> (u64, u64) {
    let report = verify(bytes).unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    let mut reader = Reader::new(bytes).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let (time, sync) = (event.header.timestamp, event.trace().sync_ticks);
        assert!(time > sync, "an event at {time}, in a trace that begins at {sync}");
        values.push(u64::from_le_bytes(event.payload[..8].try_into().unwrap()));
    }
    (report.events, report.lost)
}

fn inspect_heph(bytes: &[u8], values: &mut Vec<u64>) -> (u64, u64) {
    let report = heph::verify(bytes, heph::Options::default(), 5).unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    let mut reader = heph::Reader::new(bytes);
    while let Some(event) = reader.next_event().unwrap() {
        assert!(event.start > 0, "an event without a time");
        let fields = event.attributes().map(Result::unwrap);
        values.extend(fields.filter_map(|field| match field {
            ("value", heph::Value::U64(value)) => Some(value),
            _ => None,
        }));
    }
    (report.events, report.lost)
}

/// The most that a directory has held at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) largest: u64,
    pub(crate) total: u64,
    pub(crate) files: usize,
}

/// Looks at a directory again and again.
pub(crate) struct Watcher {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Watcher {
    pub(crate) fn start(directory: &Path) -> Self {
        let (ends, directory) = (Arc::<AtomicBool>::default(), directory.to_owned());
        let thread = thread::spawn({
            let ends = Arc::clone(&ends);
            move || {
                let mut seen = Seen::default();
                while !ends.load(Ordering::SeqCst) {
                    look(&directory, &mut seen);
                    thread::yield_now();
                }
                look(&directory, &mut seen);
                seen
            }
        });
        Self { ends, thread }
    }

    pub(crate) fn stop(self) -> Seen {
        self.ends.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn look(directory: &Path, seen: &mut Seen) {
    let mut paths = paths(directory);
    // The newest file first. Only that one grows, so the sum of sizes that are read one after
    // another is never more than there was at one time.
    paths.reverse();
    let sizes: Vec<_> =
        paths.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).collect();
    seen.largest = seen.largest.max(sizes.iter().copied().max().unwrap_or(0));
    seen.total = seen.total.max(sizes.iter().sum());
    seen.files = seen.files.max(sizes.len());
}
