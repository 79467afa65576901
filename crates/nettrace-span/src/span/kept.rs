//! The values of the fields of a span that has one event, from the span's start to its end.
//!
//! The event comes last, but its fields have the values that they had at the start. Arguments may
//! be moved, changed or gone by then. So the values are encoded at the start, in the plainest form
//! that there is, and encoded again for each session at the end, by the types of the fields.
//! Rejected: the values themselves. A borrowed argument would stay borrowed for the whole call, so
//! that a function could not move or change what it records, and a span that is sent away could
//! have no borrowed fields. Rejected: the bytes of one format, because a tracepoint has others than
//! a session.

use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
};

use nettrace_event::{
    ArrayLayout, FieldFormat, FieldType, PayloadEncoder, StrEncoding, TextField, TraceField,
    encoding,
};

/// Values that were encoded at the start of a span. Up to `N` bytes of them take no allocation.
/// Before each but the first comes one of `M` marks.
pub struct Kept<const N: usize, const M: usize> {
    inline: [u8; N],
    /// The size of all values.
    len: usize,
    /// All bytes, if they are more than `N`.
    more: Vec<u8>,
    /// Where each value but the first begins.
    marks: [usize; M],
}

impl<const N: usize, const M: usize> Kept<N, M> {
    /// Nothing yet.
    #[inline]
    #[must_use]
    pub const fn empty() -> Self {
        Self { inline: [0; N], len: 0, more: Vec::new(), marks: [0; M] }
    }

    /// Says that the value after this mark comes next.
    #[inline]
    pub fn mark(&mut self, mark: usize) {
        self.marks[mark] = self.len;
    }

    /// The values.
    #[inline]
    #[must_use]
    pub fn values(&self) -> Values<'_> {
        // What is not written is 0, as is what is missing.
        let bytes = if self.len <= N { &self.inline } else { &*self.more };
        Values { bytes, marks: &self.marks }
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self.inline.get_mut(self.len..self.len + bytes.len()) {
            Some(to) => to.copy_from_slice(bytes),
            None => self.put_more(bytes),
        }
        self.len += bytes.len();
    }

    #[cold]
    #[inline(never)]
    fn put_more(&mut self, bytes: &[u8]) {
        if let Some(inline) = self.inline.get(..self.len) {
            self.more.reserve(2 * N + bytes.len());
            self.more.extend_from_slice(inline);
        }
        self.more.extend_from_slice(bytes);
    }

    #[inline]
    fn count(&mut self, count: usize) {
        // A count beyond 32 bits is one that no format takes.
        self.put(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }
}

impl<const N: usize, const M: usize> fmt::Debug for Kept<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

/// Methods for numbers, which are kept as their bytes.
macro_rules! numbers {
    ($($method:ident: $ty:ty;)*) => {$(
        #[inline]
        fn $method(&mut self, value: $ty) {
            self.put(&value.to_le_bytes());
        }
    )*};
}

impl<const N: usize, const M: usize> PayloadEncoder for Kept<N, M> {
    type Mark = ();

    numbers! {
        u8: u8; u16: u16; u32: u32; u64: u64; u128: u128;
        i8: i8; i16: i16; i32: i32; i64: i64; i128: i128;
        f32: f32; f64: f64;
        var_uint: u64; var_int: i64;
        unix_nanos: i64; date_time: i64; duration_nanos: u64;
    }

    #[inline]
    fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    #[inline]
    fn char(&mut self, value: char) {
        self.u32(value.into());
    }

    #[inline]
    fn str(&mut self, value: &str, _: StrEncoding) {
        self.count(value.len());
        self.put(value.as_bytes());
    }

    #[inline]
    fn guid(&mut self, value: &[u8; 16]) {
        self.put(value);
    }

    fn ip_addr(&mut self, value: &IpAddr) {
        match value {
            IpAddr::V4(address) => {
                self.u8(4);
                self.put(&address.octets());
            }
            IpAddr::V6(address) => {
                self.u8(6);
                self.put(&address.octets());
            }
        }
    }

    fn socket_addr(&mut self, value: &SocketAddr) {
        self.ip_addr(&value.ip());
        self.u16(value.port());
        if let SocketAddr::V6(address) = value {
            self.u32(address.flowinfo());
            self.u32(address.scope_id());
        }
    }

    #[inline]
    fn begin_array(&mut self, len: usize, _: ArrayLayout) {
        self.count(len);
    }

    #[inline]
    fn end_array(&mut self, (): ()) {}

    #[inline]
    fn begin_option(&mut self, present: bool, _: &'static FieldType) {
        self.u8(present.into());
    }

    #[inline]
    fn end_option(&mut self, (): ()) {}

    // The macros refuse fields with a location, whose data no value of this type would read.
    fn begin_location(&mut self, _: &'static FieldType) {}

    fn begin_location_data(&mut self, (): (), _: &'static FieldType) {}

    fn location_str(&mut self, _: &str, _: StrEncoding) {}

    fn end_location_data(&mut self, (): (), _: &'static FieldType) {}

    #[inline]
    fn u8_elements(&mut self, values: &[u8]) {
        self.put(values);
    }
}

/// Kept values.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    bytes: &'a [u8],
    /// Where each value but the first begins.
    marks: &'a [usize],
}

impl<'a> Values<'a> {
    /// The first value.
    #[inline]
    #[must_use]
    pub fn first<T: ?Sized>(self) -> Value<'a, T> {
        Value { bytes: self.bytes, ty: PhantomData }
    }

    /// The value after a mark.
    #[inline]
    #[must_use]
    pub fn after<T: ?Sized>(self, mark: usize) -> Value<'a, T> {
        let bytes = self.marks.get(mark).and_then(|at| self.bytes.get(*at..));
        Value { bytes: bytes.unwrap_or_default(), ty: PhantomData }
    }
}

/// Reads a kept value.
struct Reader<'a> {
    /// What is left.
    bytes: Cell<&'a [u8]>,
}

impl<'a> Reader<'a> {
    /// The next bytes: none if there are not so many, because a value's own implementation has not
    /// encoded what its type says.
    #[inline]
    fn take(&self, len: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.bytes.get().split_at_checked(len)?;
        self.bytes.set(left);
        Some(taken)
    }

    #[inline]
    fn array<const N: usize>(&self) -> [u8; N] {
        self.take(N).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }

    #[inline]
    fn count(&self) -> usize {
        u32::from_le_bytes(self.array()) as usize
    }

    #[inline]
    fn text(&self) -> &'a str {
        let bytes = self.take(self.count()).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Encodes the next value, which has this type.
    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, ty: &'static FieldType, encoder: &mut E) {
        macro_rules! number {
            ($($variant:ident $method:ident: $ty:ty;)*) => {
                match *ty {
                    $(FieldType::$variant => {
                        encoder.$method(<$ty>::from_le_bytes(self.array()));
                    })*
                    FieldType::Bool => encoder.bool(self.array() != [0]),
                    FieldType::Bool8 => encoder.bool8(self.array() != [0]),
                    FieldType::Str(encoding) => encoder.str(self.text(), encoding),
                    FieldType::Guid => encoder.guid(&self.array()),
                    _ => self.encode_other(ty, encoder),
                }
            };
        }
        number! {
            U8 u8: u8; U16 u16: u16; U32 u32: u32; U64 u64: u64; U128 u128: u128;
            I8 i8: i8; I16 i16: i16; I32 i32: i32; I64 i64: i64; I128 i128: i128;
            F32 f32: f32; F64 f64: f64;
            VarUInt var_uint: u64; VarInt var_int: i64; Utf16Unit utf16_unit: u16;
            UnixNanos unix_nanos: i64; DateTime date_time: i64;
            DurationNanos duration_nanos: u64;
        }
    }

    /// [`encode`](Self::encode) for the types that take more than a few instructions.
    #[inline(never)]
    fn encode_other<E: PayloadEncoder>(&self, ty: &'static FieldType, encoder: &mut E) {
        match *ty {
            FieldType::Char => {
                let char = char::from_u32(u32::from_le_bytes(self.array()));
                encoder.char(char.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            FieldType::IpAddr => encoder.ip_addr(&self.ip_addr()),
            FieldType::SocketAddr => encoder.socket_addr(&self.socket_addr()),
            FieldType::Array(element, layout) => {
                let count = self.count();
                let mark = encoder.begin_array_of(count, layout, element);
                if let FieldType::U8 = element {
                    encoder.u8_elements(self.take(count).unwrap_or_default());
                } else {
                    // More than that is refused by every encoder.
                    (0..count.min(1 << 16)).for_each(|_| self.encode(element, encoder));
                }
                encoder.end_array(mark);
            }
            FieldType::Object(fields) => {
                for field in fields {
                    if field.format == FieldFormat::Default {
                        self.encode(&field.ty, encoder);
                    } else {
                        encoder.begin_format(field.format);
                        self.encode(&field.ty, encoder);
                        encoder.end_format();
                    }
                }
            }
            FieldType::Option(ty) => {
                let is_present = self.array() != [0];
                let mark = encoder.begin_option(is_present, ty);
                if is_present {
                    self.encode(ty, encoder);
                }
                encoder.end_option(mark);
            }
            _ => {}
        }
    }

    fn ip_addr(&self) -> IpAddr {
        match self.array() {
            [4] => Ipv4Addr::from(self.array::<4>()).into(),
            _ => Ipv6Addr::from(self.array::<16>()).into(),
        }
    }

    fn socket_addr(&self) -> SocketAddr {
        let (ip, port) = (self.ip_addr(), u16::from_le_bytes(self.array()));
        match ip {
            IpAddr::V4(ip) => SocketAddrV4::new(ip, port).into(),
            IpAddr::V6(ip) => {
                let number = || u32::from_le_bytes(self.array());
                SocketAddrV6::new(ip, port, number(), number()).into()
            }
        }
    }
}

/// A kept value of the type `T`.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "a text of its own, in place of the kept one")]
pub struct Value<'a, T: ?Sized> {
    /// Those of the value, and of all after it.
    bytes: &'a [u8],
    ty: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Value<'_, T> {
    #[inline(always)]
    fn encode<E: PayloadEncoder>(&self, ty: &'static FieldType, encoder: &mut E) {
        Reader { bytes: Cell::new(self.bytes) }.encode(ty, encoder);
    }
}

impl<As, T: TraceField<As> + ?Sized> TraceField<As> for Value<'_, T> {
    const TYPE: FieldType = <T as TraceField<As>>::TYPE;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.encode(const { &<T as TraceField<As>>::TYPE }, encoder);
    }
}

macro_rules! texts {
    ($($marker:ident),*) => {$(
        impl<T: TextField<encoding::$marker> + ?Sized> TextField<encoding::$marker>
            for Value<'_, T>
        {
            const TYPE: FieldType = T::TYPE;

            #[inline]
            fn encode_text<E: PayloadEncoder>(&self, encoder: &mut E) {
                self.encode(const { &T::TYPE }, encoder);
            }
        }
    )*};
}

// Without a `Debug` or `Display` of its own, or the texts would be those.
texts!(Display, Debug, Error, AsRef);
