//! Checks what the writer of a trace promises.

use std::{fmt, io};

use crate::{
    error::{Error, ErrorKind, Result},
    heph::{packet::Event, reader::Options, span::SpanPart, value::Value},
    verify::Basis,
};

/// A promise that was broken, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The position of the violation, in bytes from the start of the trace.
    pub offset: u64,
    /// A description of what is wrong.
    pub what: String,
    /// Where the promise comes from. None is of the reference reader, which does not read Heph.
    pub basis: Basis,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}{}", self.offset, self.what, self.basis.remark())
    }
}

/// The result of [`verify`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The first violations, in the order of the trace.
    pub violations: Vec<Violation>,
    /// The number of all violations.
    pub count: u64,
    /// How many of them are of rules of the format itself: see [`Violation::basis`].
    pub format_count: u64,
    /// The number of events.
    pub events: u64,
    /// The number of lost events. A loss that a counter shows breaks no promise.
    pub lost: u64,
    /// The number of spans that have ended: see [`Event::span`](crate::heph::Event::span). Other
    /// events that take time count as well.
    pub spans: u64,
    /// The number of packets of both kinds.
    pub packets: u64,
    /// The size in bytes, up to the end or to the position at which reading stopped.
    pub bytes: u64,
}

impl Report {
    /// Whether the trace keeps every promise.
    ///
    /// ```
    /// use nettrace_reader::heph::{Options, verify};
    ///
    /// # let file = nettrace_reader::heph_example();
    /// let report = verify(&file[..], Options::default(), 10)?;
    /// // An event was lost, which a trace may state.
    /// assert!(report.is_sound());
    /// assert_eq!((report.events, report.lost), (2, 1));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.count == 0
    }

    /// Whether the trace keeps the rules of the format. It may still break what this project
    /// promises beyond the format.
    ///
    /// ```
    /// use nettrace_reader::heph::{Options, verify};
    ///
    /// # let file = nettrace_reader::heph_example();
    /// assert!(verify(&file[..], Options::default(), 10)?.keeps_format());
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn keeps_format(&self) -> bool {
        self.format_count == 0
    }

    fn add(&mut self, offset: u64, what: String, basis: Basis, most: usize) {
        self.count += 1;
        self.format_count += u64::from(basis == Basis::Format);
        if self.violations.len() < most {
            self.violations.push(Violation { offset, what, basis });
        }
    }
}

/// Reads a trace to its end and checks it. The report lists the first `most` violations.
///
/// The format demands:
///
/// * Packets are complete.
/// * Descriptions and attributes can be decoded.
/// * No two epochs contradict each other, as each holds for the entire trace.
///
/// The writers of this project promise more:
///
/// * No event ends before it starts.
/// * No event starts exactly at the epoch, because older events get that time, too.
/// * The numbers of a stream never go back. The format leaves the counter to the writer, and allows
///   packets to be late.
/// * Ids of traces have 32 hexadecimal digits, ids of spans 16, in lower case.
///
/// # Errors
/// [`ErrorKind::Io`] and [`ErrorKind::LimitExceeded`]. Everything else is a violation.
///
/// ```
/// use nettrace_reader::heph::{Options, verify};
///
/// let report = verify(&b"GIF89a"[..], Options::default(), 10)?;
/// assert!(!report.is_sound());
/// println!("{}", report.violations[0]);
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
pub fn verify<R: io::Read>(source: R, options: Options, most: usize) -> Result<Report> {
    let mut reader = options.open(source);
    let mut report = Report::default();
    // Events that are a violation if an epoch comes later: it holds for them, too.
    let mut early = Report::default();
    loop {
        let before = reader.totals().step_backs;
        let event = match reader.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(error) => {
                stop(error, &mut report, most)?;
                break;
            }
        };
        let (offset, stream, counter) = (event.offset, event.stream, event.counter);
        let takes_time = event.end > event.start;
        let span = event.span().map(|span| span.part == SpanPart::Whole);
        report.spans += u64::from(span.unwrap_or(takes_time));
        if let Some((name, id)) = misspelled(&event) {
            let what = format!("event {counter} of stream {stream} has {id:?} as `{name}`");
            report.add(offset, what, Basis::Project, most);
        }
        let has_no_time = (event.start, event.end) == (0, 0);
        if event.end < event.start {
            let what = format!("event {counter} of stream {stream} ends before it starts");
            report.add(offset, what, Basis::Project, most);
        }
        if let Some(error) = event.attributes().find_map(Result::err) {
            stop(error, &mut report, most)?;
        }
        if has_no_time {
            let what =
                format!("event {counter} of stream {stream} is as old as the epoch, or older");
            let is_known = reader.epoch().is_some();
            let report = if is_known { &mut report } else { &mut early };
            report.add(offset, what, Basis::Project, most);
        }
        if reader.totals().step_backs > before {
            let what = format!("event {counter} of stream {stream} comes after a later one");
            report.add(offset, what, Basis::Project, most);
        }
    }
    if let Some(offset) = reader.epochs_differ() {
        let what = "the epoch is not the one that was set before".to_owned();
        report.add(offset, what, Basis::Format, most);
    }
    if reader.epoch().is_some() && early.count > 0 {
        report.count += early.count;
        report.violations.append(&mut early.violations);
        report.violations.sort_by_key(|violation| violation.offset);
        report.violations.truncate(most);
    }
    let totals = reader.totals();
    (report.events, report.lost) = (totals.events, totals.lost);
    (report.packets, report.bytes) = (totals.packets, reader.offset());
    Ok(report)
}

/// An id of a span or a trace that has another form than all others.
fn misspelled<'a>(event: &Event<'a>) -> Option<(&'a str, &'a str)> {
    let own =
        event.attributes().filter_map(Result::ok).take_while(|(name, _)| name.starts_with('@'));
    let digits = |name| match name {
        "@trace" => Some(32),
        "@span" | "@parent" => Some(16),
        _ => None,
    };
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    own.filter_map(|(name, value)| match value {
        Value::Text(text) => Some((name, text, digits(name)?)),
        _ => None,
    })
    .find(|(_, text, digits)| text.len() != *digits || !text.bytes().all(is_digit))
    .map(|(name, text, _)| (name, text))
}

fn stop(error: Error, report: &mut Report, most: usize) -> Result<()> {
    if matches!(error.kind(), ErrorKind::Io(_) | ErrorKind::LimitExceeded { .. }) {
        return Err(error);
    }
    report.add(error.offset(), error.kind().to_string(), Basis::Format, most);
    Ok(())
}
