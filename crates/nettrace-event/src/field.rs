//! The values that a field can hold.

#[cfg(feature = "alloc")]
mod cut;
mod location;
mod map;
mod net;
mod number;
mod sequence;
mod shown;
mod text;
mod time;
mod tuple;
#[cfg(feature = "uuid")]
mod uuid;

#[cfg(feature = "alloc")]
pub use self::cut::Cut;
pub use self::map::Pairs;
use crate::{
    encode::PayloadEncoder,
    encoding::Natural,
    schema::{FieldSchema, FieldType},
};

/// A value that can be a field of an event. Implemented for the types listed in the crate's docs.
/// `#[derive(TraceField)]` implements it for nested structs, as objects, and for field-less enums.
///
/// `As` is the encoding: a marker of [`encoding`](crate::encoding), or [`Natural`] if the field
/// chooses none. Your own types implement `TraceField`, which is `TraceField<Natural>`.
///
/// ```
/// use nettrace_event::{ArrayLayout, FieldType, PayloadEncoder, TraceField};
///
/// /// A temperature, which events store in thousandths of a degree.
/// struct Celsius(f64);
///
/// impl TraceField for Celsius {
///     const TYPE: FieldType = FieldType::I32;
///
///     fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
///         encoder.i32((self.0 * 1_000.0) as i32);
///     }
/// }
///
/// // Options, slices and so on of it are fields, too.
/// let array = FieldType::Array(&FieldType::I32, ArrayLayout::Counted);
/// assert_eq!(<[Celsius] as TraceField>::TYPE, array);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of an event",
    label = "not a type that a trace can hold",
    note = "derive `TraceField` for it, convert it to a supported type (`to_string()` makes a \
            `String`), or mark the field `#[trace_event(skip)]`"
)]
pub trait TraceField<As = Natural> {
    /// The type of the field in this encoding.
    const TYPE: FieldType;

    /// Whether this is a [`Secret`](crate::Secret), or may hold one.
    const IS_SECRET: bool = false;

    /// Passes the value to an encoder, in the form that [`TYPE`](Self::TYPE) states.
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E);

    /// Passes the elements of an array to an encoder, which may copy them at once.
    #[inline]
    fn encode_elements<E: PayloadEncoder>(values: &[Self], encoder: &mut E)
    where
        Self: Sized,
    {
        values.iter().for_each(|value| value.encode_field(encoder));
    }
}

/// The schema of a part of a value that has parts.
const fn part<T: TraceField<As>, As>(name: &'static str) -> FieldSchema {
    FieldSchema { is_secret: T::IS_SECRET, ..FieldSchema::new(name, T::TYPE) }
}

/// A type that supports the encoding `As`. It is the same as [`TraceField<As>`], and nothing else
/// implements it. Its own name gives a compiler message about the field's `encoding = …`.
///
/// ```
/// use nettrace_event::{FieldAs, FieldType, encoding::VarInt};
///
/// assert_eq!(<u64 as FieldAs<VarInt>>::TYPE, FieldType::VarUInt);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no encoding `{As}`",
    label = "the `encoding = …` of this field does not fit its type",
    note = "the docs of `#[derive(TraceEvent)]` have a table of encodings and the types that they \
            fit; leave `encoding` out for the type's own"
)]
pub trait FieldAs<As> {
    /// The type of the field in this encoding.
    const TYPE: FieldType;

    /// Passes the value to an encoder, in the form that [`TYPE`](Self::TYPE) states.
    fn encode_field_as<E: PayloadEncoder>(&self, encoder: &mut E);
}

#[diagnostic::do_not_recommend]
impl<As, T: TraceField<As> + ?Sized> FieldAs<As> for T {
    const TYPE: FieldType = <T as TraceField<As>>::TYPE;

    #[inline]
    fn encode_field_as<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.encode_field(encoder);
    }
}

/// A value whose data can be stored after the fields of its event, with a location in its place.
///
/// `As` is one of [`RelLoc`](crate::encoding::RelLoc), [`DataLoc`](crate::encoding::DataLoc),
/// [`Utf8RelLoc`](crate::encoding::Utf8RelLoc) and [`Utf8DataLoc`](crate::encoding::Utf8DataLoc).
/// Implemented for text and for sequences. Their elements must have a fixed size, which the derive
/// checks with [`check::is_locatable`](crate::check::is_locatable).
///
/// ```
/// use nettrace_event::{FieldType, LocatedField, StrEncoding, encoding::RelLoc};
///
/// assert_eq!(<str as LocatedField<RelLoc>>::TYPE, FieldType::Str(StrEncoding::Utf16RelLoc));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored after the fields of an event as `{As}`",
    label = "neither text nor a sequence of values of fixed size",
    note = "a location holds `str`, `[T]` and what derefs to them; leave `encoding` out for other \
            types"
)]
pub trait LocatedField<As> {
    /// The type of the field: an array or text with the layout that `As` names.
    const TYPE: FieldType;

    /// Passes the data to an encoder, after the call that starts the data of this location.
    fn encode_location_data<E: PayloadEncoder>(&self, encoder: &mut E);
}

/// A value that an event holds as text, by a trait that shows it.
///
/// `As` is one of [`Display`](crate::encoding::Display), [`Debug`](crate::encoding::Debug),
/// [`Error`](crate::encoding::Error) and [`AsRef`](crate::encoding::AsRef). Every type with that
/// trait has an implementation.
///
/// Up to 256 bytes of text take no allocation. A longer text is formatted twice, the second time
/// into a `String`. Without the feature `alloc` it ends there.
///
/// ```
/// use nettrace_event::{FieldType, StrEncoding, TextField, encoding::Display};
///
/// assert_eq!(<f64 as TextField<Display>>::TYPE, FieldType::Str(StrEncoding::Utf16));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be recorded as text by `{As}`",
    label = "has no such text",
    note = "`encoding = display`, `debug`, `error` and `as_ref` record what implements `Display`, \
            `Debug`, `Error` and `AsRef<str>`"
)]
pub trait TextField<As> {
    /// The type of the field: text.
    const TYPE: FieldType;

    /// Passes the text to an encoder.
    fn encode_text<E: PayloadEncoder>(&self, encoder: &mut E);
}
