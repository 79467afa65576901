//! Which span an event belongs to, and what it says of it.

use nettrace_context::{ActivityId, SpanId, TraceId};
use nettrace_reader::{Event, Label, Metadata};

/// The key-value of an event type whose events each stand for a whole span, and its value.
pub const SINGLE: (&str, &str) = ("nettrace.span", "single");

/// The fields that such a type begins with. Versions 4 and 5 have no key-values of types.
const SINGLE_FIELDS: [&str; 3] = ["started", "duration", "outcome"];

/// What identifies a span in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A span id, and the id of its trace if the format has it.
    Span(Option<TraceId>, SpanId),
    /// An activity id that holds no span id: an activity of .NET.
    Activity(ActivityId),
}

impl Key {
    fn of_activity(trace: Option<TraceId>, id: ActivityId) -> Self {
        id.span_id().map_or(Self::Activity(id), |span| Self::Span(trace, span))
    }
}

/// The ids of an event.
#[derive(Clone, Copy, Debug)]
pub struct Ids {
    /// The trace that the event belongs to.
    pub trace: Option<TraceId>,
    /// The span that the event belongs to.
    pub span: Key,
    /// The activity id by which children may name the span, if it says something else.
    pub alias: Option<Key>,
    /// The parent of the span, or another activity that the event is related to.
    pub related: Option<Key>,
}

impl Ids {
    /// `None` if the event belongs to no span.
    #[must_use]
    pub fn of(event: &Event<'_>) -> Option<Self> {
        let (mut trace, mut span, mut activity, mut related) = (None, None, None, None);
        for label in &*event.labels() {
            match label {
                Label::TraceId(id) => trace = TraceId::from_bytes(*id),
                Label::SpanId(id) => span = SpanId::from_u64(*id),
                Label::ActivityId(id) if *id != [0; 16] => activity = Some(*id),
                Label::RelatedActivityId(id) if *id != [0; 16] => related = Some(*id),
                _ => {}
            }
        }
        let key = |id| Key::of_activity(trace, ActivityId::from_bytes_le(id));
        let (span, activity) = (span.map(|id| Key::Span(trace, id)), activity.map(key));
        let own = span.or(activity)?;
        let alias = activity.filter(|activity| *activity != own);
        Some(Self { trace, span: own, alias, related: related.map(key) })
    }
}

/// What an event says of its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It begins the span.
    Start,
    /// It ends the span.
    Stop,
    /// It is the whole span.
    Single,
    /// It happened inside.
    Inside,
}

impl Role {
    /// `version` is the major version of the trace.
    #[must_use]
    pub fn of(event: &Event<'_>, version: u32) -> Self {
        let metadata = event.metadata();
        match event.opcode() {
            1 => return Self::Start,
            2 => return Self::Stop,
            0 => {}
            _ => return Self::Inside,
        }
        let is_single = if version >= 6 {
            metadata.key_values.iter().any(|(key, value)| (&**key, &**value) == SINGLE)
        } else {
            has_fields_of_single(metadata)
        };
        if is_single {
            return Self::Single;
        }
        match implied_opcode(metadata).filter(|_| version < 6) {
            Some(1) => Self::Start,
            Some(_) => Self::Stop,
            None => Self::Inside,
        }
    }
}

/// The opcode of a type of version 4 or 5 that states none, as readers take it from the name: 1 if
/// it ends with "Start", 2 if it ends with "Stop", in capital or small letters.
#[must_use]
pub fn implied_opcode(metadata: &Metadata) -> Option<u8> {
    let name = metadata.name.as_bytes();
    let ends = |word: &str| {
        let at = name.len().checked_sub(word.len());
        at.is_some_and(|at| name[at..].eq_ignore_ascii_case(word.as_bytes()))
    };
    match metadata.opcode {
        None if ends("Start") => Some(1),
        None if ends("Stop") => Some(2),
        _ => None,
    }
}

/// Whether a type of version 4 or 5 has the fields of one whose events each stand for a whole span.
#[must_use]
pub fn has_fields_of_single(metadata: &Metadata) -> bool {
    let names = metadata.fields.iter().map(|field| &*field.name).take(SINGLE_FIELDS.len());
    names.eq(SINGLE_FIELDS)
}

/// The name of a span: that of its events without `Start` or `Stop`, unless nothing else is left.
#[must_use]
pub fn span_name(name: &str) -> &str {
    for word in ["Start", "Stop"] {
        let Some(at) = name.len().checked_sub(word.len()).filter(|at| *at > 0) else { continue };
        let is_end = name.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(word));
        let rest = name[..if is_end { at } else { 0 }].trim_end_matches('/');
        if !rest.is_empty() {
            return rest;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use nettrace_reader::Metadata;

    use super::{implied_opcode, span_name};

    #[test]
    fn opcodes_of_names() {
        for (name, stated, implied) in [
            ("WorkStart", None, Some(1)),
            ("work_stop", None, Some(2)),
            ("RESTART", None, Some(1)),
            ("Start", None, Some(1)),
            ("WorkStart", Some(0), None),
            ("Restarted", None, None),
            ("ésto", None, None),
            ("", None, None),
        ] {
            let metadata = Metadata { name: name.into(), opcode: stated, ..Metadata::default() };
            assert_eq!(implied_opcode(&metadata), implied, "{name}");
        }
    }

    #[test]
    fn names_of_spans() {
        for (name, span) in [
            ("WorkStart", "Work"),
            ("WorkStop", "Work"),
            ("work/start", "work"),
            ("Start", "Start"),
            ("/Stop", "/Stop"),
            ("Restarted", "Restarted"),
            ("éStop", "é"),
            ("ééé", "ééé"),
            ("", ""),
        ] {
            assert_eq!(span_name(name), span, "{name}");
        }
    }
}
