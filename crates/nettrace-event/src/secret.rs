//! Values that must not be in a trace: passwords, tokens, names of customers.
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use nettrace_event::{
//!     Emit, Secret, TraceEvent,
//!     secret::{Hashed, Length},
//! };
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Contoso-Login")]
//! struct LoggedIn<'a> {
//!     /// `***`
//!     password: Secret<&'a str>,
//!     /// The same text for the same customer, which says nothing of the customer.
//!     customer: Secret<u64, Hashed>,
//!     /// How many bytes it has.
//!     token: Secret<&'a str, Length>,
//! }
//!
//! LoggedIn {
//!     password: Secret::new("hunter2"),
//!     customer: Secret::new(4_711),
//!     token: Secret::new("eyJhbGciOi"),
//! }
//! .emit();
//! # }
//! ```
//!
//! | type | recorded as |
//! |---|---|
//! | `Secret<T>` | the text `***` |
//! | `Secret<T, Hashed>` | a keyed hash of the value: 16 digits |
//! | `Secret<T, Length>` | the number of its bytes, for text and bytes |
//!
//! The value does not leave the event: what is encoded has none of its bytes, so no session,
//! tracepoint, recorder in memory or dump can have them. Its `Debug` is `***` as well, for messages
//! of panics, logs, and the keys `ret` and `err` of a traced function. It has no `Display`.
//!
//! # The key
//!
//! Nobody can find the value of a hash by trying all that are possible, unless he has the key. Each
//! process has a key of its own, by the random numbers that protect the standard library's hash
//! maps. So one value has one hash in all traces of a process. [`set_key`] makes that so for
//! several processes, and until the key is changed. A hash is SipHash-2-4, of 64 bits.
//!
//! Without the feature `std` there is no key, and [`Hashed`] records `***`.

use core::{fmt, marker::PhantomData};

use crate::{
    encode::PayloadEncoder,
    field::TraceField,
    schema::{FieldType, StrEncoding},
};

/// The text recorded for any secret that is not hashed.
const MASK: &str = "***";

/// A value that is not recorded as it is: see the [module](self).
///
/// `Recorded` says what is: [`Masked`], [`Hashed`] or [`Length`].
pub struct Secret<T, Recorded = Masked> {
    value: T,
    recorded: PhantomData<fn() -> Recorded>,
}

/// Nothing of the value is recorded.
#[derive(Debug)]
pub enum Masked {}

/// A keyed hash of the value is recorded.
#[derive(Debug)]
pub enum Hashed {}

/// The number of the value's bytes is recorded.
#[derive(Debug)]
pub enum Length {}

impl<T, Recorded> Secret<T, Recorded> {
    /// Keeps a value out of traces.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { value, recorded: PhantomData }
    }

    /// The value itself.
    #[must_use]
    pub const fn expose(&self) -> &T {
        &self.value
    }

    /// The value itself.
    #[must_use]
    pub fn into_exposed(self) -> T {
        self.value
    }
}

impl<T, Recorded> From<T> for Secret<T, Recorded> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Clone, Recorded> Clone for Secret<T, Recorded> {
    fn clone(&self) -> Self {
        Self::new(self.value.clone())
    }
}

impl<T: Copy, Recorded> Copy for Secret<T, Recorded> {}

impl<T, Recorded> fmt::Debug for Secret<T, Recorded> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl<T> TraceField for Secret<T> {
    const TYPE: FieldType = FieldType::Str(StrEncoding::Utf16);
    const IS_SECRET: bool = true;

    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.str(MASK, StrEncoding::Utf16);
    }
}

impl<T: AsRef<[u8]>> TraceField for Secret<T, Length> {
    const TYPE: FieldType = FieldType::U64;
    const IS_SECRET: bool = true;

    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.u64(self.value.as_ref().len() as u64);
    }
}

impl<T: TraceField> TraceField for Secret<T, Hashed> {
    const TYPE: FieldType = FieldType::Str(StrEncoding::Utf16);
    const IS_SECRET: bool = true;

    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        #[cfg(feature = "std")]
        encoder.str(hash::Digits::of(&self.value).text(), StrEncoding::Utf16);
        #[cfg(not(feature = "std"))]
        encoder.str(MASK, StrEncoding::Utf16);
    }
}

#[cfg(feature = "std")]
pub use self::hash::{key, set_key};

#[cfg(feature = "std")]
#[allow(deprecated, reason = "for maps, whose function must not be fixed; this is SipHash-2-4")]
mod hash {
    use core::hash::{BuildHasher as _, Hasher as _, SipHasher};
    use std::{hash::RandomState, sync::OnceLock};

    use crate::{
        encode::PayloadEncoder,
        field::TraceField,
        schema::{ArrayLayout, FieldType, StrEncoding},
    };

    static KEY: OnceLock<[u64; 2]> = OnceLock::new();

    /// Sets the key of all hashes of this process. Returns `false` if it has one: from an earlier
    /// call, or because a hash was recorded.
    ///
    /// The key must be random, and as secret as what is hashed.
    pub fn set_key(key: [u8; 16]) -> bool {
        let key = u128::from_le_bytes(key);
        KEY.set([key as u64, (key >> 64) as u64]).is_ok()
    }

    /// The key of this process, for a backend that hashes values itself.
    #[must_use]
    pub fn key() -> [u64; 2] {
        *KEY.get_or_init(|| {
            let state = RandomState::new();
            [1_u64, 2].map(|half| state.hash_one(half))
        })
    }

    /// A hash as text.
    pub(super) struct Digits([u8; 16]);

    impl Digits {
        pub(super) fn of(value: &impl TraceField) -> Self {
            let [first, second] = key();
            let mut values = Values(SipHasher::new_with_keys(first, second));
            value.encode_field(&mut values);
            let hash = values.0.finish();
            let digit = |at: usize| b"0123456789abcdef"[(hash >> (60 - 4 * at)) as usize & 15];
            Self(core::array::from_fn(digit))
        }

        pub(super) fn text(&self) -> &str {
            core::str::from_utf8(&self.0).unwrap_or_default()
        }
    }

    /// Hashes the values that it is given. Whatever has a variable length has an end.
    struct Values(SipHasher);

    macro_rules! numbers {
        ($($method:ident: $ty:ty),*) => {
            $(fn $method(&mut self, value: $ty) {
                self.0.write(&value.to_le_bytes());
            })*
        };
    }

    impl PayloadEncoder for Values {
        type Mark = ();

        numbers!(u8: u8, u16: u16, u32: u32, u64: u64, u128: u128, var_uint: u64, f32: f32);
        numbers!(i8: i8, i16: i16, i32: i32, i64: i64, i128: i128, var_int: i64, f64: f64);

        fn bool(&mut self, value: bool) {
            self.u8(value.into());
        }

        fn str(&mut self, value: &str, _: StrEncoding) {
            self.0.write(value.as_bytes());
            // No byte of UTF-8.
            self.u8(0xff);
        }

        fn guid(&mut self, value: &[u8; 16]) {
            self.0.write(value);
        }

        fn begin_array(&mut self, len: usize, _: ArrayLayout) {
            self.u64(len as u64);
        }

        fn end_array(&mut self, (): ()) {}

        fn begin_option(&mut self, present: bool, _: &'static FieldType) {
            self.bool(present);
        }

        fn end_option(&mut self, (): ()) {}

        fn begin_location(&mut self, _: &'static FieldType) {}

        fn begin_location_data(&mut self, (): (), _: &'static FieldType) {}

        fn location_str(&mut self, value: &str, encoding: StrEncoding) {
            self.str(value, encoding);
        }

        fn end_location_data(&mut self, (): (), _: &'static FieldType) {}
    }

    #[cfg(test)]
    mod tests {
        use std::{string::ToString as _, vec};

        use super::{Digits, SipHasher, set_key};

        /// From the reference implementation: keys 00 … 0f, input 00 … 0e.
        #[test]
        fn it_is_the_function_that_it_is_said_to_be() {
            use core::hash::Hasher as _;
            let key: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
            let mut hasher = SipHasher::new_with_keys(key[0], key[1]);
            hasher.write(&core::array::from_fn::<u8, 15, _>(|at| at as u8));
            assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
        }

        #[test]
        fn a_hash_depends_on_the_whole_value_and_on_the_key() {
            let key = core::array::from_fn(|at| at as u8);
            assert!(set_key(key) && !set_key(key));
            let text = Digits::of(&"hunter2");
            assert_eq!(text.text(), Digits::of(&"hunter2".to_string()).text());
            let others = [
                Digits::of(&"hunter1"),
                Digits::of(&"hunter22"),
                Digits::of(&("hunter", "2")),
                Digits::of(&vec!["hunter2"]),
                Digits::of(&Some("hunter2")),
                Digits::of(&7_u8),
            ];
            for other in others {
                assert_ne!(other.text(), text.text());
                assert!(other.text().bytes().all(|digit| digit.is_ascii_hexdigit()));
            }
            assert_eq!(text.text().len(), 16);
            // As another process with this key has it.
            assert_eq!(text.text(), "8242103068f5263c");
        }
    }
}
