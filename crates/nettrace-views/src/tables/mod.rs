//! Writes NetTrace traces as tables, in the formats Parquet and Arrow.
//!
//! [`write()`] converts a trace of NetTrace V4, V5 or V6. It reads the trace once, and its memory
//! does not grow with the trace.
//!
//! ```
//! use nettrace_views::tables::{Options, Tables, write};
//! use nettrace_reader::Reader;
//!
//! # let trace = nettrace_reader::example();
//! # let folder = tempfile::tempdir()?;
//! # let out = folder.path().join("tables");
//! let mut events = Reader::new(&trace[..])?.sorted();
//! let written = write(Tables::Parquet, &mut events, &out, &Options::default())?;
//! // How the source ended: whatever was readable is in the tables.
//! written.end?;
//! assert!(out.join("events.parquet").exists());
//! assert!(out.join("types/Shop.Sale.parquet").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The tables
//!
//! The result is a folder:
//!
//! | file | rows |
//! |---|---|
//! | `events` | all events, in the order of time |
//! | `types/PROVIDER.EVENT` | the events of one type, with a column for each field |
//! | `spans` | the spans, in the order of their ends |
//! | `stacks` | the different stacks |
//!
//! In the name of a file, `%` and two hexadecimal digits stand for a byte of what is no letter or
//! digit, and not `.`, `-` or `_`. An event type without a name has the number of its id. Types of
//! one name whose fields differ, such as two versions of an event, have tables of their own: the
//! first has the name, the others `PROVIDER.EVENT~2` and so on. So do types whose names differ in
//! upper and lower case alone.
//!
//! Every table has the key-values of the trace as metadata, such as `nettrace.trace.ProcessId`.
//!
//! Each time is two columns: a timestamp in microseconds, in UTC and rounded down, which every
//! engine reads, and behind it the same in nanoseconds since 1970, an Int64 whose name ends in
//! `_ns`.
//!
//! ## `events`
//!
//! | column | type | what |
//! |---|---|---|
//! | `event` | Int64 | its number, from 0 |
//! | `time`, `time_ns` | Timestamp (µs, UTC), Int64 | when it happened |
//! | `process`, `thread` | UInt64 | ids of the operating system |
//! | `thread_name` | text | |
//! | `provider`, `name` | text | of its type; `EventID(7)` for a type without a name |
//! | `id` | UInt32 | of its type |
//! | `version`, `level`, `opcode` | UInt8 | of its labels, else of its type |
//! | `keywords` | UInt64 | of its labels, else of its type |
//! | `cpu` | UInt32 | the processor, if known |
//! | `trace_id` | text | W3C trace id: 32 hexadecimal digits |
//! | `span_id` | text | its span: a span id of 16 hexadecimal digits, else an activity id as a GUID |
//! | `related_id` | text | another span or activity, unless it is the parent that the span has in `spans` |
//! | `stack_id` | Int64 | its stack in `stacks` |
//! | `payload_bytes` | UInt32 | the size of its encoded fields |
//! | `labels` | Map of texts | the other labels; numbers are texts, too |
//!
//! ## `types/PROVIDER.EVENT`
//!
//! The columns `event` (as in `events`, to join the two), `time`, `time_ns`, `process` and
//! `thread`, then one for each field. A field whose name is taken gets `_2` behind it.
//!
//! | field | column |
//! |---|---|
//! | numbers and booleans | the same |
//! | a single code unit | UInt8 or UInt16 |
//! | text, also of code units | text |
//! | GUID, decimal number | text |
//! | time | Timestamp (µs, UTC) and Int64 (ns); in a list, Int64 (ns) alone |
//! | `Duration` | UInt64, nanoseconds; the column's metadata says `unit`: `ns` |
//! | array of bytes, value of an unknown type | Binary |
//! | other array | List |
//! | object | Struct; Boolean, always `true`, for one without fields |
//! | map | List of Structs `Key`, `Value` |
//! | `Option` | the value, or null |
//! | `u128`, `i128` | Struct `low`, `high` |
//!
//! The last column, `payload`, is null unless other columns lack something of the event: fields
//! that nothing describes or that cannot be decoded; bytes after the last field; text that is not
//! valid Unicode; times outside of the years 1677 to 2262; lists and structs nested more than 16
//! levels deep, and columns beyond 1,000. Then it has the whole encoded payload. So nothing of an
//! event is lost.
//!
//! ## `spans`
//!
//! | column | type | what |
//! |---|---|---|
//! | `start`, `start_ns`, `end`, `end_ns` | Timestamp (µs, UTC), Int64 | null for a span that did not start or end in the trace |
//! | `duration_ns` | Int64 | nanoseconds |
//! | `own_ns` | Int64 | the part of it in which no child was under way |
//! | `busy_ns`, `polls` | Int64 | the time on a processor, and the number of polls: as its end states them, or else by the events of its polls |
//! | `longest_poll_ns` | Int64 | by the events of its polls (`polls` of `#[traced]`) |
//! | `service` | text | the key-value `service.name` of its process, or else its program |
//! | `provider`, `name` | text | the name is that of its events, without `Start` or `Stop` |
//! | `dimension` | text | the value of the field that its type marks as its dimension, such as a route; that of the end, if the end has one, too |
//! | `outcome` | text | what its end states: `ok`, `err`, `panicked`, `cancelled` |
//! | `trace_id`, `span_id`, `parent_id` | text | as in `events` |
//! | `process`, `thread`, `thread_name` | | where it began |
//! | `end_thread` | UInt64 | where it ended |
//! | `start_event`, `end_event` | Int64 | the `event` in other tables |
//! | `fields` | Map of texts | the fields of its start and its end |
//!
//! They are the spans that `nettrace tree` shows. Of parents that become known after their children
//! the last 16,384 have their own time without that of these.
//!
//! `fields` has the fields of all types of spans in one column: `fields['route']`. A text is as it
//! is; all else is as in JSON, so a query casts it: `CAST(fields['cents'] AS BIGINT)`. A duration
//! is in nanoseconds, and a time as RFC 3339 has it. An option without a value is not among them,
//! and neither is what has a column of its own. If the types of start and end both have a field of
//! one name, the key of that of the end begins with `stop.`. Of each event the first 64 fields are
//! there. For a field with its own type, join the table of the event by `start_event` or
//! `end_event`.
//!
//! ## `stacks`
//!
//! | column | type | what |
//! |---|---|---|
//! | `stack_id` | Int64 | as in `events` |
//! | `frames` | List of UInt64 | addresses, innermost first |
//!
//! # Partitions
//!
//! [`Options::partition`] adds the tables of a trace to those of others, in folders whose names are
//! columns as in Hive:
//!
//! ```text
//! OUT/events/day=2026-11-23/host=web-1/recording=20261123T010203.456Z-4711-9c3f2e/events.parquet
//! OUT/spans/day=…/host=…/recording=…/spans.parquet
//! OUT/stacks/day=…/host=…/recording=…/stacks.parquet
//! OUT/types/PROVIDER.EVENT/day=…/host=…/recording=…/PROVIDER.EVENT.parquet
//! ```
//!
//! So one pattern, such as `OUT/spans/**/*.parquet`, reads a table of all hosts, and a query that
//! names a day or a host opens only the files of these.
//!
//! | column | what |
//! |---|---|
//! | `day` | the day of the event in UTC; of a span, the day on which it began, or else ended |
//! | `host` | the name that is given; `%` and two digits stand for what is unsafe in names of files |
//! | `recording` | the trace: its start in UTC, its process (0 if unknown), and its tick counter at the start in hexadecimal |
//!
//! `event` and `stack_id` are numbers within a recording. So a query joins tables by `host`,
//! `recording` and `event`. Each day has all stacks of its events. Fields with the name of a folder
//! get `_2` behind it. Types of one name whose fields differ have files of their own in one folder,
//! and so do versions of a type from several traces; let the engine unite the columns by their
//! names.
//!
//! A trace that is converted again has the same folders. They are refused, or replaced by
//! [`Options::force`]. Nothing else in the result is touched, so several processes can write into
//! it at once. A trace that is not in the order of time can have events in the folder of a later
//! day, and they are counted as left out.
//!
//! # Files
//!
//! Row groups of Parquet have up to 1,048,576 rows, so each covers a span of time, and statistics
//! of each page. Columns of values that repeat have dictionaries, but not those of one number. Ids
//! are compressed with gzip, all other columns with Snappy.
//!
//! Arrow's files are as its IPC defines them, in batches of 8,192 rows or less, neither compressed
//! nor with dictionaries. Programs map them into memory.
//!
//! The files get their places when all are complete. Until then they are in a folder
//! `.nettrace-PID-N` beside the result, or within it if it is partitioned. Engines pass over names
//! that begin with a dot.

mod columns;
mod convert;
mod facts;
mod folder;
mod names;
mod partition;
mod runs;
mod span_files;
mod table;
mod types;

use std::{fmt, io, path::Path, str::FromStr};

use nettrace_reader::{SortedReader, Source, Trace};

use crate::{
    Target, Written, drive,
    tables::{convert::Writer, partition::Partition},
};

/// A size that large traces reach, or a smaller one for the fuzzer, whose traces are small.
const fn size_of(usual: usize, for_fuzzer: usize) -> usize {
    if cfg!(fuzzing) { for_fuzzer } else { usual }
}

/// The rows of a batch.
const BATCH: usize = size_of(8192, 4);

/// The bytes of payloads in a batch, or of labels and names.
const BATCH_BYTES: usize = size_of(4 << 20, 256);

/// A format of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tables {
    /// Apache Parquet: small files for query engines.
    Parquet,
    /// The file format of Apache Arrow's IPC, version 2 of Feather: large files that programs map
    /// into memory.
    Arrow,
}

impl Tables {
    /// All formats.
    pub const ALL: &'static [Self] = &[Self::Parquet, Self::Arrow];

    /// Its name, as in command lines.
    ///
    /// ```
    /// use nettrace_views::tables::Tables;
    ///
    /// assert_eq!(Tables::Parquet.name(), "parquet");
    /// assert_eq!("arrow".parse(), Ok(Tables::Arrow));
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }

    /// Its name in sentences.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
        }
    }

    /// The ending of its files.
    #[must_use]
    pub fn ending(self) -> &'static str {
        self.name()
    }
}

impl FromStr for Tables {
    type Err = UnknownTables;

    fn from_str(name: &str) -> Result<Self, UnknownTables> {
        Self::ALL.iter().copied().find(|tables| tables.name() == name).ok_or(UnknownTables)
    }
}

/// Shows [`Tables::name`].
impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No format of tables has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no format of tables has this name")]
#[non_exhaustive]
pub struct UnknownTables;

/// The choices of a caller.
///
/// ```
/// let options = nettrace_views::tables::Options::default().rows_limit(64 << 20).force(true);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    force: bool,
    partition: Option<String>,
    spans_limit: usize,
    rows_limit: usize,
}

impl Default for Options {
    /// 256 MiB for spans that are under way, and 256 MiB for rows.
    fn default() -> Self {
        Self { force: false, partition: None, spans_limit: 256 << 20, rows_limit: 256 << 20 }
    }
}

impl Options {
    /// Whether the tables of an earlier result may be replaced. A folder that has other files is
    /// refused in any case.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Partitions the tables by day and host: see [the documentation](self#partitions). `host` is
    /// the name of the machine that the trace is of. The result may have other traces already.
    ///
    /// ```
    /// use nettrace_views::tables::{Options, Tables, write};
    /// use nettrace_reader::Reader;
    ///
    /// # let trace = nettrace_reader::example();
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("tables");
    /// let mut events = Reader::new(&trace[..])?.sorted();
    /// let options = Options::default().partition("web-1");
    /// write(Tables::Parquet, &mut events, &out, &options)?.end?;
    /// let day = out.join("spans/day=2026-03-04/host=web-1");
    /// assert!(day.join("recording=20260304T050607.089Z-17-3e8/spans.parquet").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn partition(mut self, host: impl Into<String>) -> Self {
        self.partition = Some(host.into());
        self
    }

    /// Limits the memory for spans that have begun and not ended, in bytes (approximate). Beyond
    /// it, the oldest ones get rows without an end, and are counted as left out.
    #[must_use]
    pub fn spans_limit(mut self, bytes: usize) -> Self {
        self.spans_limit = bytes;
        self
    }

    /// Limits the memory for rows that wait to be written, in bytes (approximate). Beyond it, row
    /// groups become smaller.
    #[must_use]
    pub fn rows_limit(mut self, bytes: usize) -> Self {
        self.rows_limit = bytes;
        self
    }
}

/// Writes a trace as tables, into a new folder `out`. `events` must be at its beginning. Its totals
/// are complete afterwards.
///
/// # Errors
/// Those of the file system. An error of the source is in the result: the tables then have
/// everything before the damage.
pub fn write<R: Source>(
    tables: Tables,
    events: &mut SortedReader<R>,
    out: &Path,
    options: &Options,
) -> io::Result<Written> {
    let version = events.major_version();
    let target = target(tables, events.trace(), version, out, options)?;
    drive(events, target)
}

/// What takes the events of a trace of a major version, and writes tables into a new folder `out`.
///
/// # Errors
/// Those of the file system; there is a result in the folder, or something else.
pub fn target(
    tables: Tables,
    trace: &Trace,
    version: u32,
    out: &Path,
    options: &Options,
) -> io::Result<Box<dyn Target>> {
    Ok(Box::new(Writer::new(tables, trace, version, out, options)?))
}

/// The size of the files that [`write()`] has made in `out` of this trace, in bytes.
///
/// # Errors
/// Those of the file system.
pub fn size(trace: &Trace, out: &Path, options: &Options) -> io::Result<u64> {
    let folders = match &options.partition {
        Some(host) => Partition::new(trace, host)?.folders(out)?,
        None => vec![out.to_owned()],
    };
    folders.iter().map(|folder| folder::size(folder)).sum()
}

/// An error with the path that it is about.
fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The error for a path where a result cannot be.
fn refusal(path: &Path, why: &str) -> io::Error {
    at(path, io::Error::new(io::ErrorKind::InvalidInput, why))
}
