//! The labels of events.

use nettrace_context::ActivityId;
use nettrace_reader::Label;

use crate::{
    ids::Ids,
    timeline::Form,
    values::{self, Details},
};

/// The labels of the last event, and what they say. Most events have those of the event before.
#[derive(Debug, Default)]
pub(super) struct Labels {
    pub(super) labels: Vec<Label>,
    pub(super) ids: Ids,
    pub(super) level: Option<u8>,
    /// For slices.
    pub(super) all: Vec<u8>,
    /// For events inside.
    pub(super) some: Vec<u8>,
}

/// The keys of details that do not come from fields.
#[derive(Debug, Default)]
pub(super) struct Keys {
    span: Vec<u8>,
    trace: Vec<u8>,
    parent: Vec<u8>,
    pub(super) level: Vec<u8>,
    pub(super) stack: Vec<u8>,
    pub(super) end_stack: Vec<u8>,
}

impl Labels {
    pub(super) fn read<D: Details>(&mut self, keys: &Keys) {
        let Self { labels, ids, level, all, some } = self;
        all.clear();
        some.clear();
        (*ids, *level) = (Ids::default(), None);
        if !labels.is_empty() {
            *ids = Ids::of(labels);
            let has_span = labels.iter().any(|label| matches!(label, Label::SpanId(_)));
            labels.iter().for_each(|label| keys.label::<D>(label, has_span, all, some, level));
        }
    }
}

impl Keys {
    pub(super) fn new(form: &mut impl Form, out: &mut Vec<u8>) -> Self {
        let mut key = |name| form.key(name, out);
        Self {
            span: key("SpanId"),
            trace: key("TraceId"),
            parent: key("ParentId"),
            level: key("level"),
            stack: key("stack"),
            end_stack: key("end_stack"),
        }
    }

    /// Writes a label: to `all` for slices, to `some` for events inside.
    fn label<D: Details>(
        &self,
        label: &Label,
        has_span: bool,
        all: &mut Vec<u8>,
        some: &mut Vec<u8>,
        level: &mut Option<u8>,
    ) {
        let span = |id: &[u8; 16]| ActivityId::from_bytes_le(*id).span_id();
        let mut both = |write: &dyn Fn(&mut Vec<u8>)| {
            write(all);
            write(some);
        };
        match label {
            Label::Level(value) => *level = Some(*value),
            Label::TraceId(id) => D::text(all, &self.trace, &values::hex(id)),
            Label::SpanId(id) => both(&|out| {
                D::text(out, &self.span, &values::hex(&id.to_be_bytes()));
            }),
            Label::RelatedActivityId(id) => match span(id) {
                Some(parent) => D::text(all, &self.parent, &values::hex(&parent.to_bytes())),
                None => values::label::<D>(all, label),
            },
            Label::ActivityId(id) if span(id).is_some() => {
                if let Some(id) = span(id).filter(|_| !has_span) {
                    both(&|out| D::text(out, &self.span, &values::hex(&id.to_bytes())));
                }
            }
            label => both(&|out| values::label::<D>(out, label)),
        }
    }
}
