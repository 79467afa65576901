//! Booleans, characters, integers, floats, and the wrappers of the standard library around them.

#![allow(clippy::disallowed_types, reason = "the atomics are the user's: read once, recorded")]

use core::{
    num::{NonZero, Saturating, Wrapping},
    sync::atomic,
};

use crate::{
    encode::PayloadEncoder,
    encoding::{Bool8, Guid, Natural, Utf16Unit, VarInt},
    field::TraceField,
    schema::FieldType,
};

/// Implements one encoding, given by type, marker, field type, encoder method and conversion.
macro_rules! scalar {
    ($(
        $ty:ty as $marker:ty => $kind:ident, $method:ident, |$value:ident| $conversion:expr;
    )+) => {$(
        impl TraceField<$marker> for $ty {
            const TYPE: FieldType = FieldType::$kind;

            #[inline]
            fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
                let $value = *self;
                encoder.$method($conversion);
            }
        }
    )+};
}

scalar! {
    bool as Natural => Bool, bool, |value| value;
    bool as Bool8 => Bool8, bool8, |value| value;
    char as Natural => Char, char, |value| value;
    char as Utf16Unit => Utf16Unit, utf16_unit, |value| one_unit(value);
    u16 as Utf16Unit => Utf16Unit, utf16_unit, |value| value;

    u128 as Natural => U128, u128, |value| value;
    usize as Natural => U64, u64, |value| value as u64;
    i128 as Natural => I128, i128, |value| value;
    isize as Natural => I64, i64, |value| value as i64;

    u8 as VarInt => VarUInt, var_uint, |value| u64::from(value);
    u16 as VarInt => VarUInt, var_uint, |value| u64::from(value);
    u32 as VarInt => VarUInt, var_uint, |value| u64::from(value);
    u64 as VarInt => VarUInt, var_uint, |value| value;
    usize as VarInt => VarUInt, var_uint, |value| value as u64;
    i8 as VarInt => VarInt, var_int, |value| i64::from(value);
    i16 as VarInt => VarInt, var_int, |value| i64::from(value);
    i32 as VarInt => VarInt, var_int, |value| i64::from(value);
    i64 as VarInt => VarInt, var_int, |value| value;
    isize as VarInt => VarInt, var_int, |value| value as i64;

    u128 as Guid => Guid, guid, |value| &value.to_be_bytes();
    [u8; 16] as Guid => Guid, guid, |value| &value;
}

/// Implements number types, whose arrays an encoder may copy at once.
macro_rules! number {
    ($($ty:ident $kind:ident $elements:ident;)+) => {$(
        impl TraceField for $ty {
            const TYPE: FieldType = FieldType::$kind;

            #[inline]
            fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
                encoder.$ty(*self);
            }

            #[inline]
            fn encode_elements<E: PayloadEncoder>(values: &[Self], encoder: &mut E) {
                encoder.$elements(values);
            }
        }
    )+};
}

number! {
    u8 U8 u8_elements;
    u16 U16 u16_elements;
    u32 U32 u32_elements;
    u64 U64 u64_elements;
    i8 I8 i8_elements;
    i16 I16 i16_elements;
    i32 I32 i32_elements;
    i64 I64 i64_elements;
    f32 F32 f32_elements;
    f64 F64 f64_elements;
}

/// The UTF-16 code unit of a character; U+FFFD if it needs two.
#[inline]
fn one_unit(value: char) -> u16 {
    u16::try_from(u32::from(value)).unwrap_or(0xFFFD)
}

/// Implements wrappers that are stored as the wrapped value, in every encoding of that value.
macro_rules! wrapper {
    ($($wrapper:ident => |$value:ident| $inner:expr;)+) => {$(
        impl<As, T: TraceField<As>> TraceField<As> for $wrapper<T> {
            const TYPE: FieldType = T::TYPE;

            #[inline]
            fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
                let $value = self;
                $inner.encode_field(encoder);
            }
        }
    )+};
}

wrapper! {
    Wrapping => |value| value.0;
    Saturating => |value| value.0;
}

macro_rules! non_zero {
    ($($ty:ty)+) => {$(
        impl<As> TraceField<As> for NonZero<$ty>
        where
            $ty: TraceField<As>,
        {
            const TYPE: FieldType = <$ty as TraceField<As>>::TYPE;

            #[inline]
            fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
                self.get().encode_field(encoder);
            }
        }
    )+};
}

non_zero!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

/// Atomics are stored as the value of one relaxed load.
macro_rules! atomic {
    ($($width:literal: $($atomic:ident $ty:ty),+;)+) => {$($(
        #[cfg(target_has_atomic = $width)]
        impl<As> TraceField<As> for atomic::$atomic
        where
            $ty: TraceField<As>,
        {
            const TYPE: FieldType = <$ty as TraceField<As>>::TYPE;

            #[inline]
            fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
                // Relaxed: only the value is recorded; nothing is read through it.
                self.load(atomic::Ordering::Relaxed).encode_field(encoder);
            }
        }
    )+)+};
}

atomic! {
    "8": AtomicBool bool, AtomicU8 u8, AtomicI8 i8;
    "16": AtomicU16 u16, AtomicI16 i16;
    "32": AtomicU32 u32, AtomicI32 i32;
    "64": AtomicU64 u64, AtomicI64 i64;
    "ptr": AtomicUsize usize, AtomicIsize isize;
}
