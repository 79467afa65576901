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
pub(crate) struct EventHeaderEncoder<'a> {
    buffer: &'a mut Buffer,
    format: FieldFormat,
    /// The most bytes of a text; longer ones are cut.
    text_limit: usize,
    /// The position of the length of the current location's data.
    location: usize,
}

impl<'a> EventHeaderEncoder<'a> {
    /// An encoder that keeps texts of up to `text_limit` bytes whole.
    #[inline(always)]
    pub(crate) fn new(buffer: &'a mut Buffer, text_limit: usize) -> Self {
        let format = FieldFormat::Default;
        Self { buffer, format, text_limit, location: 0 }
    }

    #[inline(always)]
    fn count(&mut self, count: usize) {
        match u16::try_from(count) {
            Ok(count) => self.buffer.put(&count.to_ne_bytes()),
            Err(_) => self.buffer.fail(),
        }
    }

    #[inline(always)]
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

/// Generates methods for numbers that are stored as their own bytes.
macro_rules! numbers {
    ($($method:ident: $ty:ty;)*) => {
        $(
            #[inline(always)]
            fn $method(&mut self, value: $ty) {
                self.buffer.put(&value.to_ne_bytes());
            }
        )*
    };
}

impl PayloadEncoder for EventHeaderEncoder<'_> {
    type Mark = bool;

    numbers! {
        u8: u8;
        u64: u64;
        i8: i8;
        i16: i16;
        i32: i32;
        i64: i64;
        f32: f32;
        f64: f64;
        var_uint: u64;
        var_int: i64;
    }

    #[inline(always)]
    fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    #[inline(always)]
    fn u16(&mut self, value: u16) {
        let value = if self.format == FieldFormat::Port { value.to_be() } else { value };
        self.buffer.put(&value.to_ne_bytes());
    }

    #[inline(always)]
    fn u32(&mut self, value: u32) {
        let value = if self.format == FieldFormat::IpAddress { value.to_be() } else { value };
        self.buffer.put(&value.to_ne_bytes());
    }

    #[inline(always)]
    fn u128(&mut self, value: u128) {
        self.buffer.put(&value.to_be_bytes());
    }

    #[inline(always)]
    fn i128(&mut self, value: i128) {
        self.buffer.put(&value.to_be_bytes());
    }

    #[inline(always)]
    fn char(&mut self, value: char) {
        self.buffer.put(&u32::from(value).to_ne_bytes());
    }

    #[inline(always)]
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

    #[inline(always)]
    fn guid(&mut self, value: &[u8; 16]) {
        self.buffer.put(value);
    }

    #[inline(always)]
    fn unix_nanos(&mut self, value: i64) {
        let in_seconds = self.format == FieldFormat::Time;
        self.i64(if in_seconds { value.div_euclid(1_000_000_000) } else { value });
    }

    #[inline(always)]
    fn date_time(&mut self, unix_millis: i64) {
        self.i64(unix_millis.div_euclid(1_000));
    }

    #[inline(always)]
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

    #[inline(always)]
    fn socket_addr(&mut self, value: &SocketAddr) {
        self.ip_addr(&value.ip());
        self.buffer.put(&value.port().to_be_bytes());
    }

    #[inline(always)]
    fn begin_array(&mut self, len: usize, layout: ArrayLayout) -> bool {
        match layout {
            ArrayLayout::Fixed(count) if usize::from(count) != len => self.buffer.fail(),
            ArrayLayout::Fixed(_) => {}
            _ => self.count(len),
        }
        true
    }

    #[inline(always)]
    fn begin_array_of(
        &mut self,
        len: usize,
        layout: ArrayLayout,
        element: &'static FieldType,
    ) -> bool {
        let counted = shape::counts_elements(element, layout, self.format);
        self.begin_array(len, if counted { ArrayLayout::Counted } else { layout })
    }

    #[inline(always)]
    fn end_array(&mut self, _: bool) {}

    #[inline(always)]
    fn begin_option(&mut self, present: bool, ty: &'static FieldType) -> bool {
        match shape::option_start(ty, self.format) {
            Start::Size(size) => self.count(if present { size.into() } else { 0 }),
            Start::Count => self.count(present.into()),
            Start::Own if present => {}
            Start::Own => self.count(0),
        }
        present
    }

    #[inline(always)]
    fn end_option(&mut self, _: bool) {}

    #[inline(always)]
    fn begin_location(&mut self, _: &'static FieldType) -> bool {
        true
    }

    #[inline(always)]
    fn begin_location_data(&mut self, _: bool, _: &'static FieldType) {
        self.location = self.buffer.len();
        self.count(0);
    }

    #[inline(always)]
    fn location_str(&mut self, value: &str, _: StrEncoding) {
        self.whole_or_cut(value, |this, text, ellipsis| {
            this.buffer.put(text.as_bytes());
            this.buffer.put(ellipsis.as_bytes());
        });
    }

    #[inline(always)]
    fn end_location_data(&mut self, _: bool, ty: &'static FieldType) {
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

    #[inline(always)]
    fn begin_format(&mut self, format: FieldFormat) {
        self.format = format;
    }

    #[inline(always)]
    fn end_format(&mut self) {
        self.format = FieldFormat::Default;
    }

    #[inline(always)]
    fn u8_elements(&mut self, values: &[u8]) {
        self.buffer.put(values);
    }
}
