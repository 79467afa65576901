//! The events of a span that have the same fields in every span.

use nettrace_writer::{
    Outcome,
    bridge::SpanIds,
    event::{ArrayLayout, EventType, PayloadEncoder, TextField, TraceEvent, TraceField, encoding},
};

use crate::row::{Busy, Row};

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

/// An event of a span that is not kept. No encoder takes it, so sessions count it as lost, and a
/// trace has a gap in its place.
pub(crate) struct Lost(pub(crate) &'static EventType);

impl TraceEvent for Lost {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.0
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        // No format has a count of so many elements.
        let array = encoder.begin_array(1 << 16, ArrayLayout::Counted);
        encoder.end_array(array);
    }
}

/// An event without fields.
pub(crate) struct Mark(pub(crate) &'static EventType);

impl TraceEvent for Mark {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline]
    fn event_type(&self) -> &'static EventType {
        self.0
    }

    #[inline]
    fn encode<E: PayloadEncoder>(&self, _: &mut E) {}
}

/// The end of a span. `IS_PLAIN`: the outcome is [`Outcome::Ok`], and the row has [plain
/// ids](Row::plain_ids).
///
/// The row is read where the payload is written, so that nothing of it is copied before that.
pub(crate) struct Stop<'a, const IS_PLAIN: bool> {
    pub(crate) ty: &'static EventType,
    pub(crate) row: &'a Row,
    pub(crate) outcome: Outcome,
}

/// [`Outcome::Ok`] as NetTrace has it: the number of its code units, and those.
const OK: [u8; 6] = [2, 0, b'o', 0, b'k', 0];

/// The shortest payload: two durations and another, the outcome, a count.
const LEAST: usize = 3 * size_of::<u64>() + OK.len() + size_of::<u32>();

impl<const IS_PLAIN: bool> TraceEvent for Stop<'_, IS_PLAIN> {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline]
    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    /// As [`Part::own_fields`](crate::schema::Part) has it.
    #[inline]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        if !encoder.expect(LEAST) {
            return;
        }
        let busy = if IS_PLAIN { self.row.busy_here() } else { self.row.busy() };
        let (began, Busy { nanos: busy, polls }) = (self.row.began().elapsed(), busy);
        let duration = began.nanos_at(encoder);
        encoder.duration_nanos(duration);
        match IS_PLAIN {
            // Bytes that are at hand.
            true if E::TAKES_PAYLOADS => encoder.payload(&OK),
            _ => self.outcome.encode_field(encoder),
        }
        encoder.u32(u32::try_from(polls).unwrap_or(u32::MAX));
        encoder.duration_nanos(busy);
        encoder.duration_nanos(duration.saturating_sub(busy));
    }
}

#[cfg(test)]
mod tests {
    use nettrace_format::payload::{NetTraceEncoder, VecBuffer};
    use nettrace_writer::{Outcome, event::TraceField as _};

    use super::OK;

    #[test]
    fn the_usual_outcome_is_encoded_as_any_other() {
        let mut encoder = NetTraceEncoder::new(VecBuffer::new());
        Outcome::Ok.encode_field(&mut encoder);
        assert_eq!(encoder.finish().into_payload().as_deref(), Ok(&OK[..]));
    }
}
