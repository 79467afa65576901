//! An event type's statements: names, its place in the source code, and how the ends of its spans
//! are described.

use std::borrow::Cow;

use nettrace_event::{Outcome, role};
use nettrace_reader::{Event, Metadata, Value};

use crate::model::SpanWork;

/// The fields with which a type begins whose events each stand for a whole span.
const SINGLE_FIELDS: [&str; 3] = ["started", "duration", "outcome"];

/// Whether a type has the fields of one whose events each stand for a whole span. Versions 4 and 5
/// have no key-values that say so.
#[must_use]
pub fn has_fields_of_single(metadata: &Metadata) -> bool {
    let names = metadata.fields.iter().map(|field| &*field.name).take(SINGLE_FIELDS.len());
    names.eq(SINGLE_FIELDS)
}

/// The name of an event type. A type without a name is named by its id, as in .NET's tools.
#[must_use]
pub fn event_name(metadata: &Metadata) -> Cow<'_, str> {
    match &*metadata.name {
        "" => Cow::Owned(format!("EventID({})", metadata.event_id)),
        name => Cow::Borrowed(name),
    }
}

/// What a thread was observed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    /// It was on a processor: a sample.
    Running,
    /// It goes on after it was switched out: a context switch. Its stack is where it waited.
    Waiting,
}

impl Observed {
    /// What events of a type say: those of .NET's sampler and those of the provider that the
    /// format's authors reserve for all platforms.
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        match (&*metadata.provider, &*metadata.name) {
            // The only event of this provider. Versions 4 and 5 have no name for it.
            ("Microsoft-DotNETCore-SampleProfiler", _) if metadata.event_id == 0 => {
                Some(Self::Running)
            }
            ("Universal.Events", "cpu") => Some(Self::Running),
            ("Universal.Events", "cswitch") => Some(Self::Waiting),
            _ => None,
        }
    }
}

/// Where a type is in the source code: module, file and line, if the trace says so.
#[must_use]
pub fn place(metadata: &Metadata) -> Option<String> {
    let value = |key| metadata.value(key);
    let at = match (value("file"), value("line")) {
        (Some(file), Some(line)) => Some(format!("{file}:{line}")),
        (file, _) => file.map(str::to_owned),
    };
    match (value("module"), at) {
        (Some(module), Some(at)) => Some(format!("{module}, {at}")),
        (module, at) => module.map(str::to_owned).or(at),
    }
}

/// The target of events of `tracing` or `log` that are called after it, because they have no name
/// of their own.
#[must_use]
pub fn target_as_name(metadata: &Metadata) -> Option<&str> {
    metadata.value("target").filter(|target| *target == metadata.name)
}

/// The name of the span of which events of a type tell fields that became known later. Those of
/// `tracing` do, and are called after their span: `checkoutRecord`.
#[must_use]
pub fn span_of_record(metadata: &Metadata) -> Option<&str> {
    let is_record = metadata.opcode.is_none_or(|opcode| opcode == 0);
    role::span_of_record(&metadata.name).filter(|_| is_record)
}

/// Whether an outcome says that a span did not come to its results.
pub(crate) fn is_given_up(outcome: &str) -> bool {
    Outcome::parse(outcome.chars()).is_some_and(Outcome::has_no_result)
}

/// Whether an outcome says that a span failed.
#[must_use]
pub fn is_failure(outcome: &str) -> bool {
    Outcome::parse(outcome.chars()).is_some_and(Outcome::is_failure)
}

/// Which fields of a type describe the end of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndFields {
    /// How long the span took, in nanoseconds.
    pub duration: Option<usize>,
    /// How it ended: a text.
    pub outcome: Option<usize>,
    /// How often it was polled.
    pub polls: Option<usize>,
    /// How long it was on a processor, in nanoseconds.
    pub busy: Option<usize>,
}

impl EndFields {
    /// The fields of a type.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let position = |name| metadata.fields.iter().position(|field| field.name == name);
        Self {
            duration: position("duration"),
            outcome: position("outcome"),
            polls: position("polls"),
            busy: position("busy"),
        }
    }

    /// Whether a field is one of these.
    #[must_use]
    pub fn has(&self, field: usize) -> bool {
        [self.duration, self.outcome, self.polls, self.busy].contains(&Some(field))
    }

    /// The nanoseconds on a processor, and the polls, that an event states.
    #[must_use]
    pub fn work(&self, event: &Event<'_>) -> SpanWork {
        let mut work = SpanWork::default();
        let Some(last) = self.busy.max(self.polls) else { return work };
        for (index, field) in event.fields().enumerate().take(last + 1) {
            let number = match field {
                Ok((_, Value::U64(number))) => number,
                Ok((_, Value::U32(number))) => number.into(),
                _ => continue,
            };
            match Some(index) {
                at if at == self.busy => work.busy = Some(number),
                at if at == self.polls => work.polls = Some(number),
                _ => {}
            }
        }
        work
    }

    /// The duration and the outcome that an event states.
    #[must_use]
    pub fn stated<'a>(&self, event: &Event<'a>) -> (Option<i64>, Option<Cow<'a, str>>) {
        let mut stated = (None, None);
        let Some(last) = self.duration.max(self.outcome) else { return stated };
        for (index, field) in event.fields().enumerate().take(last + 1) {
            let Ok((_, value)) = field else { continue };
            match value {
                Value::U64(nanos) if self.duration == Some(index) => {
                    stated.0 = Some(nanos.try_into().unwrap_or(i64::MAX));
                }
                Value::I64(nanos) if self.duration == Some(index) => stated.0 = Some(nanos.max(0)),
                Value::Text(text) if self.outcome == Some(index) && !text.is_empty() => {
                    stated.1 = Some(text);
                }
                _ => {}
            }
        }
        stated
    }
}
