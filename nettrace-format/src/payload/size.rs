//! The size of a payload before it is written.

use core::net::{IpAddr, SocketAddr};

use trace_event::{ArrayLayout, FieldType, PayloadEncoder, StrEncoding, TraceEvent};

/// An encoder that only adds up sizes. For a type whose values are all of fixed size the sum folds
/// to a constant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedSize {
    size: usize,
    varies: bool,
}

impl FixedSize {
    /// The size in bytes of an event's payload as [`NetTraceEncoder`](super::NetTraceEncoder)
    /// writes it, or `None` where anything in it varies in size: text, counted arrays, options,
    /// varints.
    #[inline(always)]
    #[must_use]
    pub fn of<T: TraceEvent + ?Sized>(event: &T) -> Option<usize> {
        let mut sizes = Self::default();
        event.encode(&mut sizes);
        if sizes.varies { None } else { Some(sizes.size) }
    }
}

/// Methods whose values take a fixed number of bytes.
macro_rules! fixed {
    ($($method:ident: $ty:ty = $size:expr;)*) => {
        $(
            #[inline(always)]
            fn $method(&mut self, _: $ty) {
                self.size += $size;
            }
        )*
    };
}

/// Methods whose values vary in size.
macro_rules! varying {
    ($($method:ident($($argument:ty),*);)*) => {
        $(
            #[inline(always)]
            fn $method(&mut self, $(_: $argument),*) {
                self.varies = true;
            }
        )*
    };
}

impl PayloadEncoder for FixedSize {
    type Mark = ();

    fixed! {
        bool: bool = 4;
        bool8: bool = 1;
        u8: u8 = 1;
        u16: u16 = 2;
        u32: u32 = 4;
        u64: u64 = 8;
        u128: u128 = 16;
        i8: i8 = 1;
        i16: i16 = 2;
        i32: i32 = 4;
        i64: i64 = 8;
        i128: i128 = 16;
        f32: f32 = 4;
        f64: f64 = 8;
        utf16_unit: u16 = 2;
        guid: &[u8; 16] = 16;
        unix_nanos: i64 = 8;
        date_time: i64 = 8;
        duration_nanos: u64 = 8;
    }

    varying! {
        var_uint(u64);
        var_int(i64);
        char(char);
        str(&str, StrEncoding);
        ip_addr(&IpAddr);
        socket_addr(&SocketAddr);
        begin_option(bool, &'static FieldType);
        begin_location(&'static FieldType);
        begin_location_data((), &'static FieldType);
        location_str(&str, StrEncoding);
        end_location_data((), &'static FieldType);
    }

    #[inline(always)]
    fn begin_array(&mut self, len: usize, layout: ArrayLayout) {
        // A wrong count is for the encoder to refuse, so that it must see the event.
        self.varies |= !matches!(layout, ArrayLayout::Fixed(count) if usize::from(count) == len);
    }

    #[inline(always)]
    fn end_array(&mut self, (): ()) {}

    #[inline(always)]
    fn end_option(&mut self, (): ()) {}

    #[inline(always)]
    fn u8_elements(&mut self, values: &[u8]) {
        self.size += values.len();
    }
}
