//! Sampling of traces: the root of a tree of spans decides, and the tree follows.
//!
//! A span is a root if no span of this process is its parent. If it decides against its tree, it
//! puts a frame in force that says so ([`frames`](crate::context::frames)). Spans, contexts and
//! futures inherit that as they inherit the trace. Events need not ask: a thread whose innermost
//! frame is sampled out has no current buffer, so they take the path of events after a change of
//! labels, which asks.
//!
//! A span that is sampled out gets no id. In force are the ids of the caller, with the flag
//! "sampled" cleared, or those of a root without a caller. So `traceparent` names a span that
//! somebody may have recorded, and a service that records in spite of the flag has a parent for its
//! spans. Rejected: an id for each span, as OpenTelemetry makes it. It costs time, and nobody can
//! ever look it up.
//!
//! Events of level `Error` and above are recorded all the same, with the ids in force, because
//! whoever opens a trace looks for what went wrong: with one request in a hundred recorded, 99 of a
//! hundred errors would be missing. They are rare, or the program has another problem. Rejected: a
//! key of the event, because the author of a library does not know what is sampled. *Would change
//! our mind:* programs whose errors are most of their events.
//!
//! The decision is for all sessions and for the kernel. Rejected: one for each session, because
//! `traceparent` has one flag, and a tree would have another shape in each file.

use std::num::NonZeroU32;

use nettrace_event::trace_context::{TraceFlags, TraceId, TraceState};

use crate::{
    clock,
    sync::{AtomicU64, Ordering},
};

/// The random part of a trace id, and of a ratio, has this many bits.
const BITS: u32 = 56;

/// The caller does not decide.
const OWN: NonZeroU32 = NonZeroU32::MIN;
/// The caller decides, however often.
const UNBOUNDED: NonZeroU32 = NonZeroU32::MAX;
/// The caller decides, but never has anything recorded. More than this: so many times a second.
const NEVER: u32 = 2;

/// A second of the monotonic clock (upper half), and how many traces callers have had recorded in
/// it (lower half).
static OF_CALLERS: AtomicU64 = AtomicU64::new(0);

/// Which traces are recorded. The root of a tree of spans decides, and its tree follows: across
/// calls, futures, threads, [contexts](crate::Context), and through `traceparent` to the services
/// that are called.
///
/// ```
/// use nettrace_span::{Sampling, traced};
///
/// /// What the caller says; one in a hundred of the requests without a caller.
/// const REQUESTS: Sampling = Sampling::caller().or(Sampling::ratio(0.01));
///
/// #[traced(provider = "Contoso-Shop", sample = REQUESTS)]
/// fn check_out(cart: u64) {
///     // Spans and events in here are recorded if `check_out` is.
/// }
/// # check_out(1);
/// ```
///
/// A span is a root if its parent is none, or a span of another process. Inside of a tree, `sample`
/// has no meaning: the root has decided. A root that nobody listens to decides nothing.
///
/// Without `sample`, a root is recorded, and passes on what its caller says.
///
/// # What is left out
///
/// Spans and events in a tree that is sampled out are not recorded, in no session and no
/// tracepoint. `Stats::sampled_out` of `nettrace-writer` counts them. They are no losses:
/// they have no sequence numbers, and do not count as attempted.
///
/// Events of level [`Error`](crate::Level::Error), `Critical` and `LogAlways` are recorded in spite
/// of it. They carry the trace id, and the span id of the caller, or of the root, which is in no
/// trace.
///
/// # Who decides
///
/// The caller's flag, its trace id and its `tracestate` come from whoever sends a request. A server
/// at the edge must not let them decide. `ServerLayer` of nettrace-tower ignores callers unless it
/// is told to trust them. A trusted service may pass on what outsiders say.
/// [`at_most`](Self::at_most) bounds how many traces are recorded for flags alone.
///
/// # Ratios
///
/// A ratio looks at the last 56 bits of the trace id, as W3C Trace Context and OpenTelemetry have
/// it: of two services, the one with the larger ratio records every trace that the other one
/// records. If `tracestate` has OpenTelemetry's random value (`ot=rv:…`), that counts in place of
/// the trace id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// What the caller decides, if there is one: [`OWN`], [`UNBOUNDED`], or from [`NEVER`] on. In
    /// one word that is not 0, so that the whole stays in two registers, also if it is optional.
    callers: NonZeroU32,
    /// The least random number of a trace that is recorded: 0 for all, `1 << BITS` for none.
    least: u64,
}

impl Sampling {
    /// Records every trace, whatever the caller says.
    #[must_use]
    pub const fn always() -> Self {
        Self { callers: OWN, least: 0 }
    }

    /// Records no trace.
    #[must_use]
    pub const fn never() -> Self {
        Self { callers: OWN, least: 1 << BITS }
    }

    /// Records this part of all traces: 0.01 for one in a hundred. A number below 0 counts as 0,
    /// one above 1 as 1, and NaN as 0. The smallest part is 2^-56.
    ///
    /// ```
    /// use nettrace_span::Sampling;
    ///
    /// assert_eq!(Sampling::ratio(1.0), Sampling::always());
    /// assert_eq!(Sampling::ratio(0.0), Sampling::never());
    /// ```
    #[must_use]
    pub const fn ratio(ratio: f64) -> Self {
        const ALL: u64 = 1 << BITS;
        // The conversion saturates at 0, and takes NaN for 0.
        let kept = (ratio * ALL as f64) as u64;
        Self { callers: OWN, least: ALL.saturating_sub(kept) }
    }

    /// Records what the caller has recorded: traces whose `traceparent` has the flag "sampled".
    /// Traces that begin here are recorded, unless [`or`](Self::or) says otherwise.
    #[must_use]
    pub const fn caller() -> Self {
        Self { callers: UNBOUNDED, least: 0 }
    }

    /// For [`caller`](Self::caller): in each second, callers have at most so many traces recorded.
    /// All others are sampled out, whatever their flags say. The traces of one second are counted
    /// together for the whole process.
    ///
    /// ```
    /// use nettrace_span::Sampling;
    ///
    /// /// What callers say, up to 100 times a second; one in a hundred of other requests.
    /// const REQUESTS: Sampling = Sampling::caller().at_most(100).or(Sampling::ratio(0.01));
    /// ```
    #[must_use]
    pub const fn at_most(self, traces_a_second: u32) -> Self {
        match NonZeroU32::new(traces_a_second.saturating_add(NEVER)) {
            Some(callers) if self.follows_caller() => Self { callers, ..self },
            _ => self,
        }
    }

    /// For [`caller`](Self::caller): what decides if there is no caller.
    ///
    /// ```
    /// use nettrace_span::Sampling;
    ///
    /// let sampling = Sampling::caller().or(Sampling::ratio(0.01));
    /// assert_ne!(sampling, Sampling::caller());
    /// ```
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        if self.follows_caller() { Self { least: other.least, ..self } } else { self }
    }

    const fn follows_caller(self) -> bool {
        self.callers.get() != OWN.get()
    }

    /// Whether a trace is recorded. `caller` has the caller's flags and state.
    #[inline]
    pub(crate) fn keeps(
        self,
        trace: TraceId,
        caller: Option<(TraceFlags, Option<&TraceState>)>,
    ) -> bool {
        match caller {
            Some((flags, _)) if self.follows_caller() => {
                flags.is_sampled() && (self.callers == UNBOUNDED || has_room(self.callers))
            }
            _ => {
                let stated = caller.and_then(|(_, state)| stated_random(state?));
                stated.unwrap_or_else(|| random(trace)) >= self.least
            }
        }
    }
}

/// As [`always`](Self::always).
impl Default for Sampling {
    fn default() -> Self {
        Self::always()
    }
}

/// Whether callers may have one more trace recorded in this second. If so, it counts.
#[cold]
#[inline(never)]
fn has_room(callers: NonZeroU32) -> bool {
    let most = callers.get() - NEVER;
    let second = clock::monotonic() / 1_000_000_000;
    // Relaxed: the word is the whole state.
    let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
    OF_CALLERS.fetch_update(set, get, |word| one_more(word, second, most)).is_ok()
}

/// The word after one more trace. `None` if there are enough in this second.
fn one_more(word: u64, second: u64, most: u32) -> Option<u64> {
    // A thread that was interrupted may come with a second that is over.
    let begun = if second > word >> 32 { second << 32 } else { word };
    let count = begun as u32;
    (count < most).then_some(begun + 1)
}

/// The random part of a trace id.
fn random(trace: TraceId) -> u64 {
    let [.., a, b, c, d, e, f, g] = trace.to_bytes();
    u64::from_be_bytes([0, a, b, c, d, e, f, g])
}

/// OpenTelemetry's random value, of 14 digits.
fn stated_random(state: &TraceState) -> Option<u64> {
    let members = state.get("ot")?.split(';');
    let digits = members.filter_map(|member| member.strip_prefix("rv:")).next()?;
    let is_valid = digits.len() == 14
        && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_valid.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use nettrace_event::trace_context::{TraceFlags, TraceId, TraceState};

    use super::{BITS, Sampling, one_more};
    use crate::ids::Secret;

    fn trace(random: u64) -> TraceId {
        // The other bits must not count.
        TraceId::from_bytes((u128::MAX << BITS | u128::from(random)).to_be_bytes()).unwrap()
    }

    #[test]
    fn a_ratio_keeps_the_largest_random_numbers() {
        let last = (1 << BITS) - 1;
        let keeps = |sampling: Sampling, random| sampling.keeps(trace(random), None);
        for (ratio, least) in [
            (0.5, 1 << (BITS - 1)),
            (0.25, 3 << (BITS - 2)),
            (1.0 / 1024.0, last - (1 << (BITS - 10)) + 1),
            ((-56_f64).exp2(), last),
        ] {
            let sampling = Sampling::ratio(ratio);
            assert!(keeps(sampling, least) && keeps(sampling, last), "{ratio}");
            assert!(!keeps(sampling, least - 1) && !keeps(sampling, 0), "{ratio}");
        }
        for none in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY, (-57_f64).exp2()] {
            assert_eq!(Sampling::ratio(none), Sampling::never(), "{none}");
        }
        for all in [1.0, 2.0, f64::INFINITY] {
            assert_eq!(Sampling::ratio(all), Sampling::always(), "{all}");
        }
        assert!(keeps(Sampling::always(), 0) && !keeps(Sampling::never(), last));
    }

    #[test]
    fn a_ratio_is_that_of_the_ids_that_are_made_here() {
        const TRACES: u64 = 1 << 16;
        for ratio in [0.5, 0.1, 0.01] {
            let sampling = Sampling::ratio(ratio);
            let secret = Secret::get();
            let spans = (1..=TRACES).filter_map(|number| secret.span_id(number));
            let traces = spans.map(|span| secret.trace_id(span));
            let kept = traces.filter(|&trace| sampling.keeps(trace, None));
            let (kept, expected) = (kept.count() as f64, ratio * TRACES as f64);
            // Eight standard deviations: the secret differs from run to run.
            let most = 8.0 * (expected * (1.0 - ratio)).sqrt();
            assert!((kept - expected).abs() < most, "{kept} of {TRACES}, not {expected}");
        }
    }

    #[test]
    fn the_caller_decides_if_it_is_asked_and_there_is_one() {
        let (sampled, not) = (TraceFlags::SAMPLED, TraceFlags::RANDOM);
        let (low, high) = (trace(0), trace((1 << BITS) - 1));
        let follows = Sampling::caller().or(Sampling::ratio(0.5));
        assert!(follows.keeps(low, Some((sampled, None))));
        assert!(!follows.keeps(high, Some((not, None))));
        assert!(follows.keeps(high, None) && !follows.keeps(low, None));
        assert!(Sampling::caller().keeps(low, None));
        let own = Sampling::ratio(0.5).or(Sampling::never());
        assert!(own.keeps(high, Some((not, None))) && !own.keeps(low, Some((sampled, None))));
    }

    #[test]
    fn callers_have_a_bound_in_each_second() {
        let kept = |word: &mut u64, second| {
            let mut take = || one_more(*word, second, 3).map(|next| *word = next).is_some();
            (0..10).filter(|_| take()).count()
        };
        let mut word = 0;
        assert_eq!((kept(&mut word, 7), kept(&mut word, 7)), (3, 0));
        assert_eq!((kept(&mut word, 8), kept(&mut word, 7)), (3, 0), "one that is over");
        assert_eq!(one_more(word, 9, 0), None);
        // Those that are not recorded anyway do not count.
        let none = Sampling::caller().at_most(0);
        let sampled = Some((TraceFlags::SAMPLED, None));
        assert!(!none.keeps(trace(0), sampled) && none.keeps(trace(0), None));
        assert_eq!(Sampling::ratio(0.5).at_most(0), Sampling::ratio(0.5));
    }

    #[test]
    fn a_stated_random_value_counts_in_place_of_the_trace_id() {
        let half = Sampling::ratio(0.5);
        let keeps = |trace, state: &str| {
            let state = TraceState::from_headers([state]).unwrap();
            half.keeps(trace, Some((TraceFlags::NONE, Some(&state))))
        };
        let (low, high) = (trace(0), trace((1 << BITS) - 1));
        assert!(keeps(low, "a=b,ot=th:8;rv:80000000000000"));
        assert!(!keeps(high, "ot=rv:7fffffffffffff;th:8"));
        for invalid in
            ["ot=rv:800", "ot=rv:8000000000000G", "ot=rv:+0000000000000", "o=rv:8", "ot=th:8"]
        {
            assert!(!keeps(low, invalid) && keeps(high, invalid), "{invalid}");
        }
    }
}
