//! Checks that derived code makes in constants.
//!
//! The derive sees some values only as expressions or types, so the compiler must check them.
//! Derived code asserts these functions, with a message for the user. The derive itself checks
//! string and number literals.
//!
//! ```
//! use nettrace_event::{FieldFormat, FieldType, check};
//!
//! const _: () = assert!(
//!     check::format_fits(FieldFormat::Port, &FieldType::U16),
//!     "the format does not fit the field's type"
//! );
//! ```

use crate::schema::{ArrayLayout, EventSchema, FieldFormat, FieldSchema, FieldType};

/// The most bytes of a provider's name and group together: the limit of a Linux tracepoint.
pub const MAX_PROVIDER: usize = 233;

/// The most bytes of an event or field name.
pub const MAX_NAME: usize = 255;

/// Whether every backend and session filter accepts a provider's name: 1 byte to [`MAX_PROVIDER`]
/// (less the length of the group), without white space, control characters, `,`, `:` and `;`.
///
/// ```
/// use nettrace_event::check;
///
/// assert!(check::is_provider_name("Contoso-Checkout", Some("shop")));
/// assert!(!check::is_provider_name("Contoso Checkout", None));
/// ```
#[must_use]
pub const fn is_provider_name(name: &str, group: Option<&str>) -> bool {
    let group_len = match group {
        Some(group) => group.len(),
        None => 0,
    };
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if matches!(bytes[at], 0..=b' ' | b',' | b':' | b';' | 0x7f) {
            return false;
        }
        at += 1;
    }
    !name.is_empty() && name.len() + group_len <= MAX_PROVIDER
}

/// Whether a number is a valid event id. Readers take 0 as "none", and 65,535 is reserved.
///
/// ```
/// // In a constant, so that a wrong id does not compile.
/// const _: () = assert!(nettrace_event::check::is_event_id(17));
/// assert!(!nettrace_event::check::is_event_id(0));
/// ```
#[must_use]
pub const fn is_event_id(id: u16) -> bool {
    id != 0 && id != u16::MAX
}

/// Whether all ids that were given to event types are different.
///
/// ```
/// use nettrace_event::{EventSchema, check};
/// # use nettrace_event::example::SALE;
///
/// // `SALE` is an `EventSchema`.
/// const REFUND: EventSchema = EventSchema { name: "Refund", id: SALE.id + 1, ..SALE };
/// assert!(check::ids_are_distinct(&[&SALE, &REFUND]));
/// assert!(!check::ids_are_distinct(&[&SALE, &REFUND, &SALE]));
/// ```
#[must_use]
pub const fn ids_are_distinct(schemas: &[&EventSchema]) -> bool {
    let mut a = 0;
    while a < schemas.len() {
        let mut b = 0;
        while b < a {
            let are_given = schemas[a].id_is_explicit && schemas[b].id_is_explicit;
            if are_given && schemas[a].id == schemas[b].id {
                return false;
            }
            b += 1;
        }
        a += 1;
    }
    true
}

/// Returns the discriminant of a variant, for an enum without an integer `repr`; `None` if it does
/// not fit.
///
/// ```
/// enum Color {
///     Infrared = -1,
/// }
///
/// assert_eq!(nettrace_event::check::discriminant(Color::Infrared as isize), Some(-1));
/// ```
#[must_use]
pub const fn discriminant(value: isize) -> Option<i32> {
    if value >= i32::MIN as isize && value <= i32::MAX as isize { Some(value as i32) } else { None }
}

/// Whether a field's data may be stored after the other fields, with a location in its place: text,
/// and sequences of elements with a fixed size.
///
/// ```
/// use nettrace_event::{ArrayLayout, FieldType, check};
///
/// assert!(check::is_locatable(&FieldType::Array(&FieldType::F64, ArrayLayout::RelLoc)));
/// assert!(!check::is_locatable(&FieldType::Array(&FieldType::VarInt, ArrayLayout::RelLoc)));
/// ```
#[must_use]
pub const fn is_locatable(ty: &FieldType) -> bool {
    match ty {
        FieldType::Array(element, _) => element.is_fixed_size(),
        FieldType::Str(_) => true,
        _ => false,
    }
}

/// Whether a format fits a type. For sequences and options, the type of their elements decides.
///
/// ```
/// use nettrace_event::{ArrayLayout, FieldFormat, FieldType, check};
///
/// let ports = FieldType::Array(&FieldType::U16, ArrayLayout::Counted);
/// assert!(check::format_fits(FieldFormat::Port, &ports));
/// assert!(!check::format_fits(FieldFormat::Port, &FieldType::U32));
/// ```
#[must_use]
pub const fn format_fits(format: FieldFormat, ty: &FieldType) -> bool {
    use FieldType as T;
    match (format, ty) {
        (FieldFormat::Default, _)
        | (FieldFormat::Uuid, T::Guid | T::Array(T::U8, ArrayLayout::Fixed(16)))
        | (
            FieldFormat::IpAddress,
            T::IpAddr | T::U32 | T::Array(T::U8, ArrayLayout::Fixed(4 | 16)),
        ) => true,
        (_, T::Array(element, _)) if is_one_value(element, format) => true,
        (_, T::Array(element, _) | T::Option(element)) => format_fits(format, element),
        (FieldFormat::Signed | FieldFormat::Unsigned, ty) => {
            is_integer(ty) && !matches!(ty, T::U128 | T::I128)
        }
        (FieldFormat::Boolean, ty) => {
            matches!(ty, T::U8 | T::I8 | T::U16 | T::I16 | T::U32 | T::I32)
        }
        (FieldFormat::Hex | FieldFormat::HexBytes, ty) => is_integer(ty),
        (FieldFormat::Errno | FieldFormat::Pid, ty) => matches!(ty, T::U32 | T::I32),
        (FieldFormat::Time, ty) => {
            matches!(ty, T::U32 | T::I32 | T::U64 | T::I64 | T::UnixNanos | T::DateTime)
        }
        (FieldFormat::Port, ty) => matches!(ty, T::U16),
        (FieldFormat::Xml | FieldFormat::Json, ty) => matches!(ty, T::Str(_)),
        (
            FieldFormat::IpAddress
            | FieldFormat::Uuid
            | FieldFormat::Latin1
            | FieldFormat::Utf
            | FieldFormat::UtfBom,
            _,
        ) => false,
    }
}

/// Whether a sequence of these elements with this format is a single value of a tracepoint: text,
/// or bytes in hexadecimal. (An address or GUID is a single value too, but has a fixed length.)
///
/// ```
/// use nettrace_event::{FieldFormat, FieldType, check};
///
/// // Bytes in hexadecimal are one value. Otherwise they are an array.
/// assert!(check::is_one_value(&FieldType::U8, FieldFormat::HexBytes));
/// assert!(!check::is_one_value(&FieldType::U8, FieldFormat::Hex));
/// ```
#[must_use]
pub const fn is_one_value(element: &FieldType, format: FieldFormat) -> bool {
    use FieldFormat as F;
    match element {
        FieldType::U8 => {
            matches!(format, F::HexBytes | F::Latin1 | F::Utf | F::UtfBom | F::Xml | F::Json)
        }
        FieldType::U16 | FieldType::Utf16Unit | FieldType::U32 | FieldType::Char => {
            matches!(format, F::Utf | F::UtfBom)
        }
        _ => false,
    }
}

/// The most levels of nested structs that a tracepoint's decoder follows.
pub const MAX_NESTING: usize = 8;

/// The most fields of a struct in a tracepoint's event: the metadata stores the number in seven
/// bits.
pub const MAX_STRUCT_FIELDS: usize = 127;

/// Whether no struct in these fields has more than [`MAX_STRUCT_FIELDS`] fields.
///
/// ```
/// use nettrace_event::{FieldSchema, FieldType, check};
///
/// const WIDE: [FieldSchema; 128] = [FieldSchema::new("field", FieldType::U8); 128];
/// // The event itself can have 128 fields, a struct cannot.
/// assert!(check::structs_are_small(&WIDE));
/// assert!(!check::structs_are_small(&[FieldSchema::new("wide", FieldType::Object(&WIDE))]));
/// ```
#[must_use]
pub const fn structs_are_small(fields: &[FieldSchema]) -> bool {
    let mut at = 0;
    while at < fields.len() {
        let mut ty = &fields[at].ty;
        while let FieldType::Array(inner, _) | FieldType::Option(inner) = ty {
            ty = inner;
        }
        if let FieldType::Object(inner) = ty {
            if inner.len() > MAX_STRUCT_FIELDS || !structs_are_small(inner) {
                return false;
            }
        }
        at += 1;
    }
    true
}

/// Whether a tracepoint can describe these fields: no struct in them has more than
/// [`MAX_STRUCT_FIELDS`] fields or is nested more than [`MAX_NESTING`] deep.
///
/// ```
/// use nettrace_event::{FieldSchema, FieldType, check};
///
/// const POINT: &[FieldSchema] =
///     &[FieldSchema::new("x", FieldType::I32), FieldSchema::new("y", FieldType::I32)];
/// assert!(check::can_nest(&[FieldSchema::new("from", FieldType::Object(POINT))]));
/// ```
#[must_use]
pub const fn can_nest(fields: &[FieldSchema]) -> bool {
    fields_nest(fields, MAX_NESTING)
}

/// Whether a tracepoint can store a type's absent value as null: types with a fixed number of
/// bytes, and addresses. An option of any other type becomes an array of zero or one element.
///
/// ```
/// use nettrace_event::{FieldFormat, FieldType, StrEncoding, check};
///
/// assert!(check::has_null(&FieldType::U32, FieldFormat::Default));
/// assert!(!check::has_null(&FieldType::Str(StrEncoding::Utf8), FieldFormat::Default));
/// ```
#[must_use]
pub const fn has_null(ty: &FieldType, format: FieldFormat) -> bool {
    match ty {
        FieldType::Array(FieldType::U8, ArrayLayout::Fixed(_)) => {
            matches!(format, FieldFormat::HexBytes | FieldFormat::IpAddress | FieldFormat::Uuid)
        }
        FieldType::Str(_)
        | FieldType::SocketAddr
        | FieldType::Array(..)
        | FieldType::Object(_)
        | FieldType::Option(_) => false,
        _ => true,
    }
}

const fn fields_nest(fields: &[FieldSchema], room: usize) -> bool {
    let mut at = 0;
    while at < fields.len() {
        if !type_nests(&fields[at].ty, fields[at].format, false, room) {
            return false;
        }
        at += 1;
    }
    true
}

/// `element` states that the type is that of an element. A sequence then needs a struct around it,
/// because tracepoints have no arrays of arrays.
const fn type_nests(ty: &FieldType, format: FieldFormat, element: bool, room: usize) -> bool {
    match ty {
        FieldType::Object(fields) => {
            room > 0 && fields.len() <= MAX_STRUCT_FIELDS && fields_nest(fields, room - 1)
        }
        FieldType::SocketAddr => room > 0,
        FieldType::Array(inner, _) if is_one_value(inner, format) => true,
        FieldType::Array(FieldType::U8, ArrayLayout::Fixed(_))
            if matches!(format, FieldFormat::IpAddress | FieldFormat::Uuid) =>
        {
            true
        }
        FieldType::Option(inner) if has_null(inner, format) => true,
        FieldType::Array(inner, _) | FieldType::Option(inner) => {
            if element {
                room > 0 && type_nests(inner, format, true, room - 1)
            } else {
                type_nests(inner, format, true, room)
            }
        }
        _ => true,
    }
}

const fn is_integer(ty: &FieldType) -> bool {
    use FieldType::*;
    matches!(ty, U8 | U16 | U32 | U64 | U128 | I8 | I16 | I32 | I64 | I128 | VarUInt | VarInt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{FieldSchema, StrEncoding};

    #[test]
    fn formats_look_through_options_and_sequences() {
        let ports = FieldType::Option(&FieldType::Array(&FieldType::U16, ArrayLayout::Counted));
        assert!(format_fits(FieldFormat::Port, &ports));
        assert!(!format_fits(FieldFormat::Errno, &ports));
        assert!(format_fits(FieldFormat::Default, &FieldType::Object(&[])));
        assert!(!format_fits(FieldFormat::Hex, &FieldType::Object(&[])));
        assert!(format_fits(FieldFormat::Json, &FieldType::Str(StrEncoding::Utf8)));
    }

    #[test]
    fn address_formats_take_four_or_sixteen_bytes() {
        let bytes = |n| FieldType::Array(&FieldType::U8, ArrayLayout::Fixed(n));
        assert!(format_fits(FieldFormat::IpAddress, &bytes(4)));
        assert!(format_fits(FieldFormat::IpAddress, &bytes(16)));
        assert!(!format_fits(FieldFormat::IpAddress, &bytes(5)));
        assert!(format_fits(FieldFormat::HexBytes, &bytes(5)));
    }

    #[test]
    fn nesting_counts_structs_and_what_needs_one() {
        const fn within(ty: FieldType) -> [FieldSchema; 1] {
            [FieldSchema::new("field", ty)]
        }
        static LEVELS: [[FieldSchema; 1]; 9] = {
            let mut levels = [within(FieldType::U8); 9];
            levels[1] = within(FieldType::Object(&LEVELS[0]));
            levels[2] = within(FieldType::Object(&LEVELS[1]));
            levels[3] = within(FieldType::Object(&LEVELS[2]));
            levels[4] = within(FieldType::Object(&LEVELS[3]));
            levels[5] = within(FieldType::Object(&LEVELS[4]));
            levels[6] = within(FieldType::Object(&LEVELS[5]));
            levels[7] = within(FieldType::Object(&LEVELS[6]));
            levels[8] = within(FieldType::Object(&LEVELS[7]));
            levels
        };
        static SEQUENCE: FieldType = FieldType::Array(&FieldType::U8, ArrayLayout::Counted);
        assert!(can_nest(&LEVELS[8]));
        assert!(!can_nest(&within(FieldType::Object(&LEVELS[8]))));
        assert!(type_nests(&FieldType::Option(&FieldType::U8), FieldFormat::Default, false, 0));
        assert!(type_nests(&SEQUENCE, FieldFormat::Default, false, 0));
        assert!(!type_nests(&FieldType::Option(&SEQUENCE), FieldFormat::Default, false, 0));
        assert!(type_nests(&FieldType::Option(&SEQUENCE), FieldFormat::HexBytes, false, 0));
        static MANY: [FieldSchema; 128] = [FieldSchema::new("field", FieldType::U8); 128];
        assert!(can_nest(&MANY));
        assert!(!can_nest(&within(FieldType::Object(&MANY))));
        assert!(can_nest(&within(FieldType::Object(&MANY[..127]))));
        static WIDE: FieldType = FieldType::Object(&MANY);
        assert!(!structs_are_small(&within(FieldType::Option(&WIDE))));
        assert!(structs_are_small(&MANY) && structs_are_small(&LEVELS[8]));
    }

    #[test]
    fn provider_names_leave_room_for_the_group() {
        let longest = core::str::from_utf8(&[b'x'; 233]).unwrap();
        assert!(is_provider_name(longest, None));
        assert!(!is_provider_name(longest, Some("a")));
        assert!(is_provider_name("Ünïcode-1_2.3", Some("a")));
        for name in ["", "a b", "a:b", "a;b", "a,b", "a\0", "a\n", "\u{7f}"] {
            assert!(!is_provider_name(name, None), "{name:?}");
        }
    }

    #[test]
    fn numbers_are_bounded() {
        assert!(is_event_id(1) && is_event_id(65_534));
        assert!(!is_event_id(0) && !is_event_id(65_535));
        assert_eq!(discriminant(-5), Some(-5));
        #[cfg(target_pointer_width = "64")]
        assert_eq!(discriminant(1 << 31), None);
    }

    #[test]
    fn located_elements_have_a_fixed_size() {
        let of = |element| is_locatable(&FieldType::Array(element, ArrayLayout::RelLoc));
        assert!(of(&FieldType::U128) && of(&FieldType::DateTime) && of(&FieldType::Utf16Unit));
        assert!(of(&FieldType::Array(&FieldType::U8, ArrayLayout::Fixed(2))));
        assert!(!of(&FieldType::VarInt) && !of(&FieldType::Char) && !of(&FieldType::IpAddr));
        assert!(!of(&FieldType::Array(&FieldType::VarUInt, ArrayLayout::Fixed(2))));
        const PAIR: &[FieldSchema] = &[
            FieldSchema::new("a", FieldType::U8),
            FieldSchema::new("b", FieldType::Option(&FieldType::U8)),
        ];
        assert!(!of(&FieldType::Object(PAIR)));
        assert!(!is_locatable(&FieldType::U8));
    }
}
