//! The metadata of an event: its name and attributes, then the name and type of each field. It is
//! built once for a type, and every event carries it.

use nettrace_event::{
    ArrayLayout, EventSchema, FieldFormat, FieldSchema, FieldType,
    check::{MAX_NAME, MAX_NESTING, MAX_STRUCT_FIELDS},
};

use crate::{
    error::Error,
    layout::{encoding, format},
    shape::{self, Shape},
};

/// The metadata of a type.
pub(crate) fn of_schema(schema: &EventSchema) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(256);
    name("event", schema.name, &mut out)?;
    attributes(schema.key_values, &mut out)?;
    out.push(0);
    fields(schema.fields, MAX_NESTING, &mut out)?;
    Ok(out)
}

/// Appends a name, without a NUL after it.
pub(crate) fn name(what: &'static str, text: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    let problem = if text.is_empty() {
        "is empty"
    } else if text.len() > MAX_NAME {
        "has more than 255 bytes"
    } else if text.bytes().any(|byte| matches!(byte, 0 | b';')) {
        "has a NUL or a `;` in it"
    } else {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    };
    Err(Error::Name { what, name: text.to_owned(), problem })
}

/// Appends an attribute to a name: `;key=value`, where a `;` in the value is doubled.
pub(crate) fn attribute(key: &str, value: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    let problem = if key.is_empty() {
        "is empty"
    } else if key.bytes().any(|byte| matches!(byte, 0 | b';' | b'=')) {
        "has a NUL, a `;` or a `=` in it"
    } else if value.contains('\0') {
        "has a value with a NUL in it"
    } else {
        out.push(b';');
        out.extend_from_slice(key.as_bytes());
        out.push(b'=');
        for byte in value.bytes() {
            out.push(byte);
            if byte == b';' {
                out.push(byte);
            }
        }
        return Ok(());
    };
    Err(Error::Name { what: "attribute", name: key.to_owned(), problem })
}

/// The key-value pairs of an event or a field.
type Pairs = [(&'static str, &'static str)];

/// Appends attributes to a name.
fn attributes(pairs: &Pairs, out: &mut Vec<u8>) -> Result<(), Error> {
    pairs.iter().try_for_each(|(key, value)| attribute(key, value, out))
}

/// The number of values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arity {
    /// One.
    One,
    /// The number in the metadata.
    Constant(u16),
    /// The number in the payload.
    Variable,
}

/// Appends a field: `text` is its name, `room` the number of structs that may still be nested in
/// it.
pub(crate) fn field(
    text: &str,
    ty: &'static FieldType,
    wanted: FieldFormat,
    tag: u16,
    room: usize,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let described = Described { name: text, attributes: &[], wanted, tag };
    described.describe(ty, Arity::One, room, out)
}

/// Appends a field's name and description.
pub(crate) fn entry(
    text: &str,
    encoding: u8,
    format: u8,
    tag: u16,
    arity: Arity,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    name("field", text, out)?;
    description(encoding, format, tag, arity, out);
    Ok(())
}

/// Appends the part of a field after its name.
fn description(encoding: u8, format: u8, tag: u16, arity: Arity, out: &mut Vec<u8>) {
    out.push(0);
    let (array, count) = match arity {
        Arity::One => (0, None),
        Arity::Constant(count) => (encoding::CONSTANT_ARRAY, Some(count)),
        Arity::Variable => (encoding::VARIABLE_ARRAY, None),
    };
    let format = if is_default(encoding, format) { format::DEFAULT } else { format };
    let has_tag = if tag == 0 { 0 } else { format::HAS_TAG };
    if format | has_tag == 0 {
        out.push(encoding | array);
    } else {
        out.push(encoding | array | encoding::HAS_FORMAT);
        out.push(format | has_tag);
    }
    if tag != 0 {
        out.extend_from_slice(&tag.to_ne_bytes());
    }
    if let Some(count) = count {
        out.extend_from_slice(&count.to_ne_bytes());
    }
}

struct Described<'a> {
    name: &'a str,
    attributes: &'a Pairs,
    wanted: FieldFormat,
    tag: u16,
}

impl Described<'_> {
    fn describe(
        &self,
        ty: &'static FieldType,
        arity: Arity,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        match shape::of(ty, self.wanted) {
            Shape::Fixed { encoding, format, .. } | Shape::Delimited { encoding, format } => {
                self.entry(encoding, format, arity, out)
            }
            Shape::Struct(members) => {
                self.begin_struct(members.len(), arity, room, out)?;
                fields(members, room - 1, out)
            }
            Shape::Array(element, layout) => match arity {
                Arity::One => self.describe(element, arity_of(layout), room, out),
                _ => self.wrap("items", ty, arity, room, out),
            },
            Shape::Option(inner) => match arity {
                Arity::One => self.describe(inner, Arity::Variable, room, out),
                _ => self.wrap("value", ty, arity, room, out),
            },
        }
    }

    /// Appends an element that is itself an array: a struct with that array as its only field.
    fn wrap(
        &self,
        inner: &str,
        ty: &'static FieldType,
        arity: Arity,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.begin_struct(1, arity, room, out)?;
        field(inner, ty, self.wanted, 0, room - 1, out)
    }

    fn entry(
        &self,
        encoding: u8,
        format: u8,
        arity: Arity,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        name("field", self.name, out)?;
        attributes(self.attributes, out)?;
        description(encoding, format, self.tag, arity, out);
        Ok(())
    }

    fn begin_struct(
        &self,
        count: usize,
        arity: Arity,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let field = || self.name.to_owned();
        if room == 0 {
            return Err(Error::TooDeep { field: field() });
        }
        match u8::try_from(count) {
            Ok(0) => Err(Error::EmptyStruct { field: field() }),
            Ok(count) if usize::from(count) <= MAX_STRUCT_FIELDS => {
                self.entry(encoding::STRUCT, count, arity, out)
            }
            _ => Err(Error::TooManyFields { field: field(), count }),
        }
    }
}

/// Appends fields in the order of the payload: fields with a location come last.
fn fields(of: &'static [FieldSchema], room: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    for located in [false, true] {
        for one in of.iter().filter(|one| shape::is_located(&one.ty) == located) {
            let FieldSchema { name, format: wanted, tag, key_values: attributes, .. } = *one;
            let described = Described { name, attributes, wanted, tag };
            described.describe(&one.ty, Arity::One, room, out)?;
        }
    }
    Ok(())
}

fn arity_of(layout: ArrayLayout) -> Arity {
    match layout {
        ArrayLayout::Fixed(count) if count > 0 => Arity::Constant(count),
        _ => Arity::Variable,
    }
}

/// Whether `format` is the default of the encoding.
fn is_default(encoding: u8, format: u8) -> bool {
    match encoding {
        encoding::VALUE8..=encoding::VALUE64 => format == format::UNSIGNED,
        encoding::VALUE128 | encoding::BINARY_LENGTH16_CHAR8 => format == format::HEX_BYTES,
        encoding::Z_STRING_CHAR8..=encoding::STRING_LENGTH16_CHAR32 => format == format::UTF,
        _ => false,
    }
}
