//! Computes the size of a payload before it is written.

use core::net::{IpAddr, SocketAddr};

use nettrace_event::{ArrayLayout, FieldType, PayloadEncoder, StrEncoding, TraceEvent};

/// An encoder that only adds up sizes. For a type whose values all have a fixed size the compiler
/// folds the sum to a constant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedSize {
    size: usize,
    /// The number of bytes of UTF-16 text, were it UTF-8.
    utf16: usize,
    has_text: bool,
    varies: bool,
}

/// What is known of a payload's size before it is written.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeHint {
    /// All values have a fixed size. The payload takes this many bytes.
    Fixed(usize),
    /// The values have a fixed size or are texts. If all UTF-16 text is ASCII, the payload takes
    /// `size` bytes, and two more for each of the `units`.
    Plain { size: usize, units: usize },
    /// Nothing is known.
    Unknown,
}

impl FixedSize {
    /// Returns the size in bytes of the payload that [`NetTraceEncoder`](super::NetTraceEncoder)
    /// writes for an event. Returns `None` if any value varies in size: text, counted arrays,
    /// options, varints.
    ///
    /// ```
    /// use nettrace_format::payload::FixedSize;
    /// # use nettrace_event::{EventType, PayloadEncoder, TraceEvent};
    /// # static SALE: EventType = EventType::new(&nettrace_event::example::SALE);
    /// # struct Sale {
    /// #     cents: u32,
    /// # }
    /// # impl TraceEvent for Sale {
    /// #     fn event_types() -> &'static [&'static EventType] {
    /// #         &[]
    /// #     }
    /// #     fn event_type(&self) -> &'static EventType {
    /// #         &SALE
    /// #     }
    /// #     fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
    /// #         encoder.u32(self.cents);
    /// #     }
    /// # }
    ///
    /// // An event with one field, a `u32`.
    /// assert_eq!(FixedSize::of(&Sale { cents: 1_250 }), Some(4));
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn of<T: TraceEvent + ?Sized>(event: &T) -> Option<usize> {
        match Self::hint(event) {
            SizeHint::Fixed(size) => Some(size),
            SizeHint::Plain { .. } | SizeHint::Unknown => None,
        }
    }

    /// [`of`](Self::of), and the size of a payload with ASCII text.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn hint<T: TraceEvent + ?Sized>(event: &T) -> SizeHint {
        let mut sizes = Self::default();
        event.encode(&mut sizes);
        if sizes.varies {
            SizeHint::Unknown
        } else if sizes.has_text {
            SizeHint::Plain { size: sizes.size, units: sizes.utf16 }
        } else {
            SizeHint::Fixed(sizes.size)
        }
    }
}

/// Generates methods for values that take a fixed number of bytes.
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

/// Generates methods for values that vary in size.
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

    const ONLY_FIXED_SIZES: bool = true;
    const TAKES_PAYLOADS: bool = true;

    #[inline(always)]
    fn payload(&mut self, bytes: &[u8]) {
        self.size += bytes.len();
    }

    /// Any time but 0, so that a value which depends on the time does not read the counter. Its
    /// size is the same at all times.
    #[inline(always)]
    fn counter(&self) -> u64 {
        1
    }

    fixed! {
        bool: bool = 4;
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
        guid: &[u8; 16] = 16;
    }

    varying! {
        var_uint(u64);
        var_int(i64);
        char(char);
        ip_addr(&IpAddr);
        socket_addr(&SocketAddr);
        begin_option(bool, &'static FieldType);
        begin_location(&'static FieldType);
        begin_location_data((), &'static FieldType);
        location_str(&str, StrEncoding);
        end_location_data((), &'static FieldType);
    }

    #[inline(always)]
    fn str(&mut self, value: &str, encoding: StrEncoding) {
        self.has_text = true;
        // A count or a NUL.
        self.size += 2;
        match encoding {
            StrEncoding::Utf8 | StrEncoding::Utf8RelLoc | StrEncoding::Utf8DataLoc => {
                self.size += value.len();
            }
            StrEncoding::Utf16
            | StrEncoding::Utf16Nul
            | StrEncoding::Utf16RelLoc
            | StrEncoding::Utf16DataLoc => self.utf16 += value.len(),
        }
    }

    #[inline(always)]
    fn begin_array(&mut self, len: usize, layout: ArrayLayout) {
        // The encoder must see an event with a wrong count, so that it can refuse it.
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
