//! Profiles: how long spans took, and what the samples say. Targets for profilers are [`Profile`]s.
//! They have neither events without duration nor fields.

use nettrace_reader::{Thread, Trace, Value};

use crate::{
    LeftOut,
    viewers::{
        spans::{Begin, Draw, Flows, Place},
        stacks::{Sampled, Samples},
        timeline::{CounterValue, Form, Moment, Relieve},
        values::Details,
    },
};

/// The time between two samples of a thread, in nanoseconds, if the trace states it.
pub(crate) fn interval(trace: &Trace) -> Option<u64> {
    let rate = trace.value("ExpectedCPUSamplingRate")?.parse().ok()?;
    (rate > 0).then_some(rate)
}

/// The collected spans and samples of a target.
pub(crate) trait Profile {
    /// Whether all samples can be taken before the end.
    const TAKES_SAMPLES_EARLY: bool;

    /// A thread has got a number.
    fn thread(&mut self, _: usize, _: Sampled) {}

    /// A span that has ended.
    fn span(&mut self, place: Place, span: &Begin, end: i64);

    fn samples(&mut self, samples: &Samples);

    /// Whether the stacks of events that are no samples are counted.
    fn wants_stacks(&self, _: &Samples) -> bool {
        false
    }

    /// How many events are in the result by their stacks.
    fn events(&self) -> u64 {
        0
    }

    /// Writes everything, and calls `relieve` now and then if it is much.
    fn write(&mut self, out: &mut Vec<u8>, relieve: Relieve<'_>);

    fn left_out(&self, left_out: &mut LeftOut);
}

/// A profile as a form of a line of time.
#[derive(Debug)]
pub(crate) struct Profiler<P> {
    profile: P,
    moments: u64,
    values: u64,
    unended: u64,
}

impl<P: Profile> Profiler<P> {
    pub(crate) fn new(profile: P) -> Self {
        Self { profile, moments: 0, values: 0, unended: 0 }
    }
}

/// No details.
#[derive(Debug)]
pub(crate) enum Nothing {}

impl Details for Nothing {
    const IS_ANY: bool = false;

    fn plain_key(_: &str) -> Vec<u8> {
        Vec::new()
    }

    fn text(_: &mut Vec<u8>, _: &[u8], _: &str) {}
    fn unsigned(_: &mut Vec<u8>, _: &[u8], _: u64) {}
    fn signed(_: &mut Vec<u8>, _: &[u8], _: i64) {}
    fn addresses(_: &mut Vec<u8>, _: &[u8], _: impl Iterator<Item = u64>) {}
    fn value(_: &mut Vec<u8>, _: &[u8], _: &Value<'_>) {}
}

impl<P: Profile> Draw for Profiler<P> {
    fn own_track(&mut self, _: &Begin, _: Option<i64>, _: &mut Vec<u8>) -> Place {
        Place::Own(0)
    }

    fn begin(
        &mut self,
        place: Place,
        span: &Begin,
        _: Flows<'_>,
        end: Option<(i64, &[u8])>,
        _: &mut Vec<u8>,
    ) {
        match end {
            Some((end, _)) => self.profile.span(place, span, end),
            None => self.unended += 1,
        }
    }

    fn end(&mut self, _: Place, _: i64, _: &[u8], _: &mut Vec<u8>) {}

    fn instant(&mut self, _: &Begin, _: &mut Vec<u8>) {}
}

impl<P: Profile> Form for Profiler<P> {
    type Details = Nothing;

    fn has_samples_of(_: Option<u64>, _: Option<u64>) -> bool {
        true
    }

    fn bounded(at: i64) -> i64 {
        // So that differences and sums do not exceed 64 bits.
        at.clamp(-(1 << 61), 1 << 61)
    }

    fn key(&mut self, _: &str, _: &mut Vec<u8>) -> Vec<u8> {
        Vec::new()
    }

    fn name(&mut self, provider: &str, name: &str, _: &mut Vec<u8>) -> Vec<u8> {
        // Two providers can have spans of the same name.
        [provider.as_bytes(), b"\0", name.as_bytes()].concat()
    }

    fn thread(&mut self, number: usize, process: Option<u64>, thread: &Thread, _: &mut Vec<u8>) {
        self.profile.thread(number, Sampled::of(thread, process));
    }

    fn moment(&mut self, _: &Moment<'_>, _: &mut Vec<u8>) {
        self.moments += 1;
    }

    fn lost(&mut self, _: Option<usize>, _: i64, _: u64, _: &mut Vec<u8>) {}

    fn counter(&mut self, _: Option<u64>, _: &CounterValue, _: i64, _: &mut Vec<u8>) {
        self.values += 1;
    }

    const HAS_WAITS: bool = true;

    fn wants_stacks(&self, samples: &Samples) -> bool {
        self.profile.wants_stacks(samples)
    }

    fn samples(&mut self, samples: &Samples, _: &mut Vec<u8>) {
        self.profile.samples(samples);
    }

    fn takes_samples_early(&self) -> bool {
        P::TAKES_SAMPLES_EARLY
    }

    fn close(&mut self, out: &mut Vec<u8>, relieve: Relieve<'_>) {
        self.profile.write(out, relieve);
    }

    fn left_out(&self, left_out: &mut LeftOut) {
        let moments = self.moments.saturating_sub(self.profile.events());
        left_out.add(moments, "events that are neither spans nor samples");
        left_out.add(self.values, "values of counters");
        left_out.add(self.unended, "spans that have not ended");
        self.profile.left_out(left_out);
    }
}
