//! The labels of events.

use nettrace_event::trace_context::ActivityId;
use nettrace_reader::{Event, Label, LastLabels};

use crate::{
    model::{Hex, Ids},
    viewers::{
        timeline::Form,
        values::{self, Details},
    },
};

/// The labels of the last event, and what they say. Most events have those of the event before.
#[derive(Debug, Default)]
pub(super) struct Labels {
    labels: LastLabels,
    pub(super) ids: Ids,
    /// Those of slices and of events inside, each made when the first of them comes.
    all: Part,
    some: Part,
}

/// Labels as details.
#[derive(Debug, Default)]
struct Part {
    bytes: Vec<u8>,
    is_made: bool,
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
    /// Reads the labels of an event.
    #[inline]
    pub(super) fn read(&mut self, event: &Event<'_>) {
        if event.labels_into(&mut self.labels) {
            self.note();
        }
    }

    /// Takes note of other labels.
    fn note(&mut self) {
        (self.all.is_made, self.some.is_made) = (false, false);
        self.ids = Ids::of(self.labels.labels());
    }

    /// The details for slices.
    pub(super) fn of_slice<D: Details>(&mut self, keys: &Keys) -> &[u8] {
        self.all.of::<D>(self.labels.labels(), keys, true)
    }

    /// The details for events inside.
    pub(super) fn of_event<D: Details>(&mut self, keys: &Keys) -> &[u8] {
        self.some.of::<D>(self.labels.labels(), keys, false)
    }
}

impl Part {
    fn of<D: Details>(&mut self, labels: &[Label], keys: &Keys, is_slice: bool) -> &[u8] {
        if !self.is_made {
            self.bytes.clear();
            let has_span = labels.iter().any(|label| matches!(label, Label::SpanId(_)));
            for label in labels {
                keys.label::<D>(label, has_span, is_slice, &mut self.bytes);
            }
            self.is_made = true;
        }
        &self.bytes
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

    /// Writes a label. The trace and the parent are details of slices only.
    fn label<D: Details>(&self, label: &Label, has_span: bool, is_slice: bool, out: &mut Vec<u8>) {
        let span = |id: &[u8; 16]| ActivityId::from_bytes(*id).span_id();
        match label {
            Label::TraceId(id) if is_slice => D::text(out, &self.trace, Hex::of(id).text()),
            Label::RelatedActivityId(id) if is_slice => match span(id) {
                Some(parent) => D::text(out, &self.parent, Hex::of(&parent.to_bytes()).text()),
                None => values::label::<D>(out, label),
            },
            Label::TraceId(_) | Label::RelatedActivityId(_) => {}
            Label::SpanId(id) => D::text(out, &self.span, Hex::of(&id.to_be_bytes()).text()),
            Label::ActivityId(id) if span(id).is_some() => {
                if let Some(id) = span(id).filter(|_| !has_span) {
                    D::text(out, &self.span, Hex::of(&id.to_bytes()).text());
                }
            }
            // Labels that replace properties of the type are no details.
            label => values::label::<D>(out, label),
        }
    }
}
