//! The values that a field can hold.

mod location;
mod net;
mod number;
mod sequence;
mod text;
mod time;
mod tuple;
#[cfg(feature = "uuid")]
mod uuid;

use crate::{encode::PayloadEncoder, encoding::Natural, schema::FieldType};

/// A value that can be a field of an event. Implemented for the types listed in the crate's docs,
/// by `#[derive(TraceField)]` for nested structs (as objects) and for field-less enums.
///
/// `As` is the spelling: a marker of [`encoding`](crate::encoding), [`Natural`] where the field
/// chooses none. Types of one's own implement `TraceField`, that is `TraceField<Natural>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of an event",
    label = "not a type that a trace can hold",
    note = "derive `TraceField` for it, convert it to a supported type, or mark the field \
            `#[trace_event(skip)]`"
)]
pub trait TraceField<As = Natural> {
    /// What the field is, in this spelling.
    const TYPE: FieldType;

    /// Hands the value to an encoder, as [`TYPE`](Self::TYPE) announces it.
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E);

    /// Hands over a run of values: the elements of an array. Bulk copies where the encoder can.
    #[inline(always)]
    fn encode_elements<E: PayloadEncoder>(values: &[Self], encoder: &mut E)
    where
        Self: Sized,
    {
        values.iter().for_each(|value| value.encode_field(encoder));
    }
}

/// A type that knows the spelling `As`: the same as [`TraceField<As>`], under a name whose compiler
/// message speaks of the `encoding = …` that a field asked for. Nothing else implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no encoding `{As}`",
    label = "the `encoding = …` of this field does not fit its type",
    note = "the docs of `#[derive(TraceEvent)]` have a table of encodings and the types that they \
            fit; leave `encoding` out for the type's own"
)]
pub trait FieldAs<As> {
    /// What the field is, in this spelling.
    const TYPE: FieldType;

    /// Hands the value to an encoder, as [`TYPE`](Self::TYPE) announces it.
    fn encode_field_as<E: PayloadEncoder>(&self, encoder: &mut E);
}

#[diagnostic::do_not_recommend]
impl<As, T: TraceField<As> + ?Sized> FieldAs<As> for T {
    const TYPE: FieldType = <T as TraceField<As>>::TYPE;

    #[inline(always)]
    fn encode_field_as<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.encode_field(encoder);
    }
}

/// A value that can stand behind the fields of its event, with only a location among them.
///
/// `As` is one of [`RelLoc`](crate::encoding::RelLoc), [`DataLoc`](crate::encoding::DataLoc),
/// [`Utf8RelLoc`](crate::encoding::Utf8RelLoc) and [`Utf8DataLoc`](crate::encoding::Utf8DataLoc).
/// Implemented for text and for sequences, whose elements must have a fixed size; the derive checks
/// that ([`check::is_locatable`](crate::check::is_locatable)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand behind the fields of an event as `{As}`",
    label = "neither text nor a sequence of values of fixed size",
    note = "a location holds `str`, `[T]` and what derefs to them; leave `encoding` out for other \
            types"
)]
pub trait LocatedField<As> {
    /// What the field is: an array or text with the layout that `As` names.
    const TYPE: FieldType;

    /// Hands the data to an encoder that was told to start the data of this location.
    fn encode_location_data<E: PayloadEncoder>(&self, encoder: &mut E);
}
