//! Traces in the formats of viewers and profilers.
//!
//! [`write()`] converts a trace of NetTrace V4, V5 or V6. It reads the trace once, and its memory
//! does not grow with the trace beyond [`Options`].
//!
//! ```
//! use nettrace_reader::Reader;
//! use nettrace_views::viewers::{Options, View, write};
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
//! | any other span | a slice in the lane of its request (its trace, or its root span), below the track `requests` of the process; annotation `Thread` names where it began |
//! | spans of a request that run at the same time | slices on tracks below the lane; a slice inside of another one is its child |
//! | a poll (events Resume and Suspend) | a slice of the thread that polls |
//! | a span's parent that is drawn elsewhere | a flow from the parent to the span |
//! | an event that stands for a whole span, or an end without start that states a duration | a slice |
//! | any other event | an instant on its thread's track |
//! | provider | category |
//! | fields, labels, levels up to Warning | annotations; those of a span's end are of its slice |
//! | a duration | nanoseconds |
//! | ids of traces and spans | annotations `TraceId`, `SpanId` and `ParentId` of slices; of other events `SpanId` alone |
//! | a sample of .NET's sampler, or of `Universal.Events` | a sample with its callstack; an event, if an id of its process or thread is unknown or 2^31 or more, or if it stands for more than one sample |
//! | the id of another span that an event is related to, or that its span follows from | a flow from that span, if it is under way, to the event |
//! | the stack of another event, also of a context switch | annotation `stack`, innermost first: frames by the names that the trace has stated before, or addresses if it has stated none |
//! | the name of a process (`Universal.System`) | the name of its track |
//! | an event of the .NET runtime | name and fields as in [`Options::runtime_events`](nettrace_reader::Options::runtime_events) |
//! | values of .NET's EventCounters and meters | counter tracks, beside the event |
//! | lost events | the instant `lost events` with their number, at the next event of the thread; losses that no event follows are at the end, on the track of the process |
//! | key-values of the trace | annotations of the instant `trace` |
//!
//! A span is nested if it ended on the thread on which it began, if its end states no pause (at
//! most one poll, and no cancellation after it), and if whatever began on the thread meanwhile, and
//! had not ended before, named it as parent. A slice's parent on a thread is then the span's
//! parent.
//!
//! Requests that follow each other share a lane, so there are as many lanes as requests that
//! overlap: at most 65,536 with 128 tracks each. A span beyond that has a track with its own name.
//!
//! Keywords, versions, descriptions and message templates of event types are not in the result, nor
//! are the processors of events other than samples.
//!
//! # How a trace maps to Chrome
//!
//! The result is a JSON object in Chrome's Trace Event Format, which Perfetto opens as well. It has
//! the same slices and events as for Perfetto.
//!
//! | of the source | in the result |
//! |---|---|
//! | a time | microseconds since the start of the trace, with three decimals; negative before it |
//! | a span that is nested in others on its thread, a poll | `X`, or `B` if it has not ended |
//! | any other span | `b` and `e` with an `id` of its own |
//! | any other event, lost events | `i` |
//! | a span's parent that is drawn on another thread | `s` and `f`; flows from or to anything but slices of threads cannot be expressed |
//! | fields, labels, levels up to Warning | `args`; the second field `x` of an event is `x#2` |
//! | integers beyond 2^53, `NaN`, infinities | text |
//! | samples | a profile of V8 for each thread: `Profile` and `ProfileChunk` |
//! | values of counters | `C` |
//! | ids of processes and threads from 2^30 on, and unknown ones | other ids; the names have the true ones |
//! | the start of the trace, its key-values | `otherData` |
//!
//! speedscope's page (1.25.0) opens such a file, and shows its samples alone if it has any. It
//! refuses a file whose name ends in `.chrome.json` (`t.sort is not a function`), because it takes
//! every file of such a name for a list of events: call it `.chromium.json`, or better use
//! [`View::Speedscope`], which has samples and spans.
//!
//! # How a trace maps to speedscope
//!
//! The result is a file for <https://www.speedscope.app>.
//!
//! | of the source | in the result |
//! |---|---|
//! | spans and polls that are slices of a thread | an evented profile for each thread, in nanoseconds since the start of the trace |
//! | any other span | evented profiles `asynchronous spans, N`, as many as are needed for what overlaps; a span is inside of another one only if that is its parent |
//! | samples | a sampled profile for each thread; each sample weighs the time that the key-value `ExpectedCPUSamplingRate` states, in nanoseconds, or 1 |
//! | context switches (`cswitch` of `Universal.Events`) | a sampled profile for each thread: where it waited, weighed with how long in nanoseconds |
//! | everything else | not in the result; counted |
//!
//! # How a trace maps to the Firefox Profiler
//!
//! The result is a processed profile (JSON) for <https://profiler.firefox.com>. It is made in
//! memory, within [`Options::samples_limit`].
//!
//! | of the source | in the result |
//! |---|---|
//! | a span, a poll | a marker of its thread with start and end; all fields are one text |
//! | any other event, lost events | a marker with a time |
//! | provider | category: the first 200 |
//! | samples | samples of the thread |
//! | values of counters | counters of the process |
//! | a time before the start of the trace | the start |
//! | parents | the ids in the text |
//!
//! # How a trace maps to pprof
//!
//! The result is a `profile.proto`, compressed by gzip. Each stack has four values: `samples` and
//! `cpu` (how long they stand for: by `ExpectedCPUSamplingRate`, or 1 ms each), `spans` and
//! `span_time` (without the children's). The stack of a span is that of its parents. The time of a
//! span that has ended counts, and a parent that is not in the trace, or has not ended, is left
//! out. A trace with context switches has two more values: `waits` and `wait_time`.
//!
//! # Flame graphs
//!
//! [`View::FlameGraph`] draws the same stacks, [`View::Folded`] writes them as text: of samples, of
//! spans, of the times in which threads waited, or of other events, as [`Options::by`] says. If the
//! trace names a process, that is the outermost frame of its stacks. [`Options::compared_with`]
//! compares with another trace; widths are those of this one, and differences are not adjusted to
//! how long the traces are. In names, `_` stands for semicolons and control characters.
//!
//! # Names of frames
//!
//! A frame is named `module!function`, `module+0x1f0` (in the kernel `vmlinux!0xffffffff81000fd1`,
//! because people look its addresses up) or by its address, as far as the trace says:
//! by the mappings of `Universal.System` and the symbols of each mapping, of which the first one at
//! an address counts, or by the methods and modules that .NET's
//! runtime lists when it compiles them or when the trace ends. A sample of .NET's sampler of a
//! thread outside of managed code has the innermost frame `(native code or waiting)`: .NET samples
//! threads that wait as well.

mod chrome;
mod firefox;
mod flamegraph;
mod json;
mod perfetto;
mod pprof;
mod profile;
mod proto;
mod spans;
mod speedscope;
mod stacks;
mod timeline;
mod tree;
mod values;

use std::{
    fmt,
    io::{self, Write},
    path::Path,
    str::FromStr,
};

use nettrace_reader::{SortedReader, Source, Trace};

pub use self::flamegraph::{By, Folded, UnknownBy};
use crate::{Target, Written, drive};

/// A format of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum View {
    /// A trace of Perfetto: a stream of protocol buffers, for <https://ui.perfetto.dev> and
    /// Perfetto's trace processor.
    Perfetto,
    /// The Trace Event Format of Chrome: JSON, which Perfetto opens as well.
    Chrome,
    /// The file format of speedscope: JSON, for <https://www.speedscope.app>.
    Speedscope,
    /// A profile for the Firefox Profiler (<https://profiler.firefox.com>): JSON.
    Firefox,
    /// A profile for pprof and what reads its format: `profile.proto`, compressed by gzip.
    Pprof,
    /// A flame graph: a picture (SVG) that a browser shows, with search and zoom.
    FlameGraph,
    /// The stacks of a flame graph as text: a line for each, with its frames and a number.
    Folded,
}

impl View {
    /// All formats.
    pub const ALL: &'static [Self] = &[
        Self::Perfetto,
        Self::Chrome,
        Self::Speedscope,
        Self::Firefox,
        Self::Pprof,
        Self::FlameGraph,
        Self::Folded,
    ];

    /// Its name, as in command lines.
    ///
    /// ```
    /// use nettrace_views::viewers::View;
    ///
    /// assert_eq!(View::Perfetto.name(), "perfetto");
    /// assert_eq!("perfetto".parse(), Ok(View::Perfetto));
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Perfetto => "perfetto",
            Self::Chrome => "chrome",
            Self::Speedscope => "speedscope",
            Self::Firefox => "firefox",
            Self::Pprof => "pprof",
            Self::FlameGraph => "flamegraph",
            Self::Folded => "folded",
        }
    }

    /// Its name in sentences.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Perfetto => "Perfetto",
            Self::Chrome => "Chrome",
            Self::Speedscope => "speedscope",
            Self::Firefox => "the Firefox Profiler",
            Self::Pprof => "pprof",
            Self::FlameGraph => "a flame graph",
            Self::Folded => "a text of stacks",
        }
    }

    /// What it is for, in a few words.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Perfetto => "Perfetto (ui.perfetto.dev): spans, events, counters, samples",
            Self::Chrome => "Chrome's Trace Event Format (JSON): the same, for more viewers",
            Self::Speedscope => "speedscope (speedscope.app): spans and samples of each thread",
            Self::Firefox => "Firefox Profiler (profiler.firefox.com): spans, events, samples",
            Self::Pprof => "pprof: samples by stack, times of spans",
            Self::FlameGraph => "a flame graph (SVG): samples by stack, or times of spans",
            Self::Folded => "the stacks of a flame graph as text, for --diff and other programs",
        }
    }

    /// The endings of its files, without the dot before them.
    #[must_use]
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Perfetto => &["pftrace", "perfetto-trace"],
            Self::Chrome => &["chrome.json", "chromium.json"],
            Self::Speedscope => &["speedscope.json"],
            Self::Firefox => &["firefox.json"],
            Self::Pprof => &["pb.gz", "pprof"],
            Self::FlameGraph => &["svg"],
            Self::Folded => &["folded"],
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
    /// use nettrace_views::viewers::{Options, View};
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
        use crate::viewers::flamegraph::Kind::{Svg, Text};
        match self {
            Self::Perfetto => Box::new(perfetto::begin(out, trace, version, options)),
            Self::Chrome => Box::new(chrome::begin(out, trace, version, options)),
            Self::Speedscope => Box::new(speedscope::begin(out, trace, version, options)),
            Self::Firefox => Box::new(firefox::begin(out, trace, version, options)),
            Self::Pprof => Box::new(pprof::begin(out, trace, version, options)),
            Self::FlameGraph => Box::new(flamegraph::begin(out, Svg, trace, version, options)),
            Self::Folded => Box::new(flamegraph::begin(out, Text, trace, version, options)),
        }
    }

    /// The format that the name of a file ends with.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use nettrace_views::viewers::View;
    ///
    /// assert_eq!(View::of_path(Path::new("checkout.pftrace")), Some(View::Perfetto));
    /// assert_eq!(View::of_path(Path::new("checkout.txt")), None);
    /// ```
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        // What comes before the ending need not be UTF-8.
        let name = &*path.file_name()?.to_string_lossy();
        let has = |ending: &str| {
            name.strip_suffix(ending).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        };
        Self::ALL.iter().copied().find(|view| view.endings().iter().any(|ending| has(ending)))
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
/// let options = nettrace_views::viewers::Options::default().spans_limit(16 << 20);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) spans_limit: usize,
    pub(crate) samples_limit: usize,
    pub(crate) by: Option<By>,
    pub(crate) dimension: Option<String>,
    pub(crate) before: Option<Folded>,
}

impl Default for Options {
    /// 256 MiB for spans that are under way, and 256 MiB for samples.
    fn default() -> Self {
        let limit = 256 << 20;
        let (by, dimension, before) = (None, None, None);
        Self { spans_limit: limit, samples_limit: limit, by, dimension, before }
    }
}

impl Options {
    /// Limits the memory for spans that have begun and not ended, in bytes (approximate). Beyond
    /// it, the oldest ones become events without duration; [`LeftOut`](crate::LeftOut) counts them.
    #[must_use]
    pub fn spans_limit(mut self, bytes: usize) -> Self {
        self.spans_limit = bytes;
        self
    }

    /// Limits the memory for samples and their stacks, in bytes (approximate). They are collected,
    /// because the names of .NET's methods come at the end of a trace. Beyond the limit, Perfetto
    /// and Chrome get what has been collected with the names that are known by then. speedscope
    /// and the Firefox Profiler get no further samples, spans and events; they are counted.
    #[must_use]
    pub fn samples_limit(mut self, bytes: usize) -> Self {
        self.samples_limit = bytes;
        self
    }

    /// Chooses what the widths of a flame graph are. Without a choice, they are of the first kind
    /// of [`By::ALL`] that the trace has.
    #[must_use]
    pub fn by(mut self, by: By) -> Self {
        self.by = Some(by);
        self
    }

    /// Tells spans of one name apart by the value of this field, in flame graphs and for speedscope
    /// and pprof. Without this, and in other types, the field is the one that the type's key-value
    /// `nettrace.dimension` names, such as the route of a request.
    #[must_use]
    pub fn dimension(mut self, field: impl Into<String>) -> Self {
        self.dimension = Some(field.into());
        self
    }

    /// Compares a flame graph with the stacks of another trace: widths are those of this one, and
    /// colours say where it took more (red) or less (blue).
    #[must_use]
    pub fn compared_with(mut self, before: Folded) -> Self {
        self.before = Some(before);
        self
    }
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
