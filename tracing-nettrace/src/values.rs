//! The values of one event or span: visited once, then encoded as often as sessions want.
//!
//! `tracing` shows values to a visitor one by one, and only for the length of a call. The visitor
//! here keeps them: numbers as they are, text in one string. Only then is the event's type known,
//! and only then does the writer begin the event. So a `Debug` implementation runs once, however
//! many sessions listen. What it logs is recorded as an event of its own, before the one that it is
//! a value of. If it panics, no event has begun. Rejected: two visits, one for the types and one
//! that encodes. Each session would format again, and whatever a `Debug` implementation logs would
//! be an event within an event, which is dropped.
//!
//! What was visited is kept by the thread for the next event, so that nothing is allocated.

use std::{
    cell::Cell,
    error::Error,
    fmt::{self, Write as _},
    mem,
    ops::{Deref, DerefMut},
};

use nettrace_writer::event::{
    ArrayLayout, EventType, FieldType, PayloadEncoder, StrEncoding, TraceEvent,
};
use tracing_core::field::{Field, Visit};

use crate::stats;

/// The most fields of an event or span.
pub(crate) const MAX_FIELDS: usize = 32;
/// Text of so many bytes is kept by a thread for its next event.
const KEPT_TEXT: usize = 1 << 16;

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

#[derive(Clone, Copy, Debug)]
enum Value {
    I64(i64),
    U64(u64),
    I128(i128),
    U128(u128),
    F64(f64),
    Bool(bool),
    /// From and to where in the text.
    Text(u32, u32),
    /// From and to where in the bytes.
    Bytes(u32, u32),
}

/// The values of one event or span.
#[derive(Debug)]
pub(crate) struct Values {
    values: [Value; MAX_FIELDS],
    /// The fields that have values, as bits.
    present: u32,
    signature: Signature,
    /// Fields that were left out because there are too many.
    left_out: u32,
    text: String,
    bytes: Vec<u8>,
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
        let values = SPARE.try_with(Cell::take).ok().flatten().map(|mut values| {
            let _ = SPARE.try_with(|spare| spare.set(values.next.take()));
            values
        });
        let mut taken =
            Self { values: Some(values.unwrap_or_else(Values::empty)), is_partial: true };
        put(&mut taken);
        taken.is_partial = false;
        if taken.left_out > 0 {
            stats::FIELDS_LEFT_OUT.add(taken.left_out.into());
        }
        taken
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
            values: [Value::Bool(false); MAX_FIELDS],
            present: 0,
            signature: 0,
            left_out: 0,
            text: String::with_capacity(512),
            bytes: Vec::new(),
            next: None,
        })
    }

    #[inline]
    fn clear(&mut self) {
        self.present = 0;
        self.signature = 0;
        self.left_out = 0;
        self.text.clear();
        self.bytes.clear();
        if self.text.capacity() + self.bytes.capacity() > KEPT_TEXT {
            self.text.shrink_to(KEPT_TEXT / 2);
            self.bytes.shrink_to(KEPT_TEXT / 2);
        }
    }

    /// Which values there are.
    #[inline]
    pub(crate) fn signature(&self) -> Signature {
        self.signature
    }

    /// Whether there is no value.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.present == 0
    }

    #[inline]
    fn put(&mut self, index: usize, kind: Kind, value: Value) {
        if index >= MAX_FIELDS {
            self.left_out += 1;
            return;
        }
        let bit = 1 << index;
        if self.present & bit != 0 {
            // Recorded twice: the last one counts.
            self.signature &= !(0xF << (4 * index));
        }
        self.present |= bit;
        self.signature |= (kind as u128) << (4 * index);
        self.values[index] = value;
    }

    #[inline]
    pub(crate) fn put_i64(&mut self, index: usize, value: i64) {
        self.put(index, Kind::I64, Value::I64(value));
    }

    #[inline]
    pub(crate) fn put_u64(&mut self, index: usize, value: u64) {
        self.put(index, Kind::U64, Value::U64(value));
    }

    pub(crate) fn put_i128(&mut self, index: usize, value: i128) {
        self.put(index, Kind::I128, Value::I128(value));
    }

    pub(crate) fn put_u128(&mut self, index: usize, value: u128) {
        self.put(index, Kind::U128, Value::U128(value));
    }

    pub(crate) fn put_f64(&mut self, index: usize, value: f64) {
        self.put(index, Kind::F64, Value::F64(value));
    }

    pub(crate) fn put_bool(&mut self, index: usize, value: bool) {
        self.put(index, Kind::Bool, Value::Bool(value));
    }

    /// Keeps what `write` writes.
    #[inline]
    pub(crate) fn put_text(&mut self, index: usize, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        let (start, end) = (start as u32, self.text.len() as u32);
        self.put(index, Kind::Text, Value::Text(start, end));
    }

    /// The text of the field with this index, if it has one.
    pub(crate) fn text(&self, index: usize) -> Option<&str> {
        match self.value(index)? {
            Value::Text(start, end) => self.text.get(start as usize..end as usize),
            _ => None,
        }
    }

    /// The number of the field with this index, if it has one.
    pub(crate) fn number(&self, index: usize) -> Option<u64> {
        match self.value(index)? {
            Value::U64(number) => Some(number),
            _ => None,
        }
    }

    fn value(&self, index: usize) -> Option<Value> {
        (self.present & 1_u32.checked_shl(index as u32)? != 0).then(|| self.values[index])
    }

    /// Forgets all fields but the first.
    pub(crate) fn keep_first(&mut self) {
        self.present &= 1;
        self.signature &= 0xF;
    }

    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        let mut rest = self.present;
        while rest != 0 {
            let index = rest.trailing_zeros() as usize % MAX_FIELDS;
            rest &= rest - 1;
            match self.values[index] {
                Value::I64(value) => encoder.i64(value),
                Value::U64(value) => encoder.u64(value),
                Value::I128(value) => encoder.i128(value),
                Value::U128(value) => encoder.u128(value),
                Value::F64(value) => encoder.f64(value),
                Value::Bool(value) => encoder.bool(value),
                Value::Text(start, end) => {
                    let text = self.text.get(start as usize..end as usize).unwrap_or_default();
                    encoder.str(text, StrEncoding::Utf16);
                }
                Value::Bytes(start, end) => {
                    let bytes = self.bytes.get(start as usize..end as usize).unwrap_or_default();
                    let layout = ArrayLayout::Counted;
                    let mark = encoder.begin_array_of(bytes.len(), layout, &FieldType::U8);
                    encoder.u8_elements(bytes);
                    encoder.end_array(mark);
                }
            }
        }
    }
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
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        let end = self.bytes.len() as u32;
        self.put(field.index(), Kind::Bytes, Value::Bytes(start, end));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put_text(field.index(), |text| {
            let _ = write!(text, "{value}");
            let mut source = value.source();
            while let Some(cause) = source {
                let _ = write!(text, ": {cause}");
                source = cause.source();
            }
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // An error of the value's own implementation ends the text.
        self.put_text(field.index(), |text| {
            let _ = write!(text, "{value:?}");
        });
    }
}

/// Values as an event of a type that has their signature.
#[derive(Clone, Copy)]
pub(crate) struct Recorded<'a> {
    pub(crate) ty: &'static EventType,
    pub(crate) values: &'a Values,
}

impl TraceEvent for Recorded<'_> {
    /// None are known before the first event.
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline(always)]
    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.values.encode(encoder);
    }
}

const _: () = assert!(mem::size_of::<Recorded<'_>>() <= 2 * mem::size_of::<usize>());
