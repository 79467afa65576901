//! Writes NetTrace traces in the formats of viewers.
//!
//! [`write()`] converts a trace of NetTrace V4, V5 or V6. It reads the trace once, and its memory
//! does not grow with the trace.
//!
//! ```
//! use nettrace_reader::Reader;
//! use nettrace_views::{Options, View, write};
//!
//! # let trace = nettrace_reader::example();
//! let mut events = Reader::new(&trace[..])?.sorted();
//! let mut out = Vec::new();
//! let written = write(View::Perfetto, &mut events, &mut out, &Options::default())?;
//! // How the source ended: whatever was readable is in the result.
//! written.end?;
//! assert_eq!(written.left_out.total(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How a trace maps to Perfetto
//!
//! The result is a file for <https://ui.perfetto.dev> and for Perfetto's trace processor.
//!
//! | of the source | in the result |
//! |---|---|
//! | the start of the trace | timestamp 2^34 ns of the clock BOOTTIME, which is related to the time of day |
//! | a time | nanoseconds, rounded down |
//! | a thread | a track with its ids and name; its key-values are the track's description |
//! | a span that is nested in others on its thread | a slice of the thread |
//! | any other span | a slice on a track of its own, with the span's name; Perfetto shows the tracks of one name as one, in as many rows as they need |
//! | a poll (events Resume and Suspend) | a slice of the thread that polls |
//! | a span's parent that is drawn elsewhere | a flow from the parent to the span |
//! | an event that stands for a whole span, or an end without start that states a duration | a slice |
//! | any other event | an instant on its thread's track |
//! | provider | category |
//! | fields, labels, levels up to Warning | annotations; those of a span's end are of its slice |
//! | a duration | nanoseconds |
//! | ids of traces and spans | annotations `TraceId`, `SpanId` and `ParentId` of slices; of other events `SpanId` alone |
//! | a sample of .NET's sampler, or of `Universal.Events` | a sample with its callstack; frames are addresses |
//! | the stack of another event | annotation `stack`: addresses, innermost first |
//! | an event of the .NET runtime | name and fields as in [`Options::runtime_events`](nettrace_reader::Options::runtime_events) |
//! | values of .NET's EventCounters and meters | counter tracks, beside the event |
//! | lost events | the instant `lost events` with their number, at the next event of the thread; losses that no event follows are at the end, on the track of the process |
//! | key-values of the trace | annotations of the instant `trace` |
//!
//! A span is nested if it ended on the thread on which it began and its end states no polls, and if
//! whatever began on the thread meanwhile, and had not ended before, named it as parent. A slice's
//! parent on a thread is then the span's parent.
//!
//! Keywords, versions, descriptions and message templates of event types are not in the result, nor
//! are the processors of events other than samples.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::must_use_candidate)]

mod clock;
mod ids;
mod perfetto;
mod proto;
mod spans;
mod target;
mod values;

use std::{
    fmt,
    io::{self, Write},
    path::Path,
    str::FromStr,
};

use nettrace_reader::{SortedReader, Source, Trace};

use crate::perfetto::Perfetto;
pub use crate::target::{LeftOut, Target, drive};

/// A format of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum View {
    /// A trace of Perfetto: a stream of protocol buffers, for <https://ui.perfetto.dev> and
    /// Perfetto's trace processor.
    Perfetto,
}

impl View {
    /// All formats.
    pub const ALL: &'static [Self] = &[Self::Perfetto];

    /// Its name, as in command lines.
    ///
    /// ```
    /// use nettrace_views::View;
    ///
    /// assert_eq!(View::Perfetto.name(), "perfetto");
    /// assert_eq!("perfetto".parse(), Ok(View::Perfetto));
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Perfetto => "perfetto",
        }
    }

    /// Its name in sentences.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Perfetto => "Perfetto",
        }
    }

    /// What it is for, in a few words.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Perfetto => "Perfetto (ui.perfetto.dev): spans, events, counters, samples",
        }
    }

    /// The endings of its files.
    #[must_use]
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Perfetto => &["pftrace", "perfetto-trace"],
        }
    }

    /// Begins a result in this format, in `out`: of a NetTrace trace with these facts, whose major
    /// version is `version`. Memory for bytes that `out` has not got yet is at most some MiB.
    ///
    /// Callers with a trace call [`write()`]. This is for those that make events go to several
    /// targets, or stop early.
    ///
    /// ```
    /// use nettrace_reader::Reader;
    /// use nettrace_views::{Options, View};
    ///
    /// # let trace = nettrace_reader::example();
    /// let mut events = Reader::new(&trace[..])?.sorted();
    /// let mut out = Vec::new();
    /// let (view, options) = (View::Perfetto, Options::default());
    /// let mut target = view.target(&mut out, events.trace(), events.major_version(), &options);
    /// while let Some(event) = events.next_event()? {
    ///     target.event(&event)?;
    /// }
    /// let left_out = target.finish(events.totals())?;
    /// assert_eq!(left_out.total(), 0);
    /// assert!(!out.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn target<'w, W: Write + 'w>(
        self,
        out: W,
        trace: &Trace,
        version: u32,
        options: &Options,
    ) -> Box<dyn Target + 'w> {
        match self {
            Self::Perfetto => Box::new(Perfetto::new(out, trace, version, options)),
        }
    }

    /// The format that the name of a file ends with.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use nettrace_views::View;
    ///
    /// assert_eq!(View::of_path(Path::new("checkout.pftrace")), Some(View::Perfetto));
    /// assert_eq!(View::of_path(Path::new("checkout.txt")), None);
    /// ```
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?;
        Self::ALL.iter().copied().find(|view| view.endings().contains(&ending))
    }
}

impl FromStr for View {
    type Err = UnknownView;

    fn from_str(name: &str) -> Result<Self, UnknownView> {
        Self::ALL.iter().copied().find(|view| view.name() == name).ok_or(UnknownView)
    }
}

/// Shows [`View::name`].
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No format has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no format of a viewer has this name")]
#[non_exhaustive]
pub struct UnknownView;

/// The choices of a caller.
///
/// ```
/// let options = nettrace_views::Options::default().spans_limit(16 << 20);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) spans_limit: usize,
}

impl Default for Options {
    /// 256 MiB for spans that are under way.
    fn default() -> Self {
        Self { spans_limit: 256 << 20 }
    }
}

impl Options {
    /// Limits the memory for spans that have begun and not ended, in bytes (approximate). Beyond
    /// it, the oldest ones become events without duration; [`LeftOut`] counts them.
    #[must_use]
    pub fn spans_limit(mut self, bytes: usize) -> Self {
        self.spans_limit = bytes;
        self
    }
}

/// The result of [`write()`] and [`drive()`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Written {
    /// What could not be expressed.
    pub left_out: LeftOut,
    /// How the source ended. After an error, the result has everything before the damage, and is
    /// complete.
    pub end: nettrace_reader::Result<()>,
}

/// Converts a trace to the format of a viewer. `events` must be at its beginning. Its totals are
/// complete afterwards.
///
/// # Errors
/// Those of `out`. An error of the source is in the result.
pub fn write<R: Source, W: Write>(
    view: View,
    events: &mut SortedReader<R>,
    out: W,
    options: &Options,
) -> io::Result<Written> {
    let target = view.target(out, events.trace(), events.major_version(), options);
    drive(events, target)
}

/// The README, so that its example is compiled by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc(hidden)]
pub mod readme {}
