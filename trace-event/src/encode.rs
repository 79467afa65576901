//! The one way from a value to bytes: a value drives an encoder, the encoder knows its format.

use crate::schema::{ArrayLayout, FieldFormat, FieldType, StrEncoding};

/// Takes the values of one event, in the order of its schema. Every backend brings its own.
///
/// Calls must match the schema of the event: what [`FieldType`](crate::FieldType) announces for a
/// field is the method that is called for it. An encoder never fails loudly: what does not fit is
/// remembered, and the event is refused and counted as a whole.
///
/// All methods are meant to be inlined; an encoder for a payload of constant size folds to constant
/// offsets.
pub trait PayloadEncoder: Sized {
    /// A place to return to, for lengths and locations that are known only later.
    type Mark: Copy;

    /// [`FieldType::Bool`].
    fn bool(&mut self, value: bool);
    /// [`FieldType::Bool8`].
    fn bool8(&mut self, value: bool);
    /// [`FieldType::U8`].
    fn u8(&mut self, value: u8);
    /// [`FieldType::U16`].
    fn u16(&mut self, value: u16);
    /// [`FieldType::U32`].
    fn u32(&mut self, value: u32);
    /// [`FieldType::U64`].
    fn u64(&mut self, value: u64);
    /// [`FieldType::U128`].
    fn u128(&mut self, value: u128);
    /// [`FieldType::I8`].
    fn i8(&mut self, value: i8);
    /// [`FieldType::I16`].
    fn i16(&mut self, value: i16);
    /// [`FieldType::I32`].
    fn i32(&mut self, value: i32);
    /// [`FieldType::I64`].
    fn i64(&mut self, value: i64);
    /// [`FieldType::I128`].
    fn i128(&mut self, value: i128);
    /// [`FieldType::F32`].
    fn f32(&mut self, value: f32);
    /// [`FieldType::F64`].
    fn f64(&mut self, value: f64);
    /// [`FieldType::VarUInt`].
    fn var_uint(&mut self, value: u64);
    /// [`FieldType::VarInt`].
    fn var_int(&mut self, value: i64);
    /// [`FieldType::Char`].
    fn char(&mut self, value: char);
    /// [`FieldType::Utf16Unit`].
    fn utf16_unit(&mut self, value: u16);
    /// [`FieldType::Str`], with an encoding that is not a location.
    fn str(&mut self, value: &str, encoding: StrEncoding);
    /// [`FieldType::Guid`], in the byte order of RFC 4122.
    fn guid(&mut self, value: &[u8; 16]);
    /// [`FieldType::UnixNanos`].
    fn unix_nanos(&mut self, value: i64);
    /// [`FieldType::DateTime`], from milliseconds since 1970-01-01 UTC.
    fn date_time(&mut self, unix_millis: i64);
    /// [`FieldType::DurationNanos`].
    fn duration_nanos(&mut self, value: u64);
    /// [`FieldType::IpAddr`].
    fn ip_addr(&mut self, value: &core::net::IpAddr);
    /// [`FieldType::SocketAddr`].
    fn socket_addr(&mut self, value: &core::net::SocketAddr);

    /// Opens [`FieldType::Array`] of a layout that is not a location; the elements follow.
    fn begin_array(&mut self, len: usize, layout: ArrayLayout) -> Self::Mark;
    /// The same with the type of the elements, for encoders whose bytes depend on it. This is what a
    /// sequence calls.
    #[inline(always)]
    fn begin_array_of(
        &mut self,
        len: usize,
        layout: ArrayLayout,
        element: &'static FieldType,
    ) -> Self::Mark {
        let _ = element;
        self.begin_array(len, layout)
    }
    /// Closes what [`begin_array`](Self::begin_array) opened.
    fn end_array(&mut self, mark: Self::Mark);
    /// Opens [`FieldType::Option`] of the named type; the value follows if `present`.
    fn begin_option(&mut self, present: bool, ty: &'static FieldType) -> Self::Mark;
    /// Closes what [`begin_option`](Self::begin_option) opened.
    fn end_option(&mut self, mark: Self::Mark);

    /// Leaves room for the location of data that follows behind the fields of the event.
    fn begin_location(&mut self, ty: &'static FieldType) -> Self::Mark;
    /// Starts the data of that location; called after the last field, in the order of the fields.
    /// What is encoded until [`end_location_data`](Self::end_location_data) is the data: elements
    /// one by one, or [`location_str`](Self::location_str).
    fn begin_location_data(&mut self, mark: Self::Mark, ty: &'static FieldType);
    /// Text as the data of a location, without a count.
    fn location_str(&mut self, value: &str, encoding: StrEncoding);
    /// Ends the data of that location.
    fn end_location_data(&mut self, mark: Self::Mark, ty: &'static FieldType);

    /// Comes before a field that has a [format](FieldFormat); encoders whose bytes do not depend on
    /// it ignore it. For a field that stands behind the others it comes twice: around its location
    /// and around its data.
    #[inline(always)]
    fn begin_format(&mut self, format: FieldFormat) {
        let _ = format;
    }
    /// Comes after what [`begin_format`](Self::begin_format) came before.
    #[inline(always)]
    fn end_format(&mut self) {}

    /// Elements of a sequence, as by calling the method of the type for each; encoders whose
    /// bytes are the values' own copy them at once.
    fn u8_elements(&mut self, values: &[u8]) {
        values.iter().for_each(|&value| self.u8(value));
    }
    /// The same for u16.
    fn u16_elements(&mut self, values: &[u16]) {
        values.iter().for_each(|&value| self.u16(value));
    }
    /// The same for u32.
    fn u32_elements(&mut self, values: &[u32]) {
        values.iter().for_each(|&value| self.u32(value));
    }
    /// The same for u64.
    fn u64_elements(&mut self, values: &[u64]) {
        values.iter().for_each(|&value| self.u64(value));
    }
    /// The same for i8.
    fn i8_elements(&mut self, values: &[i8]) {
        values.iter().for_each(|&value| self.i8(value));
    }
    /// The same for i16.
    fn i16_elements(&mut self, values: &[i16]) {
        values.iter().for_each(|&value| self.i16(value));
    }
    /// The same for i32.
    fn i32_elements(&mut self, values: &[i32]) {
        values.iter().for_each(|&value| self.i32(value));
    }
    /// The same for i64.
    fn i64_elements(&mut self, values: &[i64]) {
        values.iter().for_each(|&value| self.i64(value));
    }
    /// The same for f32.
    fn f32_elements(&mut self, values: &[f32]) {
        values.iter().for_each(|&value| self.f32(value));
    }
    /// The same for f64.
    fn f64_elements(&mut self, values: &[f64]) {
        values.iter().for_each(|&value| self.f64(value));
    }
}
