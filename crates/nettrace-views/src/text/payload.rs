//! The decoded fields of an event.

use nettrace_reader::{Error, Event, Type, Value};

use crate::{
    model::{RustTypes, walk},
    text::EventType,
};

/// The decoded fields of an event.
#[derive(Debug)]
pub struct Payload<'a> {
    /// Names, all different, and values. A value is `None` if it cannot be decoded, if the payload
    /// ends before the field, or if it is not known where the field begins.
    pub fields: Vec<(&'a str, Option<Value<'a>>)>,
    /// The size of the payload.
    pub bytes: usize,
    /// Why a field could not be decoded.
    pub error: Option<Error>,
    /// What the type states of the fields.
    pub types: &'a RustTypes,
}

impl<'a> Payload<'a> {
    /// Decodes the fields of an event of this type.
    #[must_use]
    pub fn of(event: &Event<'a>, ty: &'a EventType) -> Self {
        let types = &event.metadata().fields;
        let mut fields: Vec<(&str, Option<Value<'a>>)> = Vec::with_capacity(types.len());
        let error = walk(event, |place, value| {
            let missing = ty.names.get(fields.len()..place).unwrap_or_default();
            fields.extend(missing.iter().map(|name| (&**name, None)));
            fields.extend(ty.names.get(place).map(|name| (&**name, Some(value))));
        });
        let error = error.err();
        let absent = types.iter().zip(&ty.names).skip(fields.len());
        let shown = absent.filter(|(field, _)| error.is_some() || field.ty != Type::Rest);
        fields.extend(shown.map(|(_, name)| (&**name, None)));
        Self { fields, bytes: event.payload.len(), error, types: &ty.rust_types }
    }
}
