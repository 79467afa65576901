//! The last line of `dump` and `headers`: what the reference prints, but for the time it took.

use std::io::{self, Write};

use nettrace_reader::{Totals, Trace};

/// What is counted of the events that were delivered.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    events: u64,
    payload_bytes: u64,
    unsorted: u64,
    last: Option<u64>,
}

impl Delivered {
    pub(crate) fn count(&mut self, event: &nettrace_reader::Event<'_>) {
        self.events += 1;
        self.payload_bytes += event.payload.len() as u64;
        let timestamp = event.header.timestamp;
        if self.last.is_some_and(|last| timestamp < last) {
            self.unsorted += 1;
        }
        self.last = Some(timestamp);
    }

    /// `lost` is 32 bits wide and wraps, as in the reference.
    pub(crate) fn write(
        &self,
        trace: &Trace,
        totals: &Totals,
        started: std::time::Instant,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let Self { events, payload_bytes, unsorted, .. } = self;
        let cpus = trace.value("HardwareThreadCount").and_then(|n| n.parse().ok()).unwrap_or(0_i32);
        writeln!(
            out,
            "# events={events} lost={} payload_bytes={payload_bytes} unsorted={unsorted} ptr={} \
             cpus={cpus} start={} duration_ms={:.4} read_ms={}",
            totals.lost as i32,
            trace.pointer_size,
            trace.sync_time,
            self.duration(trace),
            started.elapsed().as_millis()
        )
    }

    /// Milliseconds from the start to the last event, cut to 100 ns; negative where there is no event.
    /// Computed step by step as the reference does it.
    fn duration(&self, trace: &Trace) -> f64 {
        let ticks = i128::from(self.last.unwrap_or(0)) - i128::from(trace.sync_ticks);
        (ticks as f64 * 1e7 / trace.ticks_per_second.max(1) as f64).trunc() / 1e4
    }
}
