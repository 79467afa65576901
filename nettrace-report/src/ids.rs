//! Which span an event belongs to, and what it says of it.

use nettrace_context::{ActivityId, SpanId, TraceId};
use nettrace_reader::{Event, Label, Metadata};
use nettrace_views::__shared as of;

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
        Self::in_labels(&event.labels())
    }

    pub(crate) fn in_labels(labels: &[Label]) -> Option<Self> {
        let (mut trace, mut span, mut activity, mut related) = (None, None, None, None);
        for label in labels {
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
        let opcode = match event.header.label_list {
            0 => None,
            _ => opcode_in(&event.labels()),
        };
        Self::of_type(event.metadata(), opcode, version)
    }

    /// The role of an event of this type. `opcode` replaces that of the type.
    pub(crate) fn of_type(metadata: &Metadata, opcode: Option<u8>, version: u32) -> Self {
        match of::Role::of(metadata, opcode, version) {
            of::Role::Start => Self::Start,
            of::Role::Stop => Self::Stop,
            of::Role::Single => Self::Single,
            of::Role::Resume | of::Role::Suspend | of::Role::Inside => Self::Inside,
        }
    }
}

/// The opcode that labels state.
pub(crate) fn opcode_in(labels: &[Label]) -> Option<u8> {
    labels.iter().rev().find_map(|label| match label {
        Label::OpCode(code) => Some(*code),
        _ => None,
    })
}
