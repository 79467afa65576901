//! Fields with a location, whose data comes after the fields of their event.

#[cfg(feature = "alloc")]
use alloc::{
    borrow::Cow, borrow::ToOwned, boxed::Box, rc::Rc, string::String, sync::Arc, vec::Vec,
};

use crate::{
    encode::PayloadEncoder,
    encoding::{DataLoc, RelLoc, Utf8DataLoc, Utf8RelLoc},
    field::{LocatedField, TraceField},
    schema::{ArrayLayout, FieldType, StrEncoding},
};

macro_rules! text {
    ($($marker:ident => $encoding:ident;)+) => {$(
        impl LocatedField<$marker> for str {
            const TYPE: FieldType = FieldType::Str(StrEncoding::$encoding);

            #[inline]
            fn encode_location_data<E: PayloadEncoder>(&self, encoder: &mut E) {
                encoder.location_str(self, StrEncoding::$encoding);
            }
        }

        #[cfg(feature = "alloc")]
        impl LocatedField<$marker> for String {
            const TYPE: FieldType = FieldType::Str(StrEncoding::$encoding);

            #[inline]
            fn encode_location_data<E: PayloadEncoder>(&self, encoder: &mut E) {
                encoder.location_str(self, StrEncoding::$encoding);
            }
        }
    )+};
}

text! {
    RelLoc => Utf16RelLoc;
    DataLoc => Utf16DataLoc;
    Utf8RelLoc => Utf8RelLoc;
    Utf8DataLoc => Utf8DataLoc;
}

macro_rules! sequence {
    ($($marker:ident)+) => {$(
        impl<T: TraceField> LocatedField<$marker> for [T] {
            const TYPE: FieldType = FieldType::Array(&T::TYPE, ArrayLayout::$marker);

            #[inline]
            fn encode_location_data<E: PayloadEncoder>(&self, encoder: &mut E) {
                T::encode_elements(self, encoder);
            }
        }

        impl<T: TraceField, const N: usize> LocatedField<$marker> for [T; N] {
            const TYPE: FieldType = <[T] as LocatedField<$marker>>::TYPE;

            #[inline]
            fn encode_location_data<E: PayloadEncoder>(&self, encoder: &mut E) {
                T::encode_elements(self, encoder);
            }
        }

        #[cfg(feature = "alloc")]
        impl<T: TraceField> LocatedField<$marker> for Vec<T> {
            const TYPE: FieldType = <[T] as LocatedField<$marker>>::TYPE;

            #[inline]
            fn encode_location_data<E: PayloadEncoder>(&self, encoder: &mut E) {
                T::encode_elements(self, encoder);
            }
        }
    )+};
}

sequence!(RelLoc DataLoc);

macro_rules! transparent {
    ($($(#[$cfg:meta])* $ty:ty;)+) => {$(
        $(#[$cfg])*
        impl<As, T: LocatedField<As> + ?Sized> LocatedField<As> for $ty {
            const TYPE: FieldType = T::TYPE;

            #[inline]
            fn encode_location_data<E: PayloadEncoder>(&self, encoder: &mut E) {
                (**self).encode_location_data(encoder);
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
impl<As, T: LocatedField<As> + ToOwned + ?Sized> LocatedField<As> for Cow<'_, T> {
    const TYPE: FieldType = T::TYPE;

    #[inline]
    fn encode_location_data<E: PayloadEncoder>(&self, encoder: &mut E) {
        (**self).encode_location_data(encoder);
    }
}
