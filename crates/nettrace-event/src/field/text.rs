//! Text, in every type that dereferences to `str`.

#[cfg(feature = "alloc")]
use alloc::string::String;
#[cfg(feature = "std")]
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::{
    encode::PayloadEncoder,
    encoding::{Natural, Utf8, Utf16, Utf16Nul},
    field::TraceField,
    schema::{FieldType, StrEncoding},
};

macro_rules! text {
    ($($marker:ident => $encoding:ident;)+) => {$(
        impl TraceField<$marker> for str {
            const TYPE: FieldType = FieldType::Str(StrEncoding::$encoding);

            #[inline]
            fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
                encoder.str(self, StrEncoding::$encoding);
            }
        }
    )+};
}

text! {
    Natural => Utf16;
    Utf16 => Utf16;
    Utf16Nul => Utf16Nul;
    Utf8 => Utf8;
}

#[cfg(feature = "alloc")]
impl<As> TraceField<As> for String
where
    str: TraceField<As>,
{
    const TYPE: FieldType = <str as TraceField<As>>::TYPE;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.as_str().encode_field(encoder);
    }
}

/// System text may be invalid Unicode. Invalid parts become U+FFFD; only then is memory allocated.
#[cfg(feature = "std")]
macro_rules! system_text {
    ($($ty:ty)+) => {$(
        impl<As> TraceField<As> for $ty
        where
            str: TraceField<As>,
        {
            const TYPE: FieldType = <str as TraceField<As>>::TYPE;

            #[inline]
            fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
                self.to_string_lossy().encode_field(encoder);
            }
        }
    )+};
}

#[cfg(feature = "std")]
system_text!(OsStr OsString Path PathBuf);
