//! Encodes values as tracepoint payloads: as [`shape`](crate::shape) describes, in native byte
//! order, without padding.

use std::net::{IpAddr, SocketAddr};

use nettrace_event::{ArrayLayout, FieldFormat, FieldType, PayloadEncoder, StrEncoding};

use crate::{
    buffer::Buffer,
    shape::{self, Start},
};

/// Ends a text that was cut.
const ELLIPSIS: &str = "…";

/// Writes the payload of one event to a buffer.
#[derive(Debug)]
pub(crate) struct EventHeaderEncoder<'a, 'b> {
    buffer: &'a mut Buffer<'b>,
    format: FieldFormat,
    /// The most bytes of a text; longer ones are cut.
    text_limit: usize,
    /// The position of the length of the current location's data.
    location: usize,
}

impl<'a, 'b> EventHeaderEncoder<'a, 'b> {
    /// An encoder that keeps texts of up to `text_limit` bytes whole.
    #[inline]
    pub(crate) fn new(buffer: &'a mut Buffer<'b>, text_limit: usize) -> Self {
        let format = FieldFormat::Default;
        Self { buffer, format, text_limit, location: 0 }
    }

    #[inline]
    fn count(&mut self, count: usize) {
        match u16::try_from(count) {
            Ok(count) => self.buffer.put(&count.to_ne_bytes()),
            Err(_) => self.buffer.fail(),
        }
    }

    #[inline]
    fn whole_or_cut(&mut self, text: &str, put: impl Fn(&mut Self, &str, &str)) {
        if text.len() <= self.text_limit {
            return put(self, text, "");
        }
        let room = self.text_limit.saturating_sub(ELLIPSIS.len());
        let end = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        put(self, &text[..end], if self.text_limit == 0 { "" } else { ELLIPSIS });
    }

    fn utf16_nul(&mut self, text: &str) {
        for unit in text.encode_utf16() {
            let unit = if unit == 0 { 0xFFFD } else { unit };
            self.buffer.put(&unit.to_ne_bytes());
        }
    }
}

/// Generates methods for numbers that are stored as their own bytes, and for sequences of these.
macro_rules! numbers {
    ($($method:ident, $elements:ident: $ty:ty;)*) => {
        $(
            #[inline]
            fn $method(&mut self, value: $ty) {
                self.buffer.put(&value.to_ne_bytes());
            }

            #[inline]
            fn $elements(&mut self, values: &[$ty]) {
                self.buffer.put_all(values, <$ty>::to_ne_bytes);
            }
        )*
    };
}

impl PayloadEncoder for EventHeaderEncoder<'_, '_> {
    // Any that `AnyEncoder` passes on: this encoder needs none.
    type Mark = usize;

    numbers! {
        u8, u8_elements: u8;
        u64, u64_elements: u64;
        i8, i8_elements: i8;
        i16, i16_elements: i16;
        i32, i32_elements: i32;
        i64, i64_elements: i64;
        f32, f32_elements: f32;
        f64, f64_elements: f64;
    }

    #[inline]
    fn var_uint(&mut self, value: u64) {
        self.u64(value);
    }

    #[inline]
    fn var_int(&mut self, value: i64) {
        self.i64(value);
    }

    #[inline]
    fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    #[inline]
    fn u16(&mut self, value: u16) {
        let value = if self.format == FieldFormat::Port { value.to_be() } else { value };
        self.buffer.put(&value.to_ne_bytes());
    }

    #[inline]
    fn u16_elements(&mut self, values: &[u16]) {
        match self.format {
            FieldFormat::Port => self.buffer.put_all(values, u16::to_be_bytes),
            _ => self.buffer.put_all(values, u16::to_ne_bytes),
        }
    }

    #[inline]
    fn u32(&mut self, value: u32) {
        let value = if self.format == FieldFormat::IpAddress { value.to_be() } else { value };
        self.buffer.put(&value.to_ne_bytes());
    }

    #[inline]
    fn u32_elements(&mut self, values: &[u32]) {
        match self.format {
            FieldFormat::IpAddress => self.buffer.put_all(values, u32::to_be_bytes),
            _ => self.buffer.put_all(values, u32::to_ne_bytes),
        }
    }

    #[inline]
    fn u128(&mut self, value: u128) {
        self.buffer.put(&value.to_be_bytes());
    }

    #[inline]
    fn i128(&mut self, value: i128) {
        self.buffer.put(&value.to_be_bytes());
    }

    #[inline]
    fn char(&mut self, value: char) {
        self.buffer.put(&u32::from(value).to_ne_bytes());
    }

    #[inline]
    fn str(&mut self, value: &str, encoding: StrEncoding) {
        if encoding == StrEncoding::Utf16Nul {
            self.whole_or_cut(value, |this, text, ellipsis| {
                this.utf16_nul(text);
                this.utf16_nul(ellipsis);
                this.buffer.put(&[0; 2]);
            });
        } else {
            self.whole_or_cut(value, |this, text, ellipsis| {
                this.count(text.len() + ellipsis.len());
                this.buffer.put(text.as_bytes());
                this.buffer.put(ellipsis.as_bytes());
            });
        }
    }

    #[inline]
    fn guid(&mut self, value: &[u8; 16]) {
        self.buffer.put(value);
    }

    #[inline]
    fn unix_nanos(&mut self, value: i64) {
        let in_seconds = self.format == FieldFormat::Time;
        self.i64(if in_seconds { value.div_euclid(1_000_000_000) } else { value });
    }

    #[inline]
    fn date_time(&mut self, unix_millis: i64) {
        self.i64(unix_millis.div_euclid(1_000));
    }

    #[inline]
    fn ip_addr(&mut self, value: &IpAddr) {
        match value {
            IpAddr::V4(address) => {
                self.count(4);
                self.buffer.put(&address.octets());
            }
            IpAddr::V6(address) => {
                self.count(16);
                self.buffer.put(&address.octets());
            }
        }
    }

    #[inline]
    fn socket_addr(&mut self, value: &SocketAddr) {
        self.ip_addr(&value.ip());
        self.buffer.put(&value.port().to_be_bytes());
    }

    #[inline]
    fn begin_array(&mut self, len: usize, layout: ArrayLayout) -> usize {
        match layout {
            ArrayLayout::Fixed(count) if usize::from(count) != len => self.buffer.fail(),
            ArrayLayout::Fixed(_) => {}
            _ => self.count(len),
        }
        0
    }

    #[inline]
    fn begin_array_of(
        &mut self,
        len: usize,
        layout: ArrayLayout,
        element: &'static FieldType,
    ) -> usize {
        let counted = shape::counts_elements(element, layout, self.format);
        self.begin_array(len, if counted { ArrayLayout::Counted } else { layout })
    }

    #[inline]
    fn end_array(&mut self, _: usize) {}

    #[inline]
    fn begin_option(&mut self, present: bool, ty: &'static FieldType) -> usize {
        match shape::option_start(ty, self.format) {
            Start::Size(size) => self.count(if present { size.into() } else { 0 }),
            Start::Count => self.count(present.into()),
            Start::Own if present => {}
            Start::Own => self.count(0),
        }
        0
    }

    #[inline]
    fn end_option(&mut self, _: usize) {}

    #[inline]
    fn begin_location(&mut self, _: &'static FieldType) -> usize {
        0
    }

    #[inline]
    fn begin_location_data(&mut self, _: usize, _: &'static FieldType) {
        self.location = self.buffer.len();
        self.count(0);
    }

    #[inline]
    fn location_str(&mut self, value: &str, _: StrEncoding) {
        self.whole_or_cut(value, |this, text, ellipsis| {
            this.buffer.put(text.as_bytes());
            this.buffer.put(ellipsis.as_bytes());
        });
    }

    #[inline]
    fn end_location_data(&mut self, _: usize, ty: &'static FieldType) {
        let size = self.buffer.len().wrapping_sub(self.location + 2);
        let element = match ty {
            FieldType::Array(element, _) => shape::fixed_size(element, self.format),
            _ => 1,
        };
        // Elements of size 0 cannot occur: their type is refused.
        let count = size.checked_div(element).unwrap_or(0);
        match u16::try_from(count) {
            Ok(count) => self.buffer.patch(self.location, count),
            Err(_) => self.buffer.fail(),
        }
    }

    #[inline]
    fn begin_format(&mut self, format: FieldFormat) {
        self.format = format;
    }

    #[inline]
    fn end_format(&mut self) {
        self.format = FieldFormat::Default;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Storage;

    /// The bytes of what `encode` encodes in this format.
    fn bytes(format: FieldFormat, encode: impl FnOnce(&mut EventHeaderEncoder<'_, '_>)) -> Vec<u8> {
        let mut storage = Storage::new();
        let mut buffer = Buffer::new(&mut storage);
        let mut encoder = EventHeaderEncoder::new(&mut buffer, usize::MAX);
        encoder.begin_format(format);
        encode(&mut encoder);
        buffer.bytes().expect("it fits").to_vec()
    }

    #[test]
    fn elements_at_once_are_the_same_as_one_by_one() {
        macro_rules! same {
            ($($elements:ident, $element:ident: $values:expr;)*) => {
                for format in [FieldFormat::Default, FieldFormat::Port, FieldFormat::IpAddress] {
                    $(
                        let at_once = bytes(format, |encoder| encoder.$elements(&$values));
                        let one_by_one = bytes(format, |encoder| {
                            $values.into_iter().for_each(|value| encoder.$element(value));
                        });
                        assert_eq!(at_once, one_by_one, "{} {format:?}", stringify!($elements));
                    )*
                }
            };
        }
        same! {
            u8_elements, u8: [1, 2, 3];
            u16_elements, u16: [0x0102, 0x0304];
            u32_elements, u32: [0x0102_0304, 0x0506_0708];
            u64_elements, u64: [1, u64::MAX - 1];
            i8_elements, i8: [-1, 1];
            i16_elements, i16: [-2, 0x0102];
            i32_elements, i32: [-2, 0x0102_0304];
            i64_elements, i64: [-2, i64::MAX];
            f32_elements, f32: [1.5, -2.5];
            f64_elements, f64: [1.5, -2.5];
        }
        let ports = bytes(FieldFormat::Port, |encoder| encoder.u16_elements(&[0x0102]));
        assert_eq!(ports, [1, 2], "in network byte order");
    }
}
