//! What a writer promises, checked.

use std::{fmt, io};

use crate::{
    error::{Error, ErrorKind, Result},
    heph::reader::Options,
};

/// A promise that a trace breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Bytes from the start of the trace to the place at fault.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

/// What [`verify`] found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The first violations, in the order of the trace.
    pub violations: Vec<Violation>,
    /// How many there are in all.
    pub count: u64,
    /// Events.
    pub events: u64,
    /// Numbers that the counters of streams left out. That is no violation: a writer says so.
    pub lost: u64,
    /// Packets of both kinds.
    pub packets: u64,
    /// Bytes up to the end, or to the place where reading stopped.
    pub bytes: u64,
}

impl Report {
    /// Whether the trace keeps every promise.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, offset: u64, what: String, most: usize) {
        self.count += 1;
        if self.violations.len() < most {
            self.violations.push(Violation { offset, what });
        }
    }
}

/// Reads a trace to its end and checks that packets are whole, that descriptions and attributes can
/// be read, that no event ends before it starts, that the numbers of a stream never go back, and
/// that no two epochs contradict each other. The report holds the first `most` violations.
///
/// # Errors
/// [`ErrorKind::Io`] and [`ErrorKind::LimitExceeded`]: then nothing is known. Everything else is a
/// violation.
pub fn verify<R: io::Read>(source: R, options: Options, most: usize) -> Result<Report> {
    let mut reader = options.open(source);
    let mut report = Report::default();
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
        if event.end < event.start {
            let what = format!("event {counter} of stream {stream} ends before it starts");
            report.add(offset, what, most);
        }
        if let Some(error) = event.attributes().find_map(Result::err) {
            stop(error, &mut report, most)?;
        }
        if reader.totals().step_backs > before {
            let what = format!("event {counter} of stream {stream} comes after a later one");
            report.add(offset, what, most);
        }
    }
    if let Some(offset) = reader.epochs_differ() {
        report.add(offset, "the epoch is not the one that was set before".to_owned(), most);
    }
    let totals = reader.totals();
    (report.events, report.lost) = (totals.events, totals.lost);
    (report.packets, report.bytes) = (totals.packets, reader.offset());
    Ok(report)
}

fn stop(error: Error, report: &mut Report, most: usize) -> Result<()> {
    if matches!(error.kind(), ErrorKind::Io(_) | ErrorKind::LimitExceeded { .. }) {
        return Err(error);
    }
    report.add(error.offset(), error.kind().to_string(), most);
    Ok(())
}
