//! The files that a trace was made of.
//!
//! `merge`, `recover`, `convert` and `redact` make traces of others. In the folder of those, each
//! of their events would be read twice. So such a trace says of which files it was made, by the
//! key-value [`CONTAINS`](keys::CONTAINS): for each recording its name, the numbers of its files, and the size of the
//! last one, as `8c0e51f3a2b97d64/1-37:52410`. A file without a recording is named by its start
//! and a hash of its key-values.
//!
//! If all these files are read, the trace that was made of them is left out. If some of them are
//! gone, it has what nothing else has, and those that are left of them are left out. A file that
//! has grown since then is not among them.
//!
//! A part of a trace that a filter has chosen names the files in the same way, but by the key-value
//! [`EXCERPT`](keys::EXCERPT): it is left out beside all of them, and never in their place.

use std::{collections::BTreeMap, fmt};

use nettrace_event::keys;
use nettrace_reader::Trace;

use super::File;

/// The longest value. Without it, a trace is read besides those that it was made of.
const LONGEST: usize = 8 << 20;

/// The size of a file that is not known. It does not matter where one file was made of one.
const UNKNOWN: u64 = u64::MAX;

/// The first character in the names of files without a recording.
const NAMELESS: char = '~';

/// Files of which a trace was made: their numbers, by the names of their recordings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins(BTreeMap<String, Vec<FileNumbers>>);

/// Files of one recording whose numbers follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileNumbers {
    first: u64,
    last: u64,
    /// The number of bytes of the last file, or [`UNKNOWN`]. Those before it are complete.
    size: u64,
}

impl FileNumbers {
    /// Whether all these are among others.
    fn are_in(&self, others: &[Self]) -> bool {
        let is_known = self.size != UNKNOWN;
        let is_old = |other: &Self| self.last < other.last || !is_known || self.size <= other.size;
        let is_in = |other: &Self| other.first <= self.first && self.last <= other.last;
        others.iter().any(|other| is_in(other) && is_old(other))
    }
}

impl Origins {
    /// The files, and those of which these were made.
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = &'a File>) -> Self {
        let mut all = Self::default();
        for file in files {
            match &file.origins {
                Some(origins) => origins.0.iter().for_each(|(name, numbers)| {
                    all.0.entry(name.clone()).or_default().extend(numbers);
                }),
                None => {
                    let (name, number) = identity(&file.trace);
                    let own = FileNumbers { first: number, last: number, size: file.size };
                    all.0.entry(name).or_default().push(own);
                }
            }
        }
        all.0.values_mut().for_each(join);
        all
    }

    /// The origins that a trace states, or the trace itself if it is the file of a recording.
    pub(crate) fn of_trace(trace: &Trace) -> Option<Self> {
        if let Some(stated) = Self::stated(trace, keys::CONTAINS) {
            return Some(stated);
        }
        let (name, number) = identity(trace);
        let own = FileNumbers { first: number, last: number, size: UNKNOWN };
        (!name.starts_with(NAMELESS)).then(|| Self([(name, vec![own])].into()))
    }

    /// Those that are named by recordings. Other names tell something of the key-values.
    pub(crate) fn with_recordings(mut self) -> Self {
        self.0.retain(|name, _| !name.starts_with(NAMELESS));
        self
    }

    /// The origins that a trace states under a key.
    pub(super) fn stated(trace: &Trace, key: &str) -> Option<Self> {
        let mut all = Self::default();
        for part in trace.value(key)?.split(' ') {
            let (name, rest) = part.rsplit_once('/')?;
            let (numbers, size) = rest.split_once(':').unwrap_or((rest, ""));
            let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
            let size = if size.is_empty() { UNKNOWN } else { size.parse().ok()? };
            let numbers =
                FileNumbers { first: first.parse().ok()?, last: last.parse().ok()?, size };
            all.0.entry(name.to_owned()).or_default().push(numbers);
        }
        Some(all)
    }

    /// The key-value that says so.
    pub(crate) fn key_value(&self) -> Option<(String, String)> {
        let value = self.to_string();
        (!value.is_empty() && value.len() <= LONGEST).then(|| (keys::CONTAINS.to_owned(), value))
    }

    /// The number of files.
    fn count(&self) -> u128 {
        let numbers = self.0.values().flatten();
        numbers.map(|it| u128::from(it.last.saturating_sub(it.first)) + 1).sum()
    }

    /// Whether a file is among these.
    fn have(&self, file: &File) -> bool {
        let (name, number) = identity(&file.trace);
        let own = FileNumbers { first: number, last: number, size: file.size };
        self.0.get(&name).is_some_and(|numbers| own.are_in(numbers))
    }

    /// Whether all of these are among others.
    fn are_in(&self, others: &Self) -> bool {
        let all = self.0.iter();
        all.map(|(name, numbers)| (numbers, others.0.get(name)))
            .all(|(own, others)| others.is_some_and(|all| own.iter().all(|it| it.are_in(all))))
    }
}

/// Joins numbers that follow each other.
fn join(numbers: &mut Vec<FileNumbers>) {
    numbers.sort();
    numbers.dedup_by(|next, before| {
        let is_next = next.first <= before.last.saturating_add(1);
        if is_next {
            let last = [*before, *next].into_iter().max_by_key(|it| (it.last, it.size));
            (before.last, before.size) = last.map_or((0, 0), |it| (it.last, it.size));
        }
        is_next
    });
}

impl fmt::Display for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.iter().flat_map(|(name, all)| all.iter().map(move |it| (name, it)));
        for (at, (name, FileNumbers { first, last, size })) in all.enumerate() {
            let blank = if at > 0 { " " } else { "" };
            write!(f, "{blank}{name}/{first}")?;
            if first != last {
                write!(f, "-{last}")?;
            }
            if *size != UNKNOWN {
                write!(f, ":{size}")?;
            }
        }
        Ok(())
    }
}

/// The name of a file's recording, and the file's number in it.
fn identity(trace: &Trace) -> (String, u64) {
    let is_of_name = |it: u8| it.is_ascii_alphanumeric() || b"-_.".contains(&it);
    let is_plain = |name: &&str| (1..=64).contains(&name.len()) && name.bytes().all(is_of_name);
    let name = trace.value(Trace::RECORDING).filter(is_plain);
    let number = trace.value(Trace::FILE).and_then(|number| number.parse().ok());
    match (name.zip(number), trace.events_before()) {
        // Each dump is another part of one stream.
        (Some((name, number)), Some(before)) => (format!("{name}+{before}"), number),
        (Some((name, number)), None) => (name.to_owned(), number),
        (None, _) => {
            let texts = trace.key_values.iter().flat_map(|(key, value)| [key, value]);
            let bytes = texts.flat_map(|text| text.bytes().chain([0xFF]));
            // FNV-1a: the same in each version of this program.
            let hash = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
            let start = trace.sync_time.to_file_time().unwrap_or(0);
            (format!("{NAMELESS}{start}.{}.{hash:016x}", trace.sync_ticks), 0)
        }
    }
}

/// Leaves out excerpts of traces that are read. Returns what there is to say.
pub(super) fn leave_out_excerpts(files: &mut Vec<File>) -> Vec<String> {
    let read = Origins::of(files.iter().filter(|file| file.excerpt.is_none()));
    let mut notes = Vec::new();
    files.retain(|file| {
        let is_needed = file.excerpt.as_ref().is_none_or(|origins| !origins.are_in(&read));
        if !is_needed {
            let path = file.path.display();
            notes.push(format!("{path} is an excerpt of files that are read; it is left out"));
        }
        is_needed
    });
    notes
}

/// Leaves out traces that were made of others which are read, and files of which such a trace was
/// made that is needed. Returns what there is to say.
pub(super) fn leave_out(files: &mut Vec<File>) -> Vec<String> {
    let mut notes = Vec::new();
    if files.iter().all(|file| file.origins.is_none()) {
        return notes;
    }
    let read = Origins::of(files.iter().filter(|file| file.origins.is_none()));
    files.retain(|file| {
        let is_needed = file.origins.as_ref().is_none_or(|origins| !origins.are_in(&read));
        if !is_needed {
            let path = file.path.display();
            notes.push(format!("{path} was made of files that are read; it is left out"));
        }
        is_needed
    });
    let mut made: Vec<_> = files.iter().filter(|file| file.origins.is_some()).cloned().collect();
    // The one with the most files first.
    made.sort_by_key(|file| {
        let count = file.origins.as_ref().map_or(0, Origins::count);
        (u128::MAX - count, !file.size)
    });
    let mut needed: Vec<File> = Vec::new();
    for file in made {
        if !needed.iter().any(|other| file.is_in(other)) {
            needed.push(file);
        }
    }
    files.retain(|file| {
        let other = needed.iter().find(|other| file.is_in(other));
        let other = other.filter(|other| other.path != file.path);
        if let Some(other) = other {
            let (path, other) = (file.path.display(), other.path.display());
            notes.push(format!("{path} is contained in {other}; it is left out"));
        }
        other.is_none()
    });
    notes
}

impl File {
    /// Whether another one was made of this, or of all that this was made of.
    fn is_in(&self, other: &Self) -> bool {
        match (&self.origins, &other.origins) {
            (_, None) => false,
            (None, Some(others)) => others.have(self),
            (Some(origins), Some(others)) => origins.are_in(others),
        }
    }
}
