//! Values as NetTrace has them in a payload.

use core::{
    fmt::Write,
    net::{IpAddr, SocketAddr},
};

use trace_event::{ArrayLayout, FieldType, PayloadEncoder, StrEncoding};

use crate::{
    payload::{
        MAX_ELEMENTS, MAX_PAYLOAD,
        buffer::{Buffer, Refusal},
        text,
    },
    primitive::{self, MAX_VARUINT64},
};

/// Writes the payload of one event into a buffer, as [`types`](crate::types) describes it.
///
/// Numbers are little endian and unpadded; `bool` takes 4 bytes; text is counted in code units; an
/// option is a counted array of no or one element. Data of `RelLoc` and `DataLoc` fields follows
/// behind the last field.
#[derive(Debug)]
pub struct NetTraceEncoder<B: Buffer> {
    buffer: B,
    /// The buffer's length before the payload.
    base: usize,
    /// Where the data of the location that is being written begins.
    location_start: usize,
}

impl<B: Buffer> NetTraceEncoder<B> {
    /// An encoder for a payload that begins where `buffer` ends now.
    #[inline(always)]
    pub fn new(buffer: B) -> Self {
        let base = buffer.len();
        Self { buffer, base, location_start: 0 }
    }

    /// Checks the payload's size and hands the buffer back. The size in bytes is how much the
    /// buffer has grown, unless it overflowed or the event was refused.
    #[inline(always)]
    pub fn finish(mut self) -> B {
        if self.position() > MAX_PAYLOAD {
            self.buffer.fail(Refusal::PayloadTooLarge);
        }
        self.buffer
    }

    /// Bytes of payload so far.
    #[inline(always)]
    fn position(&self) -> usize {
        self.buffer.len().wrapping_sub(self.base)
    }

    /// A count of elements, if readers can take it.
    #[inline(always)]
    fn count(&mut self, count: usize) -> bool {
        if count > MAX_ELEMENTS {
            self.buffer.fail(Refusal::TooManyElements);
            return false;
        }
        self.buffer.put(&(count as u16).to_le_bytes());
        true
    }

    /// UTF-16, behind a count or before a NUL or neither.
    #[inline(always)]
    fn utf16(&mut self, value: &str, counted: bool, terminated: bool) {
        let bytes = value.as_bytes();
        let before = 2 * usize::from(counted);
        let after = 2 * usize::from(terminated);
        let total = before + 2 * bytes.len() + after;
        if bytes.len() <= MAX_ELEMENTS {
            // No text has more code units than bytes.
            if let Some(out) = self.buffer.window(total) {
                let (count, rest) = out.split_at_mut_checked(before).unwrap_or_default();
                let (units, nul) = rest.split_at_mut_checked(2 * bytes.len()).unwrap_or_default();
                if text::widen_plain(bytes, units) {
                    if let Some(count) = count.first_chunk_mut() {
                        *count = (bytes.len() as u16).to_le_bytes();
                    }
                    nul.fill(0);
                    self.buffer.advance(total);
                    return;
                }
            }
        }
        // Not ASCII, or it fits barely or not at all. What is called for it must not take the buffer, which would then
        // have to be in memory for the usual way as well.
        let units = text::utf16_len(value);
        if units > MAX_ELEMENTS {
            self.buffer.fail(Refusal::TooManyElements);
            return;
        }
        if counted {
            self.buffer.put(&(units as u16).to_le_bytes());
        }
        if let Some(out) = self.buffer.space(2 * units) {
            text::write_utf16(value, out);
        }
        if terminated {
            self.buffer.put(&[0; 2]);
        }
    }

    #[inline(always)]
    fn utf8(&mut self, value: &str, counted: bool) {
        if !counted || self.count(value.len()) {
            self.buffer.put(value.as_bytes());
        }
    }

    /// Text of at most 64 bytes that a value displays as.
    #[inline]
    fn display(&mut self, value: &dyn core::fmt::Display) {
        let mut shown = Shown { bytes: [0; 64], len: 0 };
        // An address takes at most 58 bytes, so that this cannot fail.
        let _ = write!(shown, "{value}");
        self.utf16(core::str::from_utf8(&shown.bytes[..shown.len]).unwrap_or(""), true, false);
    }
}

struct Shown {
    bytes: [u8; 64],
    len: usize,
}

impl Write for Shown {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let to = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(core::fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// Methods for numbers whose bytes are their own.
macro_rules! numbers {
    ($($method:ident: $ty:ty;)*) => {
        $(
            #[inline(always)]
            fn $method(&mut self, value: $ty) {
                self.buffer.put(&value.to_le_bytes());
            }
        )*
    };
}

impl<B: Buffer> PayloadEncoder for NetTraceEncoder<B> {
    type Mark = usize;

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
        utf16_unit: u16;
        unix_nanos: i64;
        duration_nanos: u64;
    }

    #[inline(always)]
    fn bool(&mut self, value: bool) {
        self.u32(value.into());
    }

    #[inline(always)]
    fn bool8(&mut self, value: bool) {
        self.u8(value.into());
    }

    #[inline(always)]
    fn var_uint(&mut self, value: u64) {
        if value < 0x80 {
            return self.u8(value as u8);
        }
        let mut bytes = [0; MAX_VARUINT64];
        let len = primitive::put_varuint(&mut bytes, 0, value);
        self.buffer.put(&bytes[..len]);
    }

    #[inline(always)]
    fn var_int(&mut self, value: i64) {
        self.var_uint(primitive::zigzag(value));
    }

    #[inline(always)]
    fn char(&mut self, value: char) {
        let mut bytes = [0; 4];
        self.utf16(value.encode_utf8(&mut bytes), true, false);
    }

    #[inline(always)]
    fn str(&mut self, value: &str, encoding: StrEncoding) {
        match encoding {
            StrEncoding::Utf16Nul => self.utf16(value, false, true),
            StrEncoding::Utf8 | StrEncoding::Utf8RelLoc | StrEncoding::Utf8DataLoc => {
                self.utf8(value, true);
            }
            StrEncoding::Utf16 | StrEncoding::Utf16RelLoc | StrEncoding::Utf16DataLoc => {
                self.utf16(value, true, false);
            }
        }
    }

    #[inline(always)]
    fn guid(&mut self, value: &[u8; 16]) {
        self.buffer.put(&primitive::guid(value));
    }

    #[inline(always)]
    fn date_time(&mut self, unix_millis: i64) {
        self.i64(file_time(unix_millis));
    }

    #[inline(always)]
    fn ip_addr(&mut self, value: &IpAddr) {
        self.display(value);
    }

    #[inline(always)]
    fn socket_addr(&mut self, value: &SocketAddr) {
        self.display(value);
    }

    #[inline(always)]
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

    #[inline(always)]
    fn end_array(&mut self, _: usize) {}

    #[inline(always)]
    fn begin_option(&mut self, present: bool, _: &'static FieldType) -> usize {
        self.u16(present.into());
        0
    }

    #[inline(always)]
    fn end_option(&mut self, _: usize) {}

    #[inline(always)]
    fn begin_location(&mut self, _: &'static FieldType) -> usize {
        let at = self.buffer.len();
        self.u32(0);
        at
    }

    #[inline(always)]
    fn begin_location_data(&mut self, _: usize, _: &'static FieldType) {
        self.location_start = self.buffer.len();
    }

    #[inline(always)]
    fn location_str(&mut self, value: &str, encoding: StrEncoding) {
        match encoding {
            StrEncoding::Utf8 | StrEncoding::Utf8RelLoc | StrEncoding::Utf8DataLoc => {
                self.utf8(value, false);
            }
            _ => self.utf16(value, false, false),
        }
    }

    #[inline(always)]
    fn end_location_data(&mut self, at: usize, ty: &'static FieldType) {
        let relative = matches!(
            ty,
            FieldType::Str(StrEncoding::Utf16RelLoc | StrEncoding::Utf8RelLoc)
                | FieldType::Array(_, ArrayLayout::RelLoc)
        );
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

    #[inline(always)]
    fn u8_elements(&mut self, values: &[u8]) {
        self.buffer.put(values);
    }
}

/// A time as `DateTime` holds it: 100 ns units since 1601-01-01 UTC, within the years 1601 to 9999.
#[inline(always)]
fn file_time(unix_millis: i64) -> i64 {
    const UNIX_EPOCH_MILLIS: i64 = 11_644_473_600_000;
    const LAST: i64 = 253_402_300_799_999; // 9999-12-31T23:59:59.999
    (unix_millis.clamp(-UNIX_EPOCH_MILLIS, LAST) + UNIX_EPOCH_MILLIS) * 10_000
}
