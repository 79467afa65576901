//! Writes a trace as one page of HTML.
//!
//! [`Report::read`] reads a trace once, and its memory does not grow with the trace.
//! [`Report::write`] writes the page: what was traced and lost, the rate of events by provider, how
//! long spans took (percentiles, histograms, the slowest trees with the events inside), flame
//! graphs of spans and of samples, the values of counters, gauges and histograms over time, the
//! largest event types, and when threads were active. [`Report::write_text`] writes what matters
//! most of it as text, for a terminal.
//!
//! ```
//! use nettrace_views::report::{NamesOnly, Options, Report};
//!
//! # let trace = nettrace_reader::example();
//! let options = nettrace_reader::Options::default().keep_thread_totals(true);
//! let mut events = options.open(&trace[..])?.sorted();
//! let report = Report::read(&mut events, &mut NamesOnly, &Options::new("service.nettrace"));
//! assert!(report.damage().is_none());
//! let mut page = Vec::new();
//! report.write(&mut page)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The page
//!
//! It is one file that needs no other and requests nothing: its Content-Security-Policy forbids
//! every request, and names its scripts by their hashes. So text of a trace can neither run nor
//! call home. Its size does not grow with the trace: at most 200 rows a table, 4,000 frames a flame
//! graph, 200 spans a tree, 200 instruments with their tags.
//!
//! # Numbers
//!
//! | number | how it is computed |
//! |---|---|
//! | events, lost, types, threads, spans | as `nettrace info` counts them |
//! | events over time | intervals of 2^n ticks, at most 256 |
//! | percentiles | the nearest rank: the shortest duration that at least p % of the spans do not exceed. Exact for the first 4 million spans; then a name with more can be up to 1/128 too high, and the page says so |
//! | values of a counter | how much it grew in a second, by the interval that the trace states, or by one of a second |
//! | percentiles of a histogram | as the trace states them for each interval; of several intervals the highest |
//! | mean of a counter or gauge | of the growth in all intervals that were reported; of the values that were reported |
//! | own time | the part of a span in which no child was under way |
//! | busy, polls | sums of what the spans' ends state, or else of the events of their polls |
//! | longest poll | by the events of polls, which a type has with `polls` of `#[traced]` |
//! | service | `service.name` of the processes in which the spans began, or else their programs |
//! | flame graph of spans | own times, by the path of names from the root |
//! | errors and warnings | events of level warning or a more severe one, and spans whose outcome is `err` or `panicked`, by type, message and place. The message is the template of the type, or the text with `#` for its numbers; the place is the outermost span around that has a dimension, or else the root. At most 500 groups |
//! | messages | what `tracing` and `log` say below a warning, in the same way |
//! | slowest trees | as `nettrace tree --slow` sorts them: from the first start to the last stop, work after the root's end included. What has ended below a root without an end is a tree of its own; of such a root, the 1,000 longest spans below are kept. Trees whose root has no start or no end are in a list of their own |
//!
//! A child can begin after its parent has ended, and a span of one event comes after its children.
//! Both are found while their trees are kept: for 16,384 other trees after the last span has ended.

mod assets;
mod data;
mod diff;
mod durations;
mod errors;
mod flame;
mod gather;
mod instruments;
mod page;
mod samples;
mod spans;
mod terminal;
mod timeline;
mod trees;

use std::{
    io::{self, Write},
    time::{Duration, SystemTime},
};

use nettrace_reader::{Event, SortedReader, Source};

use crate::{
    model::to_json,
    report::{data::Data, diff::Diff},
};

/// The choices of a caller.
///
/// ```
/// let options = nettrace_views::report::Options::new("service.nettrace").slowest(50);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) title: String,
    pub(crate) slowest: usize,
    pub(crate) by: Option<String>,
}

impl Options {
    /// A page with this title, such as the name of the trace's file, and the 20 slowest trees.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), slowest: 20, by: None }
    }

    /// How many of the slowest trees of spans the page shows.
    #[must_use]
    pub fn slowest(mut self, trees: usize) -> Self {
        self.slowest = trees;
        self
    }

    /// Tells spans apart by the values of this field, in types that have it: durations, flame
    /// graphs and slow trees of `/cart` and of `/orders`. The field may be one of a span's Start
    /// or, for durations and slow trees, of its Stop. At most 64 values of a name are
    /// distinguished.
    ///
    /// Without this, and in other types, the field is the one that the type's key-value
    /// `nettrace.dimension` names, such as the route of a request of `nettrace-tower`.
    #[must_use]
    pub fn by(mut self, field: impl Into<String>) -> Self {
        self.by = Some(field.into());
        self
    }
}

/// Spells events as text, for the trees of spans. A text has at most 2,000 characters on the page.
pub trait Describe {
    /// An event inside of a span: its name, and what it says.
    fn event(&mut self, event: &Event<'_>) -> String;

    /// What the event that begins or ends a span says of it, without the span's name.
    fn details(&mut self, event: &Event<'_>, is_start: bool) -> String;
}

/// Describes an event by its provider and name, and a span by nothing more.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamesOnly;

impl Describe for NamesOnly {
    fn event(&mut self, event: &Event<'_>) -> String {
        let metadata = event.metadata();
        format!("{}/{}", metadata.provider, metadata.name)
    }

    fn details(&mut self, _: &Event<'_>, _: bool) -> String {
        String::new()
    }
}

/// What a page shows of a trace.
#[derive(Debug)]
pub struct Report {
    data: Data,
    damage: Option<nettrace_reader::Error>,
}

impl Report {
    /// Reads a trace of NetTrace V4, V5 or V6. `events` must be at its beginning. To show threads
    /// that ended before the end of the trace, its options must
    /// [keep their totals](nettrace_reader::Options::keep_thread_totals).
    ///
    /// If the trace is damaged, the report has everything before the damage, and says so.
    #[must_use]
    pub fn read<R: Source>(
        events: &mut SortedReader<R>,
        describe: &mut dyn Describe,
        options: &Options,
    ) -> Self {
        let (gathered, damage) = gather::gather(events, describe, options);
        let shown = damage.as_ref().map(ToString::to_string);
        Self { data: Data::of(gathered, events, options, shown), damage }
    }

    /// Says that the trace was made of one in another format, while that was read. The page then
    /// shows that format, its size in bytes, and `damage`: why that trace could not be read to its
    /// end.
    pub fn was_made_of(
        &mut self,
        format: &str,
        bytes: u64,
        damage: Option<nettrace_reader::Error>,
    ) {
        self.data.format = format.to_owned();
        self.data.bytes = bytes;
        if let Some(damage) = damage {
            self.data.damage = Some(damage.to_string());
            self.damage = Some(damage);
        }
    }

    /// Adds a sentence to those that say what the page cannot show: a file of the trace is missing.
    pub fn note(&mut self, sentence: impl Into<String>) {
        self.data.notes.push(sentence.into());
    }

    /// Takes back what [`note`](Self::note) has added.
    pub fn take_back(&mut self, sentence: &str) {
        self.data.notes.retain(|it| it != sentence);
    }

    /// Makes the page one that a server replaces while the trace grows: it has a number, says when
    /// it was `made`, and asks the server as often for the number of its page (`HEAD`, header
    /// `ETag`). If that is another one, it loads itself again, where the reader was.
    pub fn follow(&mut self, number: u64, made: SystemTime, every: Duration) {
        let made = made.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let [made_unix_ms, every_ms] =
            [made, every].map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self.data.followed = Some(data::Followed { number, made_unix_ms, every_ms });
    }

    /// Why the trace could not be read to its end.
    #[must_use]
    pub fn damage(&self) -> Option<&nettrace_reader::Error> {
        self.damage.as_ref()
    }

    /// Why the trace could not be read to its end.
    #[must_use]
    pub fn into_damage(self) -> Option<nettrace_reader::Error> {
        self.damage
    }

    /// Writes the report as text of lines: what was traced and lost, spans by name, the slowest
    /// trees, and instruments. What the trace wrote is escaped, so it cannot command a terminal.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_text(&self, out: impl Write) -> io::Result<()> {
        terminal::write(&self.data, out)
    }

    /// Writes errors, warnings and spans that failed as text of lines: the first `most` groups
    /// whose level is `level` or a more severe one. Spans that failed count as errors.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_errors(&self, level: u8, most: usize, out: impl Write) -> io::Result<()> {
        terminal::write_errors(&self.data, level, most, out)
    }

    /// The same as JSON: an object on a line for each group.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_errors_json(&self, level: u8, most: usize, mut out: impl Write) -> io::Result<()> {
        for wrong in terminal::errors_of(&self.data, level).take(most) {
            to_json(&mut out, wrong)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// How many errors and warnings are of no group, because 500 are told apart.
    #[must_use]
    pub fn other_errors(&self) -> u64 {
        self.data.other_errors
    }

    /// How many groups of errors there are of a level or a more severe one.
    #[must_use]
    pub fn error_groups(&self, level: u8) -> usize {
        terminal::errors_of(&self.data, level).count()
    }

    /// Writes what differs from a report before, such as one of a service before it was deployed:
    /// how long spans take and took, by name, and which errors and event types are new or gone. Of
    /// each report the 200 names with the most time are compared.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_diff(&self, before: &Self, out: impl Write) -> io::Result<()> {
        Diff::of(&before.data, &self.data).write([&before.data, &self.data], out)
    }

    /// The same as one line of JSON.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_diff_json(&self, before: &Self, mut out: impl Write) -> io::Result<()> {
        to_json(&mut out, &Diff::of(&before.data, &self.data))?;
        out.write_all(b"\n")
    }

    /// Writes the page, in UTF-8.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        page::write(&self.data, out)
    }
}
