//! The values of one event or span: visited once, then encoded as often as sessions want.
//!
//! `tracing` shows values to a visitor one by one, and only for the length of a call. The visitor
//! here encodes them as they come, into memory of the thread. Only then is the event's type known,
//! and only then does the writer begin the event, which copies the payload. Tracepoints have
//! another encoding: for them, and for values that come in another order than the fields, the
//! payload is read back. So a `Debug` implementation runs once, however
//! many sessions listen. What it logs is recorded as an event of its own, before the one that it is
//! a value of. If it panics, no event has begun. Rejected: two visits, one for the types and one
//! that encodes. Each session would format again, and whatever a `Debug` implementation logs would
//! be an event within an event, which is dropped.
//!
//! The thread keeps that memory for its next event, so that nothing is allocated.

mod cut;

use std::{
    cell::Cell,
    error::Error,
    fmt::{self, Write as _},
    mem,
    ops::{Deref, DerefMut},
};

use nettrace_event::AnyEvent;
use nettrace_format::payload::MAX_PAYLOAD;
use nettrace_writer::{
    Emit,
    event::{ArrayLayout, EventType, FieldType, PayloadEncoder, StrEncoding, TraceEvent},
};
use tracing_core::field::{Field, Visit};

use crate::{
    scratch::{Scratch, Text},
    stats,
};

/// The most fields of an event or span.
pub(crate) const MAX_FIELDS: usize = 32;

/// The type of a value, as four bits of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    I64 = 1,
    U64,
    I128,
    U128,
    F64,
    Bool,
    Text,
    Bytes,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::I64,
        Self::U64,
        Self::I128,
        Self::U128,
        Self::F64,
        Self::Bool,
        Self::Text,
        Self::Bytes,
    ];

    /// The type of the field with this index. `None`: it is empty.
    pub(crate) fn of_field(signature: Signature, index: usize) -> Option<Self> {
        let bits = if index < MAX_FIELDS { (signature >> (4 * index)) as usize & 0xF } else { 0 };
        Self::ALL.get(bits.wrapping_sub(1)).copied()
    }

    pub(crate) fn field_type(self) -> FieldType {
        match self {
            Self::I64 => FieldType::I64,
            Self::U64 => FieldType::U64,
            Self::I128 => FieldType::I128,
            Self::U128 => FieldType::U128,
            Self::F64 => FieldType::F64,
            Self::Bool => FieldType::Bool,
            Self::Text => FieldType::Str(StrEncoding::Utf16),
            Self::Bytes => FieldType::Array(&FieldType::U8, ArrayLayout::Counted),
        }
    }
}

/// Which fields have values, and of which types: the [`Kind`] of each in four bits, 0 for none.
pub(crate) type Signature = u128;

/// The values of one event or span.
#[derive(Debug)]
pub(crate) struct Values {
    /// The values as the payload has them, in the order in which they came.
    payload: Scratch,
    /// From and to where each field's value is in the payload.
    ranges: [(u32, u32); MAX_FIELDS],
    /// The fields that have values, as bits.
    present: u32,
    /// The lower and the upper half of the signature.
    signature: [u64; 2],
    /// Whether the payload is that of an event: the values came in the order of the fields, each
    /// once, and readers can take each of them.
    is_plain: bool,
    /// Fields that were left out because there are too many.
    left_out: u32,
    /// Others that this thread has.
    next: Option<Box<Values>>,
}

thread_local! {
    /// Values that are not in use: one for each event that was within another one.
    static SPARE: Cell<Option<Box<Values>>> = const { Cell::new(None) };
}

/// Values that are in use. Dropping this gives them back to the thread.
#[derive(Debug)]
pub(crate) struct Taken {
    values: Option<Box<Values>>,
    /// Until all values are visited.
    is_partial: bool,
}

impl Taken {
    /// Visits values.
    #[inline]
    pub(crate) fn of(visit: impl FnOnce(&mut dyn Visit)) -> Self {
        Self::by(|values| visit(values))
    }

    /// Takes values that `put` puts in.
    #[inline]
    pub(crate) fn by(put: impl FnOnce(&mut Values)) -> Self {
        let mut taken = Self::empty();
        put(&mut taken);
        taken.completed()
    }

    /// No values yet. They are partial until they are [`completed`](Self::completed).
    #[inline]
    pub(crate) fn empty() -> Self {
        let values = SPARE.try_with(|spare| {
            let mut values = spare.take()?;
            spare.set(values.next.take());
            Some(values)
        });
        let values = values.ok().flatten().unwrap_or_else(Values::empty);
        Self { values: Some(values), is_partial: true }
    }

    /// The same, after the last value.
    #[inline]
    pub(crate) fn completed(mut self) -> Self {
        self.is_partial = false;
        if self.payload.len() > MAX_PAYLOAD {
            self.cut_texts();
        }
        if self.left_out > 0 {
            stats::FIELDS_LEFT_OUT.add(self.left_out.into());
        }
        self
    }
}

impl Drop for Taken {
    #[inline]
    fn drop(&mut self) {
        if self.is_partial {
            stats::PANICKED.add(1);
        }
        let Some(mut values) = self.values.take() else { return };
        values.clear();
        // A thread that is ending keeps nothing.
        let _ = SPARE.try_with(|spare| {
            values.next = spare.take();
            spare.set(Some(values));
        });
    }
}

impl Deref for Taken {
    type Target = Values;

    #[inline]
    fn deref(&self) -> &Values {
        self.values.as_deref().expect("there until this is dropped")
    }
}

impl DerefMut for Taken {
    #[inline]
    fn deref_mut(&mut self) -> &mut Values {
        self.values.as_deref_mut().expect("there until this is dropped")
    }
}

impl Values {
    fn empty() -> Box<Self> {
        Box::new(Self {
            payload: Scratch::new(),
            ranges: [(0, 0); MAX_FIELDS],
            present: 0,
            signature: [0; 2],
            is_plain: true,
            left_out: 0,
            next: None,
        })
    }

    #[inline]
    fn clear(&mut self) {
        self.payload.clear();
        (self.present, self.signature, self.left_out) = (0, [0; 2], 0);
        self.is_plain = true;
    }

    /// Which values there are.
    #[inline]
    pub(crate) fn signature(&self) -> Signature {
        let [first, second] = self.signature;
        u128::from(second) << 64 | u128::from(first)
    }

    /// Adds a value, which `write` writes. It says whether readers can take the value.
    #[inline]
    fn put(&mut self, index: usize, kind: Kind, write: impl FnOnce(&mut Scratch) -> bool) {
        if index >= MAX_FIELDS {
            self.left_out += 1;
            return;
        }
        let start = self.payload.len();
        self.is_plain &= write(&mut self.payload);
        if self.present >> index != 0 {
            self.out_of_order(index);
        }
        self.has_put(index, kind, start);
    }

    /// A field has a value, which begins at `start` and ends the payload.
    #[inline]
    fn has_put(&mut self, index: usize, kind: Kind, start: usize) {
        self.present |= 1 << index;
        self.signature[index / 16 % 2] |= (kind as u64) << (4 * (index % 16));
        self.ranges[index % MAX_FIELDS] = (start as u32, self.payload.len() as u32);
    }

    /// This field or one after it has a value already.
    #[cold]
    #[inline(never)]
    fn out_of_order(&mut self, index: usize) {
        self.is_plain = false;
        // Recorded twice: the last one counts.
        self.signature[index / 16] &= !(0xF << (4 * (index % 16)));
    }

    pub(crate) fn put_i64(&mut self, index: usize, value: i64) {
        self.put_number(index, Kind::I64, value.to_le_bytes());
    }

    pub(crate) fn put_u64(&mut self, index: usize, value: u64) {
        self.put_number(index, Kind::U64, value.to_le_bytes());
    }

    pub(crate) fn put_i128(&mut self, index: usize, value: i128) {
        self.put_number(index, Kind::I128, value.to_le_bytes());
    }

    pub(crate) fn put_u128(&mut self, index: usize, value: u128) {
        self.put_number(index, Kind::U128, value.to_le_bytes());
    }

    pub(crate) fn put_f64(&mut self, index: usize, value: f64) {
        self.put_number(index, Kind::F64, value.to_le_bytes());
    }

    pub(crate) fn put_bool(&mut self, index: usize, value: bool) {
        self.put_number(index, Kind::Bool, u32::from(value).to_le_bytes());
    }

    /// Adds a number of eight bytes.
    #[inline]
    pub(crate) fn put_word(&mut self, index: usize, kind: Kind, value: u64) {
        self.put_number(index, kind, value.to_le_bytes());
    }

    #[inline]
    fn put_number<const N: usize>(&mut self, index: usize, kind: Kind, bytes: [u8; N]) {
        let start = self.payload.len();
        let is_next = index < MAX_FIELDS && self.present >> index == 0;
        if is_next && self.payload.number_if_room(bytes) {
            self.has_put(index, kind, start);
        } else {
            self.put_number_slowly(index, kind, bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn put_number_slowly<const N: usize>(&mut self, index: usize, kind: Kind, bytes: [u8; N]) {
        self.put(index, kind, |payload| {
            payload.number(bytes);
            true
        });
    }

    /// Adds the text that `write` writes.
    #[inline]
    pub(crate) fn put_text(&mut self, index: usize, write: impl FnOnce(&mut Text<'_>)) {
        self.put(index, Kind::Text, |payload| payload.text(write));
    }

    /// Adds an error and its sources as a text.
    pub(crate) fn put_error(&mut self, index: usize, error: &(dyn Error + 'static)) {
        self.put_text(index, |text| {
            let _ = write!(text, "{error}");
            let mut source = error.source();
            while let Some(cause) = source {
                let _ = write!(text, ": {cause}");
                source = cause.source();
            }
        });
    }

    /// The text of the field with this index, if it has one.
    pub(crate) fn text(&self, index: usize) -> Option<String> {
        (Kind::of_field(self.signature(), index)? == Kind::Text).then(|| text(self.bytes(index)))
    }

    /// The number of the field with this index, if it has one.
    pub(crate) fn number(&self, index: usize) -> Option<u64> {
        let is_number = Kind::of_field(self.signature(), index)? == Kind::U64;
        is_number.then(|| u64::from_le_bytes(array(self.bytes(index))))
    }

    /// A field's value as the payload has it.
    fn bytes(&self, index: usize) -> &[u8] {
        let (start, end) = self.ranges[index];
        self.payload.as_bytes().get(start as usize..end as usize).unwrap_or_default()
    }

    /// Forgets all fields but the first.
    pub(crate) fn keep_first(&mut self) {
        self.present &= 1;
        self.signature = [self.signature[0] & 0xF, 0];
        self.is_plain = false;
    }

    /// Encodes one value after the other.
    #[cold]
    #[inline(never)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        for index in 0..MAX_FIELDS {
            let Some(kind) = Kind::of_field(self.signature(), index) else { continue };
            let bytes = self.bytes(index);
            match kind {
                Kind::I64 => encoder.i64(i64::from_le_bytes(array(bytes))),
                Kind::U64 => encoder.u64(u64::from_le_bytes(array(bytes))),
                Kind::I128 => encoder.i128(i128::from_le_bytes(array(bytes))),
                Kind::U128 => encoder.u128(u128::from_le_bytes(array(bytes))),
                Kind::F64 => encoder.f64(f64::from_le_bytes(array(bytes))),
                Kind::Bool => encoder.bool(bytes.first() == Some(&1)),
                Kind::Text => encoder.str(&text(bytes), StrEncoding::Utf16),
                Kind::Bytes => {
                    let bytes = bytes.get(2..).unwrap_or_default();
                    let layout = ArrayLayout::Counted;
                    let mark = encoder.begin_array_of(bytes.len(), layout, &FieldType::U8);
                    encoder.u8_elements(bytes);
                    encoder.end_array(mark);
                }
            }
        }
    }
}

/// The first bytes of a value.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

/// A text, from the bytes that the payload has for it.
fn text(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).skip(1).map(|unit| u16::from_le_bytes(array(unit)));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

impl Visit for Values {
    #[inline]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put_i64(field.index(), value);
    }

    #[inline]
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put_u64(field.index(), value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.put_i128(field.index(), value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.put_u128(field.index(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put_f64(field.index(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put_bool(field.index(), value);
    }

    #[inline]
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field.index(), |text| text.push_str(value));
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.put(field.index(), Kind::Bytes, |payload| payload.counted(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put_error(field.index(), value);
    }

    #[cfg(all(tracing_unstable, feature = "valuable"))]
    fn record_value(&mut self, field: &Field, value: valuable::Value<'_>) {
        crate::valuable::put(self, field.index(), &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // An error of the value's own implementation ends the text.
        self.put_text(field.index(), |text| {
            let _ = write!(text, "{value:?}");
        });
    }
}

/// The values of an event, wherever they are.
pub(crate) trait Recorded {
    /// Which values there are.
    fn signature(&self) -> Signature;

    /// Emits them as an event of a type that has their signature.
    fn emit(&self, ty: &'static EventType);

    /// Calls `f` with them as an event of such a type.
    fn with_event<R>(&self, ty: &'static EventType, f: impl FnOnce(&dyn AnyEvent) -> R) -> R;
}

impl Recorded for Values {
    #[inline]
    fn signature(&self) -> Signature {
        self.signature()
    }

    #[inline]
    fn emit(&self, ty: &'static EventType) {
        if self.is_plain {
            Plain { ty, values: self }.emit();
        } else {
            OneByOne { ty, values: self }.emit();
        }
    }

    #[inline]
    fn with_event<R>(&self, ty: &'static EventType, f: impl FnOnce(&dyn AnyEvent) -> R) -> R {
        if self.is_plain {
            f(&Plain { ty, values: self })
        } else {
            f(&OneByOne { ty, values: self })
        }
    }
}

/// Values whose payload is that of the event.
#[derive(Clone, Copy)]
struct Plain<'a> {
    ty: &'static EventType,
    values: &'a Values,
}

impl TraceEvent for Plain<'_> {
    /// None are known before the first event.
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline]
    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    #[inline]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        if E::TAKES_PAYLOADS {
            encoder.payload(self.values.payload.as_bytes());
        } else {
            self.values.encode(encoder);
        }
    }
}

/// Values that are encoded one by one.
struct OneByOne<'a> {
    ty: &'static EventType,
    values: &'a Values,
}

impl TraceEvent for OneByOne<'_> {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.values.encode(encoder);
    }
}

const _: () = assert!(mem::size_of::<Plain<'_>>() <= 2 * mem::size_of::<usize>());

#[cfg(test)]
pub(crate) mod tests {
    use nettrace_format::payload::{NetTraceEncoder, Refusal, VecBuffer};

    use super::Values;

    pub(crate) fn one_by_one(values: &Values) -> Result<Vec<u8>, Refusal> {
        let mut encoder = NetTraceEncoder::new(VecBuffer::new());
        values.encode(&mut encoder);
        encoder.finish().into_payload()
    }

    fn put_all(values: &mut Values, order: impl Iterator<Item = usize>) {
        for index in order {
            match index {
                0 => values.put_i64(0, -5),
                1 => values.put_u64(1, u64::MAX),
                2 => values.put_i128(2, i128::MIN + 7),
                3 => values.put_u128(3, u128::MAX - 7),
                4 => values.put_f64(4, -0.5),
                5 => values.put_bool(5, true),
                6 => values.put_text(6, |text| text.push_str("naïve 🦀 \0")),
                17 => values.put_bool(17, false),
                31 => values.put_text(31, |text| text.push_str("")),
                _ => {}
            }
        }
    }

    #[test]
    fn a_payload_is_that_of_its_values() {
        let mut values = Values::empty();
        put_all(&mut values, 0..32);
        assert!(values.is_plain);
        assert_eq!(one_by_one(&values).as_deref(), Ok(values.payload.as_bytes()));
        assert_eq!(values.text(6).as_deref(), Some("naïve 🦀 \u{FFFD}"));
        assert_eq!(
            (values.number(1), values.number(0), values.text(1)),
            (Some(u64::MAX), None, None)
        );

        let mut backwards = Values::empty();
        put_all(&mut backwards, (0..32).rev());
        assert!(!backwards.is_plain);
        assert_eq!(backwards.signature(), values.signature());
        assert_eq!(one_by_one(&backwards), one_by_one(&values));
    }

    #[test]
    fn the_last_of_two_values_counts() {
        let (mut values, mut expected) = (Values::empty(), Values::empty());
        values.put_text(16, |text| text.push_str("first"));
        values.put_u64(16, 2);
        expected.put_u64(16, 2);
        assert_eq!(values.signature(), expected.signature());
        assert_eq!(one_by_one(&values), one_by_one(&expected));
        values.clear();
        values.put_u64(16, 2);
        assert!(values.is_plain);
    }
}
