//! Sequences, optional values, and references and pointers to field values.

#[cfg(feature = "alloc")]
use alloc::{borrow::Cow, borrow::ToOwned, boxed::Box, rc::Rc, sync::Arc, vec::Vec};

use crate::{
    encode::PayloadEncoder,
    field::TraceField,
    schema::{ArrayLayout, FieldType},
};

impl<As, T: TraceField<As>> TraceField<As> for [T] {
    const TYPE: FieldType = FieldType::Array(&T::TYPE, ArrayLayout::Counted);
    const IS_SECRET: bool = T::IS_SECRET;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        let mark = encoder.begin_array_of(self.len(), ArrayLayout::Counted, const { &T::TYPE });
        T::encode_elements(self, encoder);
        encoder.end_array(mark);
    }
}

#[cfg(feature = "alloc")]
impl<As, T: TraceField<As>> TraceField<As> for Vec<T> {
    const TYPE: FieldType = <[T] as TraceField<As>>::TYPE;
    const IS_SECRET: bool = T::IS_SECRET;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.as_slice().encode_field(encoder);
    }
}

/// The schema states an array's length, so the payload does not. Formats cannot describe an empty
/// fixed-length array; it is stored as a counted one.
impl<As, T: TraceField<As>, const N: usize> TraceField<As> for [T; N] {
    const TYPE: FieldType = FieldType::Array(&T::TYPE, layout_of::<N>());
    const IS_SECRET: bool = T::IS_SECRET;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        let layout = const { layout_of::<N>() };
        let mark = encoder.begin_array_of(N, layout, const { &T::TYPE });
        T::encode_elements(self, encoder);
        encoder.end_array(mark);
    }
}

impl<As, T: TraceField<As>> TraceField<As> for Option<T> {
    const TYPE: FieldType = FieldType::Option(&T::TYPE);
    const IS_SECRET: bool = T::IS_SECRET;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        let mark = encoder.begin_option(self.is_some(), const { &T::TYPE });
        if let Some(value) = self {
            value.encode_field(encoder);
        }
        encoder.end_option(mark);
    }
}

/// Implements pointers that dereference to a value, in every encoding of that value.
macro_rules! transparent {
    ($($(#[$cfg:meta])* $ty:ty;)+) => {$(
        $(#[$cfg])*
        impl<As, T: TraceField<As> + ?Sized> TraceField<As> for $ty {
            const TYPE: FieldType = T::TYPE;
            const IS_SECRET: bool = T::IS_SECRET;

            #[inline]
            fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
                (**self).encode_field(encoder);
            }
        }
    )+};
}

transparent! {
    &T;
    &mut T;
    #[cfg(feature = "alloc")] Box<T>;
    #[cfg(feature = "alloc")] Rc<T>;
    #[cfg(feature = "alloc")] Arc<T>;
}

#[cfg(feature = "alloc")]
impl<As, T: TraceField<As> + ToOwned + ?Sized> TraceField<As> for Cow<'_, T> {
    const TYPE: FieldType = T::TYPE;
    const IS_SECRET: bool = T::IS_SECRET;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        (**self).encode_field(encoder);
    }
}

const fn layout_of<const N: usize>() -> ArrayLayout {
    assert!(N <= u16::MAX as usize, "an array in an event has at most 65,535 elements");
    if N == 0 { ArrayLayout::Counted } else { ArrayLayout::Fixed(N as u16) }
}
