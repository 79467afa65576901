//! The span that an event belongs to, and its part in it.

use nettrace_event::{
    keys,
    role::Role,
    trace_context::{ActivityId, SpanId, TraceId},
};
use nettrace_reader::{Label, Metadata};

use crate::model::has_fields_of_single;

/// What identifies a span in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A span id, and the id of its trace if the format has it.
    Span(Option<TraceId>, SpanId),
    /// An activity id that contains no span id: an activity of .NET.
    Activity(ActivityId),
}

impl Key {
    /// The key of an activity id, as a label has it, or of the span id that it contains. `None` for
    /// 0.
    #[must_use]
    pub fn of_activity(trace: Option<TraceId>, id: [u8; 16]) -> Option<Self> {
        let activity = ActivityId::from_bytes(id);
        let key = activity.span_id().map_or(Self::Activity(activity), |id| Self::Span(trace, id));
        (id != [0; 16]).then_some(key)
    }
}

/// The ids of an event, and the labels that replace properties of its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The trace that the event belongs to.
    pub trace: Option<TraceId>,
    /// The span that the event belongs to.
    pub span: Option<Key>,
    /// The activity id by which children may name the span, if it says something else.
    pub alias: Option<Key>,
    /// The parent of the span, or another activity that the event is related to.
    pub related: Option<Key>,
    /// What replaces properties of the type.
    pub overrides: Overrides,
}

/// The labels that replace properties of an event's type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The opcode.
    pub opcode: Option<u8>,
    /// The keywords.
    pub keywords: Option<u64>,
    /// The level.
    pub level: Option<u8>,
    /// The version.
    pub version: Option<u8>,
}

impl Ids {
    /// The ids in a list of labels. Of two labels with the same meaning, the last one applies.
    #[must_use]
    pub fn of(labels: &[Label]) -> Self {
        let (mut ids, mut own) = (Self::default(), None);
        let (mut activity, mut related) = ([0; 16], [0; 16]);
        let overrides = &mut ids.overrides;
        for label in labels {
            match label {
                Label::TraceId(id) => ids.trace = TraceId::from_bytes(*id),
                Label::SpanId(id) => own = SpanId::from_u64(*id),
                Label::ActivityId(id) => activity = *id,
                Label::RelatedActivityId(id) => related = *id,
                Label::OpCode(code) => overrides.opcode = Some(*code),
                Label::Keywords(keywords) => overrides.keywords = Some(*keywords),
                Label::Level(level) => overrides.level = Some(*level),
                Label::Version(version) => overrides.version = Some(*version),
                _ => {}
            }
        }
        let activity = Key::of_activity(ids.trace, activity);
        ids.related = Key::of_activity(ids.trace, related);
        ids.span = own.map(|id| Key::Span(ids.trace, id)).or(activity);
        ids.alias = activity.filter(|_| activity != ids.span);
        ids
    }

    /// The keys by which the span is found: its own, and the one by which children may name it.
    #[must_use]
    pub fn keys(&self) -> [Option<Key>; 2] {
        [self.span, self.alias]
    }
}

/// The role of an event of this type in its span. `version` is the major version of the trace,
/// `opcode` one that replaces that of the type.
#[must_use]
pub fn role_of(metadata: &Metadata, opcode: Option<u8>, version: u32) -> Role {
    let is_single = || match version {
        6.. => metadata.key_values.iter().any(|(key, value)| (&**key, &**value) == keys::SINGLE),
        _ => has_fields_of_single(metadata),
    };
    Role::of(opcode.or(metadata.opcode), is_single, &metadata.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_id_and_its_activity_id_are_one_key() {
        let span = SpanId::from_u64(0xAB00_0000_0000_0001).unwrap();
        let activity = ActivityId::from_span_id(span, 7).to_bytes();
        let ids = |labels: &[Label]| Ids::of(labels);
        let trace = TraceId::from_bytes([3; 16]);
        for (label, trace) in [(None, None), (Some(Label::TraceId([3; 16])), trace)] {
            let of = |id| ids(&[vec![id], label.clone().into_iter().collect()].concat());
            let by_span = of(Label::SpanId(span.to_u64()));
            assert_eq!(of(Label::ActivityId(activity)).span, by_span.span);
            assert_eq!(by_span.span, Some(Key::Span(trace, span)));
            assert_eq!(of(Label::RelatedActivityId(activity)).related, by_span.span);
        }
        let both = ids(&[Label::SpanId(7), Label::ActivityId([7; 16])]);
        assert_ne!(both.span, both.alias);
        assert_eq!(both.alias, Key::of_activity(None, [7; 16]));
        let none = ids(&[Label::SpanId(0), Label::ActivityId([0; 16])]);
        assert_eq!((none.span, none.alias), (None, None));
    }

    #[test]
    fn roles() {
        let of = |name: &str, opcode, version| {
            let metadata = Metadata { name: name.into(), opcode, ..Metadata::default() };
            role_of(&metadata, None, version)
        };
        assert_eq!(of("x", Some(1), 6), Role::Start);
        assert_eq!(of("x", Some(2), 5), Role::Stop);
        assert_eq!(of("xStart", None, 6), Role::Start);
        assert_eq!(of("xStart", Some(0), 6), Role::Inside);
        assert_eq!(of("xStart", None, 4), Role::Start);
        assert_eq!(of("x_start", None, 4), Role::Start);
        assert_eq!(of("STOP", None, 5), Role::Stop);
        assert_eq!(of("top", None, 4), Role::Inside);
        assert_eq!(of("xStop", Some(0), 5), Role::Inside);
        assert_eq!(of("x", Some(8), 6), Role::Suspend);
        let mut single = Metadata::default();
        let (key, value) = keys::SINGLE;
        single.key_values.push((key.into(), value.into()));
        assert_eq!(role_of(&single, None, 6), Role::Single);
        assert_eq!(role_of(&single, Some(1), 6), Role::Start);
        assert_eq!(role_of(&single, None, 5), Role::Inside);
    }
}
