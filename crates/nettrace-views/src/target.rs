//! A target for the events of a trace: the seam between traces and formats.

use std::io;

use nettrace_reader::{Event, SortedReader, Source, Totals};

/// Takes the events of a trace in the order of time, and makes something of them: a file for a
/// viewer, tables, a report.
///
/// ```
/// use std::io;
///
/// use nettrace_reader::{Event, Reader, Totals};
/// use nettrace_views::{LeftOut, Target, drive};
///
/// /// Counts events.
/// struct Count<'c>(&'c mut u64);
///
/// impl Target for Count<'_> {
///     fn event(&mut self, _: &Event<'_>) -> io::Result<()> {
///         *self.0 += 1;
///         Ok(())
///     }
///
///     fn finish(self: Box<Self>, _: &Totals) -> io::Result<LeftOut> {
///         Ok(LeftOut::default())
///     }
/// }
///
/// # let trace = nettrace_reader::example();
/// let mut events = Reader::new(&trace[..])?.sorted();
/// let mut count = 0;
/// let written = drive(&mut events, Box::new(Count(&mut count)))?;
/// written.end?;
/// assert_eq!(count, events.totals().events);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Target {
    /// Takes the next event.
    ///
    /// # Errors
    /// Those of the place to which the result goes.
    fn event(&mut self, event: &Event<'_>) -> io::Result<()>;

    /// Writes the end of the result. `totals` are the counts of the whole trace, also of one that
    /// could not be read to its end.
    ///
    /// # Errors
    /// Those of the place to which the result goes.
    fn finish(self: Box<Self>, totals: &Totals) -> io::Result<LeftOut>;
}

/// Hands all events of a trace to a target. `events` must be at its beginning. Its totals are
/// complete afterwards.
///
/// # Errors
/// Those of the target. An error of the source is in the result.
pub fn drive<R: Source>(
    events: &mut SortedReader<R>,
    mut target: Box<dyn Target + '_>,
) -> io::Result<Written> {
    let end = loop {
        match events.next_event() {
            Ok(Some(event)) => target.event(&event)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    Ok(Written { left_out: target.finish(events.totals())?, end })
}

/// The result of [`drive`], and of what writes a whole trace.
#[derive(Debug)]
#[non_exhaustive]
pub struct Written {
    /// What could not be expressed.
    pub left_out: LeftOut,
    /// How the source ended. After an error, the result has everything before the damage, and is
    /// complete.
    pub end: nettrace_reader::Result<()>,
}

/// What a conversion has left out, counted by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    kinds: Vec<(u64, &'static str, LeftOutKind)>,
}

/// Why something is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeftOutKind {
    /// The format has no place for it.
    NoPlace,
    /// The format has a place for it, but it could not be converted: the source is damaged there,
    /// or a limit was exceeded.
    Missing,
}

impl LeftOut {
    /// Counts `count` more of a kind that the format has no place for. The kind is described in the
    /// plural, such as `"stacks"`.
    ///
    /// ```
    /// let mut left_out = nettrace_views::LeftOut::default();
    /// left_out.add(2, "stacks");
    /// left_out.add(0, "names of threads");
    /// # use nettrace_views::LeftOutKind::NoPlace;
    /// assert_eq!(left_out.lines().collect::<Vec<_>>(), [(2, "stacks", NoPlace)]);
    /// ```
    pub fn add(&mut self, count: u64, what: &'static str) {
        self.count(count, what, LeftOutKind::NoPlace);
    }

    /// Counts `count` more of a kind that the format has a place for, but that could not be
    /// converted.
    ///
    /// ```
    /// let mut left_out = nettrace_views::LeftOut::default();
    /// left_out.miss(3, "values that cannot be decoded");
    /// let (count, _, kind) = left_out.lines().next().unwrap();
    /// assert_eq!((count, kind), (3, nettrace_views::LeftOutKind::Missing));
    /// ```
    pub fn miss(&mut self, count: u64, what: &'static str) {
        self.count(count, what, LeftOutKind::Missing);
    }

    fn count(&mut self, count: u64, what: &'static str, kind: LeftOutKind) {
        if count == 0 {
            return;
        }
        match self.kinds.iter_mut().find(|(_, known, _)| *known == what) {
            Some((known, ..)) => *known = known.saturating_add(count),
            None => self.kinds.push((count, what, kind)),
        }
    }

    /// The kinds that are not zero: how many, a description, and why.
    ///
    /// ```
    /// assert_eq!(nettrace_views::LeftOut::default().lines().count(), 0);
    /// ```
    pub fn lines(&self) -> impl Iterator<Item = (u64, &'static str, LeftOutKind)> {
        self.kinds.iter().copied()
    }

    /// All kinds together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kinds.iter().fold(0, |total, (count, ..)| total.saturating_add(*count))
    }
}
