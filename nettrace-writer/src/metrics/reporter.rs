//! The thread that reports. It exists while somebody asks.

use std::time::{Duration, Instant};

use crate::{
    bridge::unique_number,
    flusher::OwnThread,
    metrics::{
        only_in::OnlyIn,
        state::{
            CHANGED, LockedState, MetricsState,
            arguments::{Arguments, InstrumentSelection, interval, pairs},
            events::PROVIDER,
            lock,
            report::{Report, ReportSelection},
            state,
        },
    },
    session::Session,
};

/// Time that [`Reporting::finish`] waits for the thread that reports.
const PATIENCE: Duration = Duration::from_secs(2);
/// The arguments of a report that a program asks for name it so.
const OWN: &str = "trace";

/// Writes the values of instruments into a session's trace, after each interval.
///
/// The events are those that .NET's meters have: provider `System.Diagnostics.Metrics`. So the
/// tools that show counters of .NET's traces show these, too. The session must record that
/// provider, which it does unless it has [filters](crate::SessionBuilder::provider).
///
/// ```
/// use std::time::Duration;
///
/// use nettrace_writer::{
///     Session,
///     metrics::{Counter, Meter, Reporter},
///     sink::MemorySink,
/// };
///
/// static SHOP: Meter = Meter::new("Contoso-Shop");
/// static ORDERS: Counter = Counter::new(&SHOP, "orders");
///
/// let session = Session::builder().sink(MemorySink::new()).start()?;
/// let reporting = Reporter::every(Duration::from_secs(1)).meter("Contoso-*").start(&session);
/// ORDERS.add(1);
/// // The values of the last interval, too.
/// reporting.finish();
/// session.finish()?;
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is written before `start`"]
pub struct Reporter {
    interval: Duration,
    meters: Vec<String>,
    max_series: usize,
}

impl Reporter {
    /// Reports after each interval of this length: at least 100 ms.
    pub fn every(interval: Duration) -> Self {
        let interval = interval.clamp(Duration::from_millis(100), Duration::from_secs(1 << 20));
        Self { interval, meters: Vec::new(), max_series: 10_000 }
    }

    /// Reports this meter. Call it once for each. A `*` at the end of the name stands for any rest,
    /// and `NAME\INSTRUMENT` for one instrument. The default is all meters.
    pub fn meter(mut self, name: impl Into<String>) -> Self {
        self.meters.push(name.into());
        self
    }

    /// Reports at most so many combinations of instruments and tags. The default is 10,000. If
    /// there are more, the trace says so once (`TimeSeriesLimitReached`).
    pub fn max_series(mut self, count: usize) -> Self {
        self.max_series = count;
        self
    }

    /// Begins to report, into this session alone. What is recorded from this call on is in the
    /// first interval.
    pub fn start(self, session: &Session) -> Reporting {
        let wanted: Vec<_> = match &*self.meters {
            [] => vec![InstrumentSelection::new("*")],
            meters => meters.iter().map(|name| InstrumentSelection::new(name)).collect(),
        };
        let arguments = Arguments {
            session: OWN.to_owned(),
            wanted,
            interval: self.interval,
            max_series: self.max_series,
            max_histograms: self.max_series,
            messages: Vec::new(),
            errors: Vec::new(),
        };
        start(session, [(ReportSelection::Meters(arguments), self.interval)])
    }
}

/// Reports of instruments into a session. They end when this is dropped, or with the session.
#[derive(Debug)]
#[must_use = "the reports end when this is dropped"]
pub struct Reporting {
    ids: Vec<u64>,
}

impl Reporting {
    /// Reports the interval that has begun, and ends. Call it before the session's own end.
    pub fn finish(mut self) {
        for id in std::mem::take(&mut self.ids) {
            if let Some(mut report) = take(id, PATIENCE) {
                report.work(Instant::now());
                report.collect(Instant::now());
            }
        }
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            drop(take(id, Duration::ZERO));
        }
    }
}

/// Reports into a session what a client asks for by the providers of that session, given by their
/// names and arguments. For a server that clients attach to, as `nettrace-diagnostics` is one.
pub fn attach<'a>(
    session: &Session,
    providers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Reporting {
    let (mut meters, mut counters) = (Vec::new(), Vec::new());
    for (name, arguments) in providers {
        if name.eq_ignore_ascii_case(PROVIDER) {
            let make = || format!("{:016x}", unique_number());
            meters.push(Arguments::read(arguments, make));
        }
        let seconds = pairs(arguments).remove("EventCounterIntervalSec");
        if let Some(interval) = seconds.and_then(|seconds| interval(&seconds)) {
            counters.push((name.to_owned(), interval));
        }
    }
    // A client that asks for both gets each value once.
    let except = meters.first().cloned();
    let mut reports: Vec<_> =
        meters.into_iter().map(|arguments| (arguments.interval, arguments)).collect();
    let mut all: Vec<_> = reports
        .drain(..)
        .map(|(interval, arguments)| (ReportSelection::Meters(arguments), interval))
        .collect();
    while let Some((_, interval)) = counters.first().cloned() {
        let (same, others) = counters.into_iter().partition(|(_, other)| *other == interval);
        counters = others;
        let same: Vec<(String, Duration)> = same;
        let meters = same.into_iter().map(|(name, _)| name).collect();
        all.push((ReportSelection::EventCounters { meters, except: except.clone() }, interval));
    }
    start(session, all)
}

fn start(
    session: &Session,
    reports: impl IntoIterator<Item = (ReportSelection, Duration)>,
) -> Reporting {
    let to = OnlyIn::new(session);
    let mut locked = lock();
    let state = state(&mut locked);
    let mut ids = Vec::new();
    for (what, interval) in reports {
        state.last_report += 1;
        let id = state.last_report;
        ids.push(id);
        let report = Report::new(state, id, to.clone(), what, interval);
        state.reports.push(report);
    }
    if !ids.is_empty() {
        CHANGED.notify_all();
        if !state.has_reporter {
            // Without a thread nothing is reported. A later report tries again.
            state.has_reporter = OwnThread::start(c"nettrace-metrics", run).is_ok();
        }
    }
    Reporting { ids }
}

/// Takes a report away from the thread. If the thread works at it, waits so long, and then tells
/// the thread to drop it.
fn take(id: u64, patience: Duration) -> Option<Report> {
    let deadline = Instant::now() + patience;
    let mut locked = lock();
    loop {
        let state = state(&mut locked);
        if let Some(index) = state.reports.iter().position(|report| report.id == id) {
            let report = state.reports.swap_remove(index);
            CHANGED.notify_all();
            return Some(report);
        }
        if state.busy != Some(id) {
            return None;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            state.stopped.push(id);
            return None;
        }
        locked = wait(locked, left);
    }
}

fn wait(locked: LockedState, longest: Duration) -> LockedState {
    CHANGED.wait_for(locked, longest)
}

/// Reports until there are no more reports. The work of the thread.
fn run() {
    let mut locked = lock();
    loop {
        let now = Instant::now();
        let state: &mut MetricsState = state(&mut locked);
        if let Some(mut report) = next(&mut state.reports, now, state.changes) {
            state.busy = Some(report.id);
            drop(locked);
            let is_live = report.work(now);
            locked = put_back(report, is_live);
            continue;
        }
        let Some(due) = state.reports.iter().filter_map(Report::due).min() else {
            // All reports have begun, so there is none.
            state.has_reporter = false;
            return;
        };
        locked = wait(locked, due.saturating_duration_since(now));
    }
}

/// Takes a report that has something to do. They take turns: what is put back comes last. So a
/// report is served even if others are due again each time that they have been.
fn next(reports: &mut Vec<Report>, now: Instant, changes: u64) -> Option<Report> {
    let index = reports.iter().position(|one| one.has_to_do(now, changes))?;
    Some(reports.remove(index))
}

fn put_back(report: Report, is_live: bool) -> LockedState {
    let mut locked = lock();
    let state = state(&mut locked);
    state.busy = None;
    let stopped = state.stopped.iter().position(|id| *id == report.id);
    match stopped {
        Some(index) => drop(state.stopped.swap_remove(index)),
        None if is_live => state.reports.push(report),
        None => {}
    }
    CHANGED.notify_all();
    locked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::MemorySink;

    #[test]
    fn reports_that_are_always_due_take_turns() {
        let session = Session::builder().sink(MemorySink::new()).start().unwrap();
        let to = OnlyIn::new(&session);
        let what = || ReportSelection::EventCounters { meters: Vec::new(), except: None };
        let report = |id| {
            Report::new(&MetricsState::default(), id, to.clone(), what(), Duration::from_secs(1))
        };
        let mut reports: Vec<_> = (1..=3).map(report).collect();
        let mut served = Vec::new();
        for _ in 0..6 {
            // None of them begins, so each is due.
            let report = next(&mut reports, Instant::now(), 0).unwrap();
            served.push(report.id);
            reports.push(report);
        }
        assert_eq!(served, [1, 2, 3, 1, 2, 3]);
        session.finish().unwrap();
    }
}
