//! The trait through which values are encoded. A value calls an encoder, which knows the format.

use core::{
    fmt::{self, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use crate::{
    calendar::FILE_TIME_OF_1970,
    schema::{ArrayLayout, FieldFormat, FieldType, StrEncoding},
};

/// Receives the values of one event, in the order of its schema. Each backend implements it.
///
/// The calls must match the event's schema: for each field, the method for its
/// [`FieldType`](crate::FieldType) is called. An encoder does not report failures at once. It
/// remembers what does not fit, and the backend then refuses and counts the whole event.
///
/// The methods with a default body call the method of a simpler type, so that the value is stored
/// as [`FieldType::storage`] states. An encoder overrides them only if its format has something
/// better.
///
/// All methods are meant to be inlined. An encoder for a payload of constant size then compiles to
/// stores at constant offsets.
///
/// ```
/// use std::fmt::Write;
///
/// use nettrace_event::{ArrayLayout, FieldType, PayloadEncoder, StrEncoding, TraceField};
///
/// /// Shows the values of an event as text.
/// #[derive(Default)]
/// struct Shown(String);
///
/// macro_rules! show {
///     ($($method:ident: $ty:ty),*) => {
///         $(fn $method(&mut self, value: $ty) {
///             write!(self.0, "{value} ").unwrap();
///         })*
///     };
/// }
///
/// impl PayloadEncoder for Shown {
///     type Mark = ();
///
///     show!(bool: bool, u8: u8, u16: u16, u32: u32, u64: u64, u128: u128, var_uint: u64);
///     show!(i8: i8, i16: i16, i32: i32, i64: i64, i128: i128, var_int: i64, f32: f32, f64: f64);
///
///     fn str(&mut self, value: &str, _: StrEncoding) {
///         write!(self.0, "{value:?} ").unwrap();
///     }
///     fn guid(&mut self, value: &[u8; 16]) {
///         write!(self.0, "{:032x} ", u128::from_be_bytes(*value)).unwrap();
///     }
///
///     fn begin_array(&mut self, _len: usize, _: ArrayLayout) {
///         self.0 += "[ ";
///     }
///     fn end_array(&mut self, (): ()) {
///         self.0 += "] ";
///     }
///     fn begin_option(&mut self, present: bool, _: &'static FieldType) {
///         self.0 += if present { "" } else { "none " };
///     }
///     fn end_option(&mut self, (): ()) {}
///
///     // Data that has a location follows the fields.
///     fn begin_location(&mut self, _: &'static FieldType) {
///         self.0 += "(below) ";
///     }
///     fn begin_location_data(&mut self, (): (), _: &'static FieldType) {}
///     fn location_str(&mut self, value: &str, encoding: StrEncoding) {
///         self.str(value, encoding);
///     }
///     fn end_location_data(&mut self, (): (), _: &'static FieldType) {}
/// }
///
/// let mut shown = Shown::default();
/// let values = ("tea", [3_u16, 5], None::<bool>, 'x');
/// <_ as TraceField>::encode_field(&values, &mut shown);
/// assert_eq!(shown.0, "\"tea\" [ 3 5 ] none \"x\" ");
/// ```
pub trait PayloadEncoder: Sized {
    /// A position to return to, for lengths and locations that become known later.
    type Mark: Copy;

    /// Whether this takes values as NetTrace has them: see
    /// [`payload`](Self::payload).
    const TAKES_PAYLOADS: bool = false;

    /// The next values of an event, in the bytes that NetTrace has for them. Called only if
    /// [`TAKES_PAYLOADS`](Self::TAKES_PAYLOADS).
    #[inline]
    fn payload(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// The processor's counter at the event, if the backend has read it for the event's time.
    /// Otherwise 0.
    #[inline]
    fn counter(&self) -> u64 {
        0
    }

    /// Says that values of at least `len` bytes follow, as NetTrace has them. Returns `false` if
    /// they do not fit: then they need not be passed. The derive says it of fields that are
    /// numbers.
    #[inline]
    fn expect(&mut self, len: usize) -> bool {
        let _ = len;
        true
    }

    /// [`FieldType::Bool`].
    fn bool(&mut self, value: bool);
    /// [`FieldType::Bool8`].
    #[inline]
    fn bool8(&mut self, value: bool) {
        self.u8(value.into());
    }
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
    #[inline]
    fn char(&mut self, value: char) {
        self.str(value.encode_utf8(&mut [0; 4]), StrEncoding::Utf16);
    }
    /// [`FieldType::Utf16Unit`].
    #[inline]
    fn utf16_unit(&mut self, value: u16) {
        self.u16(value);
    }
    /// [`FieldType::Str`], with an encoding that is not a location.
    fn str(&mut self, value: &str, encoding: StrEncoding);
    /// [`FieldType::Guid`], in the byte order of RFC 4122.
    fn guid(&mut self, value: &[u8; 16]);
    /// [`FieldType::UnixNanos`].
    #[inline]
    fn unix_nanos(&mut self, value: i64) {
        self.i64(value);
    }
    /// [`FieldType::DateTime`], from milliseconds since 1970-01-01 UTC.
    #[inline]
    fn date_time(&mut self, unix_millis: i64) {
        self.i64(file_time(unix_millis));
    }
    /// [`FieldType::DurationNanos`].
    #[inline]
    fn duration_nanos(&mut self, value: u64) {
        self.u64(value);
    }
    /// [`FieldType::IpAddr`].
    #[inline]
    fn ip_addr(&mut self, value: &IpAddr) {
        self.str(Shown::ip(value).text(), StrEncoding::Utf16);
    }
    /// [`FieldType::SocketAddr`].
    #[inline]
    fn socket_addr(&mut self, value: &SocketAddr) {
        self.str(Shown::socket(value).text(), StrEncoding::Utf16);
    }

    /// Opens [`FieldType::Array`] of a layout that is not a location; the elements follow.
    fn begin_array(&mut self, len: usize, layout: ArrayLayout) -> Self::Mark;
    /// Like [`begin_array`](Self::begin_array), with the type of the elements, for encoders whose
    /// bytes depend on it. Sequences call this method.
    #[inline]
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
    /// Opens [`FieldType::Option`] of type `ty`; the value follows if `present`.
    fn begin_option(&mut self, present: bool, ty: &'static FieldType) -> Self::Mark;
    /// Closes what [`begin_option`](Self::begin_option) opened.
    fn end_option(&mut self, mark: Self::Mark);

    /// Leaves room for the location of data that comes after the fields of the event.
    fn begin_location(&mut self, ty: &'static FieldType) -> Self::Mark;
    /// Starts the data of that location. Called after the last field, in the order of the fields.
    /// All calls until [`end_location_data`](Self::end_location_data) encode the data: elements one
    /// by one, or [`location_str`](Self::location_str).
    fn begin_location_data(&mut self, mark: Self::Mark, ty: &'static FieldType);
    /// Text as the data of a location, without a count.
    fn location_str(&mut self, value: &str, encoding: StrEncoding);
    /// Ends the data of that location.
    fn end_location_data(&mut self, mark: Self::Mark, ty: &'static FieldType);

    /// Called before a field with a [format](FieldFormat). Encoders whose bytes do not depend on
    /// the format ignore it. For a field with a location it is called twice: before its location
    /// and before its data.
    #[inline]
    fn begin_format(&mut self, format: FieldFormat) {
        let _ = format;
    }
    /// Called after the part that [`begin_format`](Self::begin_format) was called before.
    #[inline]
    fn end_format(&mut self) {}

    /// Encodes elements of a sequence, as if the method of their type were called for each.
    /// Encoders that store the elements' own bytes copy them at once.
    fn u8_elements(&mut self, values: &[u8]) {
        values.iter().for_each(|&value| self.u8(value));
    }
    /// Like [`u8_elements`](Self::u8_elements), for `u16`.
    fn u16_elements(&mut self, values: &[u16]) {
        values.iter().for_each(|&value| self.u16(value));
    }
    /// Like [`u8_elements`](Self::u8_elements), for `u32`.
    fn u32_elements(&mut self, values: &[u32]) {
        values.iter().for_each(|&value| self.u32(value));
    }
    /// Like [`u8_elements`](Self::u8_elements), for `u64`.
    fn u64_elements(&mut self, values: &[u64]) {
        values.iter().for_each(|&value| self.u64(value));
    }
    /// Like [`u8_elements`](Self::u8_elements), for `i8`.
    fn i8_elements(&mut self, values: &[i8]) {
        values.iter().for_each(|&value| self.i8(value));
    }
    /// Like [`u8_elements`](Self::u8_elements), for `i16`.
    fn i16_elements(&mut self, values: &[i16]) {
        values.iter().for_each(|&value| self.i16(value));
    }
    /// Like [`u8_elements`](Self::u8_elements), for `i32`.
    fn i32_elements(&mut self, values: &[i32]) {
        values.iter().for_each(|&value| self.i32(value));
    }
    /// Like [`u8_elements`](Self::u8_elements), for `i64`.
    fn i64_elements(&mut self, values: &[i64]) {
        values.iter().for_each(|&value| self.i64(value));
    }
    /// Like [`u8_elements`](Self::u8_elements), for `f32`.
    fn f32_elements(&mut self, values: &[f32]) {
        values.iter().for_each(|&value| self.f32(value));
    }
    /// Like [`u8_elements`](Self::u8_elements), for `f64`.
    fn f64_elements(&mut self, values: &[f64]) {
        values.iter().for_each(|&value| self.f64(value));
    }
}

/// Declares an encoder of any type, behind one pointer, for backends that libraries do not know.
/// Passes each call on from it and to it.
#[cfg(feature = "any_encoder")]
macro_rules! any_encoder {
    ($($method:ident($($name:ident: $ty:ty),*) $(-> $result:ty)?;)*) => {
        /// A [`PayloadEncoder`] of any type. Implemented for those whose marks are a `usize`.
        ///
        /// Each method does what that of [`PayloadEncoder`] does.
        #[allow(missing_docs, reason = "that trait says what each does")]
        pub trait AnyEncoder {
            $(fn $method(&mut self, $($name: $ty),*) $(-> $result)?;)*
        }

        impl<E: PayloadEncoder<Mark = usize>> AnyEncoder for E {
            $(fn $method(&mut self, $($name: $ty),*) $(-> $result)? {
                PayloadEncoder::$method(self, $($name),*)
            })*
        }

        impl PayloadEncoder for &mut (dyn AnyEncoder + '_) {
            type Mark = usize;

            $(#[inline]
            fn $method(&mut self, $($name: $ty),*) $(-> $result)? {
                AnyEncoder::$method(&mut **self, $($name),*)
            })*
        }
    };
}

#[cfg(feature = "any_encoder")]
any_encoder! {
    bool(value: bool);
    bool8(value: bool);
    u8(value: u8);
    u16(value: u16);
    u32(value: u32);
    u64(value: u64);
    u128(value: u128);
    i8(value: i8);
    i16(value: i16);
    i32(value: i32);
    i64(value: i64);
    i128(value: i128);
    f32(value: f32);
    f64(value: f64);
    var_uint(value: u64);
    var_int(value: i64);
    char(value: char);
    utf16_unit(value: u16);
    str(value: &str, encoding: StrEncoding);
    guid(value: &[u8; 16]);
    unix_nanos(value: i64);
    date_time(unix_millis: i64);
    duration_nanos(value: u64);
    ip_addr(value: &IpAddr);
    socket_addr(value: &SocketAddr);
    begin_array(len: usize, layout: ArrayLayout) -> usize;
    begin_array_of(len: usize, layout: ArrayLayout, element: &'static FieldType) -> usize;
    end_array(mark: usize);
    begin_option(present: bool, ty: &'static FieldType) -> usize;
    end_option(mark: usize);
    begin_location(ty: &'static FieldType) -> usize;
    begin_location_data(mark: usize, ty: &'static FieldType);
    location_str(value: &str, encoding: StrEncoding);
    end_location_data(mark: usize, ty: &'static FieldType);
    begin_format(format: FieldFormat);
    end_format();
    u8_elements(values: &[u8]);
    u16_elements(values: &[u16]);
    u32_elements(values: &[u32]);
    u64_elements(values: &[u64]);
    i8_elements(values: &[i8]);
    i16_elements(values: &[i16]);
    i32_elements(values: &[i32]);
    i64_elements(values: &[i64]);
    f32_elements(values: &[f32]);
    f64_elements(values: &[f64]);
}

/// Converts to the units of `DateTime`: 100 ns since 1601-01-01 UTC, limited to the years 1601 to
/// 9999.
#[inline]
const fn file_time(unix_millis: i64) -> i64 {
    const UNIX_EPOCH_MILLIS: i64 = (FILE_TIME_OF_1970 / 10_000) as i64;
    const LAST: i64 = 253_402_300_799_999; // 9999-12-31T23:59:59.999
    let millis = if unix_millis < -UNIX_EPOCH_MILLIS {
        -UNIX_EPOCH_MILLIS
    } else if unix_millis > LAST {
        LAST
    } else {
        unix_millis
    };
    (millis + UNIX_EPOCH_MILLIS) * 10_000
}

/// The text of an address: at most 58 bytes.
#[repr(align(8))]
struct Shown {
    bytes: [u8; 64],
    len: usize,
}

impl Shown {
    const EMPTY: Self = Self { bytes: [0; 64], len: 0 };
    /// At least the bytes of an address of IP version 4 with a port, in whole blocks.
    const FIRST: usize = 32;

    fn ip(address: &IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::v4(*address),
            IpAddr::V6(_) => Self::v6(address),
        }
    }

    fn socket(address: &SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => {
                let mut shown = Self::v4(*address.ip());
                shown.push(*b":");
                // Cannot fail, because every address fits.
                let _ = shown.write_str(itoa::Buffer::new().format(address.port()));
                shown
            }
            SocketAddr::V6(_) => Self::v6(address),
        }
    }

    /// Without `core::fmt`, and without numbers of any length: a server records the peer
    /// of each request.
    #[inline]
    fn v4(address: Ipv4Addr) -> Self {
        let mut shown = Self::EMPTY;
        for octet in address.octets() {
            shown.push(OCTETS[usize::from(octet)]);
            // Its digits and its dot, and not what is behind the dot.
            shown.len -= usize::from(octet < 10) + usize::from(octet < 100);
        }
        // But no dot after the last one.
        shown.len -= 1;
        shown
    }

    #[cold]
    fn v6(address: &dyn fmt::Display) -> Self {
        let mut shown = Self::EMPTY;
        // Cannot fail, because every address fits.
        let _ = write!(shown, "{address}");
        shown
    }

    #[inline]
    fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some(to) = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut()) {
            *to = bytes;
            self.len += N;
        }
    }

    #[inline]
    fn text(&self) -> &str {
        // More bytes than those of the text, because those beyond it are ASCII too, and bytes are
        // checked in blocks. An address of IP version 4 has its text in the first of them.
        let (first, _) = self.bytes.split_at(Self::FIRST);
        let bytes = if self.len <= Self::FIRST { first } else { &self.bytes };
        let all = core::str::from_utf8(bytes).unwrap_or_default();
        all.get(..self.len).unwrap_or_default()
    }
}

/// The digits of each octet, a dot behind them, and zeros.
static OCTETS: [[u8; 4]; 256] = {
    let mut octets = [[0; 4]; 256];
    let mut octet = 0;
    while octet < 256 {
        let digits = [octet as u8 / 100, octet as u8 / 10 % 10, octet as u8 % 10];
        let len = 1 + (octet >= 10) as usize + (octet >= 100) as usize;
        let mut at = 0;
        while at < len {
            octets[octet][at] = b'0' + digits[3 - len + at];
            at += 1;
        }
        octets[octet][len] = b'.';
        octet += 1;
    }
    octets
};

impl fmt::Write for Shown {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let to = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString as _;

    use super::*;

    #[test]
    fn addresses_have_the_text_that_they_show() {
        let octets = [0, 1, 9, 10, 42, 99, 100, 127, 199, 255];
        let others = ["::", "::1", "::ffff:10.0.0.1", "2001:db8:1:22:333:4444:55:6", "fe80::7"];
        let v4 = octets.map(|octet| IpAddr::from([octet, 255 - octet, octet / 2, 0]));
        let v6 = others.map(|text| text.parse().unwrap());
        for ip in v4.into_iter().chain(v6) {
            assert_eq!(Shown::ip(&ip).text(), ip.to_string());
            for port in [0, 7, 80, 443, 8_080, 10_000, 65_535] {
                let socket = SocketAddr::new(ip, port);
                assert_eq!(Shown::socket(&socket).text(), socket.to_string());
            }
        }
        let longest = "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%4294967295]:65535";
        let socket: SocketAddr = longest.parse().unwrap();
        assert_eq!(Shown::socket(&socket).text(), socket.to_string());
    }
}
