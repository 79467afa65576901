//! An encoder of any type, behind one pointer: for backends that libraries do not know.

use core::net::{IpAddr, SocketAddr};

use crate::{
    encode::PayloadEncoder,
    schema::{ArrayLayout, FieldFormat, FieldType, StrEncoding},
};

/// Declares the trait, and passes each call on from it and to it.
macro_rules! encoder {
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

encoder! {
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
