//! The events of a span that have the same fields in every span.

use nettrace_writer::{
    Elapsed, Outcome,
    bridge::SpanIds,
    event::{EventType, PayloadEncoder, TextField, TraceEvent, TraceField, encoding},
};

use crate::sync::panicking;

/// The start of a span, told late.
pub(crate) struct Late {
    pub(crate) ty: &'static EventType,
    /// Nanoseconds since the start.
    pub(crate) age: u64,
}

impl TraceEvent for Late {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    /// As [`Part::own_fields`](crate::schema::Part) has it.
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.duration_nanos(self.age);
    }
}

/// A span follows from another one.
pub(crate) struct Follows {
    pub(crate) ty: &'static EventType,
    pub(crate) from: SpanIds,
}

impl TraceEvent for Follows {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    /// As [`Part::own_fields`](crate::schema::Part) has it.
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        <_ as TextField<encoding::Display>>::encode_text(&self.from.trace_id(), encoder);
        <_ as TextField<encoding::Display>>::encode_text(&self.from.span_id(), encoder);
    }
}

/// An event without fields.
pub(crate) struct Mark(pub(crate) &'static EventType);

impl TraceEvent for Mark {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline(always)]
    fn event_type(&self) -> &'static EventType {
        self.0
    }

    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, _: &mut E) {}
}

/// The end of a span.
pub(crate) struct Stop {
    pub(crate) ty: &'static EventType,
    pub(crate) duration: Elapsed,
    /// Nanoseconds.
    pub(crate) busy: u64,
    pub(crate) polls: u32,
}

impl TraceEvent for Stop {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline(always)]
    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    /// As [`Part::own_fields`](crate::schema::Part) has it.
    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        let duration = self.duration.nanos_at(encoder);
        let outcome = if panicking() { Outcome::Panicked } else { Outcome::Ok };
        encoder.duration_nanos(duration);
        outcome.encode_field(encoder);
        encoder.u32(self.polls);
        encoder.duration_nanos(self.busy);
        encoder.duration_nanos(duration.saturating_sub(self.busy));
    }
}
