//! Filters: which events to show.
//!
//! An event is shown if it passes every filter. An option that is given several times accepts any
//! of its values, except `--where`, whose conditions must all hold. Each filter counts the events
//! that pass it. If no event is shown, [`Filter::report`] states which filter no event passed, and
//! some of the values that it met.

mod condition;
mod expression;
mod options;

use std::{collections::BTreeSet, fmt, io};

use nettrace_format::spelling::{nearest, nearest_field};
use nettrace_reader::Event;
use nettrace_views::{
    model::{Clock, EndFields, Ids, Role, SpanRecord, is_failure, role_of},
    text::{VERBOSE, is_trace_level},
};

use crate::{
    failure::Failure,
    spelling::{self, LevelBound},
    suggestions,
};

pub(crate) use self::{
    condition::{Condition, Outcome, Scalar},
    options::{Bound, EventFilter, FilterOptions, FilterWithUntil, Pattern, ThreadPattern},
};

/// The filters of a command, with their counts.
#[derive(Debug)]
pub(crate) struct Filter {
    providers: Option<(Vec<Pattern>, FilterStage)>,
    events: Option<(Vec<Pattern>, FilterStage)>,
    threads: Option<(Vec<ThreadPattern>, FilterStage)>,
    clock: Clock,
    /// The accepted times, in nanoseconds since the start of the trace.
    times: Option<(i128, i128, FilterStage)>,
    level: Option<(LevelBound, FilterStage)>,
    conditions: Vec<(Condition, FilterStage)>,
    texts: Option<(Vec<String>, FilterStage)>,
    /// The text of the current event.
    text: Vec<u8>,
    /// The number of tested events.
    seen: u64,
}

/// What is known of a span without a field: a condition can be on it.
pub(crate) const SPAN_FACTS: [&str; 3] = ["duration", "outcome", "span"];

/// A span, of which a condition can ask what no field says.
pub(crate) struct SpanFacts<'a> {
    pub(crate) record: &'a SpanRecord,
    /// `None` if neither its start nor its end is in the trace.
    pub(crate) name: Option<&'a str>,
    /// The time of the last event, until which a span without an end lasts.
    pub(crate) last: i64,
}

impl SpanFacts<'_> {
    /// Tests a condition on one of [`SPAN_FACTS`].
    fn test(&self, condition: &Condition) -> Outcome {
        let Self { record, name, last } = self;
        let fact = match condition.field() {
            "duration" => {
                let length = record.duration().or(record.at_least(*last));
                length.map(|nanos| Scalar::Integer(nanos.into()))
            }
            "outcome" => record.outcome.as_deref().map(|outcome| Scalar::Text(outcome.into())),
            "span" => name.map(|name| Scalar::Text(name.into())),
            _ => None,
        };
        condition.test_scalars(fact.into_iter())
    }
}

/// What events say of the filters: a bit for each condition that holds, or fails, on one of them.
/// A condition on a field that they do not have does neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    holds: u64,
    fails: u64,
}

impl Verdict {
    /// One of the events passes all filters but the conditions and the texts.
    const PASSED: u64 = 1;
    /// One of them has one of the texts.
    const TEXT: u64 = 2;
    /// How many conditions have a bit.
    const CONDITIONS: usize = 62;

    fn conditions() -> impl Iterator<Item = u64> {
        (0..Self::CONDITIONS).map(|place| 4 << place)
    }

    /// Whether an event has passed anything.
    pub(crate) fn is_nothing(self) -> bool {
        self.holds == 0
    }

    /// Adds what another event says.
    pub(crate) fn add(&mut self, other: Self) {
        self.holds |= other.holds;
        self.fails |= other.fails;
    }
}

/// The counts of one filter.
#[derive(Debug, Default)]
struct FilterStage {
    passed: u64,
    /// Some of the values that did not pass. For a condition: some of the names of the fields and
    /// labels that events without the field have.
    others: BTreeSet<String>,
    /// For a condition: whether any event has the field.
    is_field_known: bool,
}

/// How many values that did not pass are remembered, to know which one was meant.
const MOST_OTHERS: usize = 1000;

impl Filter {
    /// The filters of a command, for a trace with this clock.
    pub(crate) fn new(options: &EventFilter, clock: Clock) -> Result<Self, Failure> {
        fn stage<T: Clone>(values: &[T]) -> Option<(Vec<T>, FilterStage)> {
            (!values.is_empty()).then(|| (values.to_vec(), FilterStage::default()))
        }
        let times = match (&options.from, &options.to) {
            (None, None) => None,
            (from, to) => {
                if !clock.is_known() {
                    return Err(Failure::NoTimes);
                }
                let at = |bound: &Option<Bound>, otherwise| match bound {
                    None => Ok(otherwise),
                    Some(Bound::SinceStart(nanos)) => Ok(*nanos),
                    Some(Bound::Time(nanos)) => {
                        clock.start().map(|start| nanos - start).ok_or(Failure::NoWallClock)
                    }
                };
                Some((at(from, i128::MIN)?, at(to, i128::MAX)?, FilterStage::default()))
            }
        };
        Ok(Self {
            providers: stage(&options.provider),
            events: stage(&options.event),
            threads: stage(&options.thread),
            clock,
            times,
            level: options.level.map(|level| (level, FilterStage::default())),
            conditions: stage(&options.conditions).map_or_else(Vec::new, |(conditions, _)| {
                conditions.into_iter().map(|it| (it, FilterStage::default())).collect()
            }),
            texts: stage(&options.grep),
            text: Vec::new(),
            seen: 0,
        })
    }

    /// Whether an event passes all filters but the conditions, which need its fields.
    #[inline]
    pub(crate) fn passes(&mut self, event: &Event<'_>) -> bool {
        self.seen += 1;
        if let Some((patterns, stage)) = &mut self.providers {
            let name = &*event.metadata().provider;
            let matches = patterns.iter().any(|pattern| pattern.matches_in_any_case(name));
            if !stage.passes(matches, name) {
                return false;
            }
        }
        if let Some((patterns, stage)) = &mut self.events {
            let name = spelling::event_name(event.metadata());
            let matches = patterns.iter().any(|pattern| pattern.matches(&name));
            if !stage.passes(matches, &name) {
                return false;
            }
        }
        if let Some((patterns, stage)) = &mut self.threads {
            if !stage.passes(patterns.iter().any(|it| it.matches(event.thread())), "") {
                return false;
            }
        }
        if let Some((from, to, stage)) = &mut self.times {
            let time = self.clock.exactly(event.header.timestamp);
            let matches = time.is_some_and(|time| (*from..=*to).contains(&time));
            if !stage.passes(matches, "") {
                return false;
            }
        }
        if let Some((bound, stage)) = &mut self.level {
            if !stage.passes(is_as_severe(event, *bound), "") {
                return false;
            }
        }
        true
    }

    /// Whether an event passes the conditions. `test` evaluates one. `names` passes the names of
    /// the event's fields and labels to a function.
    #[inline]
    pub(crate) fn passes_conditions(
        &mut self,
        test: impl Fn(&Condition) -> Outcome,
        names: impl Fn(&mut dyn FnMut(&str)),
    ) -> bool {
        self.conditions.iter_mut().all(|(condition, stage)| {
            let outcome = test(condition);
            stage.is_field_known |= outcome != Outcome::Absent;
            if outcome == Outcome::Holds {
                stage.passed += 1;
            } else if !stage.is_field_known {
                names(&mut |name| stage.meet(name));
            }
            outcome == Outcome::Holds
        })
    }

    /// Which of the filters an event passes. Of a span, several events tell:
    /// [`Filter::accepts`] decides on what they say together.
    pub(crate) fn judge(
        &mut self,
        event: &Event<'_>,
        test: impl Fn(&Condition) -> Outcome,
        names: impl Fn(&mut dyn FnMut(&str)),
        write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<Verdict> {
        let mut verdict = Verdict::default();
        if !self.passes(event) {
            return Ok(verdict);
        }
        verdict.holds = Verdict::PASSED;
        for ((condition, stage), bit) in self.conditions.iter_mut().zip(Verdict::conditions()) {
            let outcome = test(condition);
            let is_fact = SPAN_FACTS.contains(&condition.field());
            stage.is_field_known |= outcome != Outcome::Absent || is_fact;
            match outcome {
                Outcome::Holds => {
                    stage.passed += 1;
                    verdict.holds |= bit;
                }
                Outcome::Fails => verdict.fails |= bit,
                Outcome::Absent if !stage.is_field_known => names(&mut |name| stage.meet(name)),
                Outcome::Absent => {}
            }
        }
        if self.passes_text(write)? {
            verdict.holds |= Verdict::TEXT;
        }
        Ok(verdict)
    }

    /// Whether what was judged passes all filters: a span, or an event by itself. A condition on a
    /// field that no event has is on what is known of the span.
    pub(crate) fn accepts(&self, verdict: Verdict, span: Option<&SpanFacts<'_>>) -> bool {
        let both = Verdict::PASSED | Verdict::TEXT;
        let mut conditions = self.conditions.iter().zip(Verdict::conditions());
        verdict.holds & both == both
            && conditions.all(|((condition, _), bit)| match verdict.fails & bit != 0 {
                true => verdict.holds & bit != 0 && !condition.is_negative(),
                false => {
                    let fact = || span.map(|span| span.test(condition));
                    verdict.holds & bit != 0 || fact() == Some(Outcome::Holds)
                }
            })
    }

    /// Whether there are more conditions than [`Filter::judge`] has room for.
    pub(crate) fn has_too_many_conditions(&self) -> bool {
        self.conditions.len() > Verdict::CONDITIONS
    }

    /// Whether an event has one of the texts. `write` writes what is shown of it.
    #[inline]
    pub(crate) fn passes_text(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<bool> {
        let Some((texts, stage)) = &mut self.texts else { return Ok(true) };
        self.text.clear();
        write(&mut self.text)?;
        let shown = String::from_utf8_lossy(&self.text);
        Ok(stage.passes(texts.iter().any(|text| shown.contains(&**text)), ""))
    }

    /// Why no event was shown. `None` without filters, and without events.
    pub(crate) fn report(&self, options: &EventFilter) -> Option<String> {
        let seen = self.seen;
        if seen == 0 {
            return None;
        }
        let none = |before, what: fmt::Arguments<'_>| {
            let of_these = if before == seen { "" } else { " that the other filters let through" };
            Some(format!("no event was shown: of {before} events{of_these}, none {what}"))
        };
        let mut before = seen;
        for (filter, what) in [(&self.providers, "provider"), (&self.events, "event")] {
            let Some((patterns, stage)) = filter else { continue };
            if stage.passed == 0 {
                let others = || stage.others.iter().map(|it| &**it);
                let hinted = patterns.iter().map(Pattern::to_string).map(|pattern| {
                    let hint = suggestions::hint(nearest(&pattern, others()));
                    pattern + &hint
                });
                let (patterns, others) = (list(hinted), stage.list_others());
                return none(before, format_args!("is of {what} {patterns}; there are {others}"));
            }
            before = stage.passed;
        }
        if let Some((_, stage)) = &self.threads {
            if stage.passed == 0 {
                let threads = list(&options.thread);
                let hint = "give an id, #INDEX or a name; `nettrace info` lists the threads";
                return none(before, format_args!("is of thread {threads}: {hint}"));
            }
            before = stage.passed;
        }
        if let Some((_, _, stage)) = &self.times {
            if stage.passed == 0 {
                let hint = "`nettrace info` shows the times of the first and the last event";
                return none(before, format_args!("is between --from and --to: {hint}"));
            }
            before = stage.passed;
        }
        if let Some((level, stage)) = &self.level {
            if stage.passed == 0 {
                return none(before, format_args!("has level {level} or a more severe one"));
            }
            before = stage.passed;
        }
        for (condition, stage) in &self.conditions {
            if stage.passed == 0 {
                if stage.is_field_known {
                    return none(before, format_args!("has {condition}"));
                }
                let field = condition.field();
                let others = stage.others.iter().map(|it| &**it);
                let hint = suggestions::hint(nearest_field(field, others));
                let there_are = match stage.list_others() {
                    others if others.is_empty() => String::new(),
                    others => format!("; there are {others}"),
                };
                return none(
                    before,
                    format_args!("has a field or label named {field}{hint}{there_are}"),
                );
            }
            before = stage.passed;
        }
        if let Some((texts, stage)) = &self.texts {
            if stage.passed == 0 {
                let texts = list(texts.iter().map(|text| format!("{text:?}")));
                return none(before, format_args!("contains the text {texts}"));
            }
        }
        None
    }
}

/// Whether an event has a level. A span that failed counts as an error, and another span is none,
/// whatever its level.
fn is_as_severe(event: &Event<'_>, bound: LevelBound) -> bool {
    const ERROR: u8 = 2;
    const WARNING: u8 = 3;

    let level = event.level();
    let has_level = level <= bound.most;
    if bound.most > WARNING {
        return has_level
            && (bound.has_trace || level != VERBOSE || !is_trace_level(event.metadata()));
    }
    let metadata = event.metadata();
    let opcode = Some(event.opcode()).filter(|opcode| *opcode != 0);
    let role = role_of(metadata, opcode, 6);
    if !role.is_edge() || Ids::of(&event.labels()).span.is_none() {
        return has_level;
    }
    let outcome = if role == Role::Start { None } else { EndFields::of(metadata).stated(event).1 };
    outcome.is_some_and(|outcome| is_failure(&outcome)) && bound.most >= ERROR
}

impl FilterStage {
    #[inline]
    fn passes(&mut self, passes: bool, name: &str) -> bool {
        if passes {
            self.passed += 1;
        } else if self.passed == 0 {
            self.meet(name);
        }
        passes
    }

    /// Remembers a name, unless there are enough.
    fn meet(&mut self, name: &str) {
        if self.others.len() < MOST_OTHERS && !self.others.contains(name) {
            self.others.insert(name.to_owned());
        }
    }

    /// The values that did not pass, as a list.
    fn list_others(&self) -> String {
        suggestions::some_of(self.others.iter().map(|it| &**it))
    }
}

fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    for item in items {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&item.to_string());
    }
    text
}
