//! Encodes values as NetTrace payload bytes.

use super::{
    MAX_ELEMENTS, MAX_PAYLOAD,
    buffer::{Buffer, Refusal, TextBounds},
    primitive::{self, MAX_VARUINT64},
};
use crate::{
    encode::PayloadEncoder,
    guid,
    schema::{ArrayLayout, FieldType, StrEncoding},
};

/// Writes the payload of one event into a buffer.
///
/// Numbers are little endian and unpadded. A `bool` takes 4 bytes. Counts of text are in code
/// units. An option is a counted array of zero or one element. The data of `RelLoc` and `DataLoc`
/// fields comes after the last field.
///
/// ```
/// use nettrace_event::{PayloadEncoder, TraceField};
/// use nettrace_event::payload::{NetTraceEncoder, VecBuffer};
///
/// let mut encoder = NetTraceEncoder::new(VecBuffer::new());
/// encoder.bool(true);
/// encoder.u16(7);
/// // Any value that can be a field passes itself to an encoder.
/// <_ as TraceField>::encode_field(&("go", [3_u8, 5], Some(9_u8)), &mut encoder);
/// let payload = encoder.finish().into_payload()?;
/// assert_eq!(payload[..6], [1, 0, 0, 0, 7, 0]);
/// assert_eq!(payload[6..], [2, 0, b'g', 0, b'o', 0, 3, 5, 1, 0, 9]);
/// # Ok::<(), nettrace_event::payload::Refusal>(())
/// ```
#[derive(Debug)]
pub struct NetTraceEncoder<B: Buffer> {
    buffer: B,
    /// The buffer's length before the payload.
    base: usize,
    /// Where the data of the current location begins.
    location_start: usize,
    counter: u64,
}

impl<B: Buffer> NetTraceEncoder<B> {
    /// An encoder for a payload that begins where `buffer` ends now.
    ///
    /// ```
    /// use nettrace_event::PayloadEncoder;
    /// use nettrace_event::payload::{NetTraceEncoder, VecBuffer};
    ///
    /// // A buffer with a row's header in it. The payload begins behind that.
    /// let mut row = VecBuffer::new();
    /// row.bytes.extend([0, 50]);
    /// let mut encoder = NetTraceEncoder::new(row);
    /// encoder.u16(7);
    /// assert_eq!(encoder.finish().bytes, [0, 50, 7, 0]);
    /// ```
    #[inline]
    pub fn new(buffer: B) -> Self {
        let base = buffer.len();
        Self { buffer, base, location_start: 0, counter: 0 }
    }

    /// States the processor's counter at the event: see [`PayloadEncoder::counter`].
    #[inline]
    #[must_use]
    pub fn at(mut self, counter: u64) -> Self {
        self.counter = counter;
        self
    }

    /// Checks the payload's size and returns the buffer. The payload is what the buffer has grown
    /// by, unless it overflowed or the event was refused.
    #[inline]
    pub fn finish(mut self) -> B {
        if self.position() > MAX_PAYLOAD {
            self.buffer.fail(Refusal::PayloadTooLarge);
        }
        self.buffer
    }

    /// Returns the buffer, whose length the caller checks.
    #[inline]
    pub fn into_buffer(self) -> B {
        self.buffer
    }

    /// Bytes of payload so far.
    #[inline]
    fn position(&self) -> usize {
        self.buffer.len().wrapping_sub(self.base)
    }

    /// Writes a count of elements, or refuses the event if readers cannot take that many.
    #[inline]
    fn count(&mut self, count: usize) -> bool {
        if count > MAX_ELEMENTS {
            self.buffer.fail(Refusal::TooManyElements);
            return false;
        }
        self.buffer.put(&(count as u16).to_le_bytes());
        true
    }

    #[inline]
    fn utf8(&mut self, value: &str, counted: bool) {
        if !counted || self.count(value.len()) {
            self.buffer.put(value.as_bytes());
        }
    }
}

/// Generates methods for numbers that are stored as their little-endian bytes.
macro_rules! numbers {
    ($($method:ident: $ty:ty;)*) => {
        $(
            #[inline]
            fn $method(&mut self, value: $ty) {
                self.buffer.put(&value.to_le_bytes());
            }
        )*
    };
}

impl<B: Buffer> PayloadEncoder for NetTraceEncoder<B> {
    type Mark = usize;

    const TAKES_PAYLOADS: bool = true;

    #[inline]
    fn payload(&mut self, bytes: &[u8]) {
        self.buffer.put(bytes);
    }

    #[inline]
    fn counter(&self) -> u64 {
        self.counter
    }

    #[inline]
    fn expect(&mut self, len: usize) -> bool {
        self.buffer.expect(len)
    }

    numbers! {
        u8: u8;
        u16: u16;
        u32: u32;
        u64: u64;
        u128: u128;
        i8: i8;
        i16: i16;
        i32: i32;
        i64: i64;
        i128: i128;
        f32: f32;
        f64: f64;
    }

    #[inline]
    fn bool(&mut self, value: bool) {
        self.u32(value.into());
    }

    #[inline]
    fn var_uint(&mut self, value: u64) {
        if value < 0x80 {
            return self.u8(value as u8);
        }
        let mut bytes = [0; MAX_VARUINT64];
        let len = primitive::put_varuint(&mut bytes, 0, value);
        self.buffer.put(&bytes[..len]);
    }

    #[inline]
    fn var_int(&mut self, value: i64) {
        self.var_uint(primitive::zigzag(value));
    }

    #[inline]
    fn str(&mut self, value: &str, encoding: StrEncoding) {
        match encoding {
            StrEncoding::Utf16Nul => self.buffer.put_utf16(value, TextBounds::Terminated),
            StrEncoding::Utf8 | StrEncoding::Utf8RelLoc | StrEncoding::Utf8DataLoc => {
                self.utf8(value, true);
            }
            StrEncoding::Utf16 | StrEncoding::Utf16RelLoc | StrEncoding::Utf16DataLoc => {
                self.buffer.put_utf16(value, TextBounds::Counted);
            }
        }
    }

    #[inline]
    fn guid(&mut self, value: &[u8; 16]) {
        self.buffer.put(&guid::swapped(value));
    }

    #[inline]
    fn begin_array(&mut self, len: usize, layout: ArrayLayout) -> usize {
        match layout {
            ArrayLayout::Counted => {
                self.count(len);
            }
            ArrayLayout::Fixed(count) if usize::from(count) != len => {
                self.buffer.fail(Refusal::WrongElementCount);
            }
            ArrayLayout::Fixed(_) | ArrayLayout::RelLoc | ArrayLayout::DataLoc => {}
        }
        0
    }

    #[inline]
    fn end_array(&mut self, _: usize) {}

    #[inline]
    fn begin_option(&mut self, present: bool, _: &'static FieldType) -> usize {
        self.u16(present.into());
        0
    }

    #[inline]
    fn end_option(&mut self, _: usize) {}

    #[inline]
    fn begin_location(&mut self, _: &'static FieldType) -> usize {
        let at = self.buffer.len();
        self.u32(0);
        at
    }

    #[inline]
    fn begin_location_data(&mut self, _: usize, _: &'static FieldType) {
        self.location_start = self.buffer.len();
    }

    #[inline]
    fn location_str(&mut self, value: &str, encoding: StrEncoding) {
        match encoding {
            StrEncoding::Utf8 | StrEncoding::Utf8RelLoc | StrEncoding::Utf8DataLoc => {
                self.utf8(value, false);
            }
            _ => self.buffer.put_utf16(value, TextBounds::Elsewhere),
        }
    }

    #[inline]
    fn end_location_data(&mut self, at: usize, ty: &'static FieldType) {
        let relative = matches!(
            ty,
            FieldType::Str(StrEncoding::Utf16RelLoc | StrEncoding::Utf8RelLoc)
                | FieldType::Array(_, ArrayLayout::RelLoc)
        );
        if self.buffer.overflowed() {
            return; // the numbers say nothing
        }
        let origin = if relative { at + 4 } else { self.base };
        let size = self.buffer.len().wrapping_sub(self.location_start);
        let position = self.location_start.wrapping_sub(origin);
        if size > MAX_ELEMENTS {
            self.buffer.fail(Refusal::TooManyElements);
        } else if position > MAX_PAYLOAD {
            self.buffer.fail(Refusal::PayloadTooLarge);
        } else {
            let location = (size as u32) << 16 | position as u32;
            self.buffer.patch(at, &location.to_le_bytes());
        }
    }

    #[inline]
    fn u8_elements(&mut self, values: &[u8]) {
        self.buffer.put(values);
    }
}
