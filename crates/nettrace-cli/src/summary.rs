//! The summary that `dump` and `headers` write to standard error after the last event.

use std::{fmt, io, time::Instant};

use nettrace_reader::{Event, Totals, Trace};

use nettrace_views::model::Clock;

use crate::{filter::FilterOptions, standard_error::say};

/// How far a trace was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    End,
    /// As many events were shown as `--head` asks for.
    Head,
}

/// The counts of the summary.
#[derive(Debug)]
pub(crate) struct Summary {
    started: Instant,
    events: u64,
    shown: u64,
    payload_bytes: u64,
    payload_errors: u64,
    unsorted: u64,
    last: Option<u64>,
    pub(crate) reach: Reach,
}

impl Summary {
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            events: 0,
            shown: 0,
            payload_bytes: 0,
            payload_errors: 0,
            unsorted: 0,
            last: None,
            reach: Reach::End,
        }
    }

    /// Counts an event, whether it is shown or not.
    pub(crate) fn count(&mut self, event: &Event<'_>) {
        self.events += 1;
        self.payload_bytes += event.payload.len() as u64;
        let timestamp = event.header.timestamp;
        if self.last.is_some_and(|last| timestamp < last) {
            self.unsorted += 1;
        }
        self.last = Some(timestamp);
    }

    /// Counts an event that passed the filters.
    pub(crate) fn count_shown(&mut self, has_payload_error: bool) {
        self.shown += 1;
        self.payload_errors += u64::from(has_payload_error);
    }

    /// The number of events that passed the filters.
    pub(crate) fn shown(&self) -> u64 {
        self.shown
    }

    /// Writes one line of `key=value`.
    pub(crate) fn write(
        &self,
        options: &FilterOptions,
        trace: &Trace,
        totals: &Totals,
        clock: Clock,
    ) -> io::Result<()> {
        let Self { events, payload_bytes, unsorted, payload_errors, .. } = self;
        let printed = PrintedCount::of(self.shown, options);
        let since_start = self.last.and_then(|last| clock.exactly(last)).unwrap_or(0);
        say(Some(format_args!(
            "# events={events} shown={} lost={} payload_bytes={payload_bytes} \
             payload_errors={payload_errors} unsorted={unsorted} pointer_bytes={} start={} \
             last_event_ns={since_start} read_ms={}{}{printed}",
            printed.count,
            totals.lost,
            trace.pointer_size,
            trace.sync_time,
            self.started.elapsed().as_millis(),
            if self.reach == Reach::Head { " (not read to the end: --head)" } else { "" },
        )))
    }
}

/// The number of events printed of those that passed the filters. `Display` writes what `--tail`
/// left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrintedCount {
    pub(crate) count: u64,
    passed: u64,
}

impl PrintedCount {
    pub(crate) fn of(passed: u64, options: &FilterOptions) -> Self {
        let most = options.tail.map_or(u64::MAX, |tail| tail as u64);
        Self { count: passed.min(most), passed }
    }
}

impl fmt::Display for PrintedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == self.passed {
            return Ok(());
        }
        write!(f, " (the last {} of {}: --tail)", self.count, self.passed)
    }
}
