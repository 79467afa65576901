//! Booleans, integers, floats and what wraps them; times, addresses, GUIDs.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    num::{NonZero, Saturating, Wrapping},
    sync::atomic::{
        AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16,
        AtomicU32, AtomicU64, AtomicUsize,
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{Sample, table};

const GUID: [u8; 16] = [
    0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
];
const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

pub(super) fn samples() -> Vec<Sample> {
    let mut samples =
        vec![numbers(), extremes(), wrapped(), variable(), times(), addresses(), guids()];
    samples.push(Sample { newest_only: true, ..booleans_of_one_byte() });
    samples
}

fn numbers() -> Sample {
    table! {
        Numbers;
        a_bool: bool = true => (true);
        a_u8: u8 = 250 => (250);
        a_u16: u16 = 65_000 => (65_000);
        a_u32: u32 = 4_000_000_000 => (4_000_000_000_u32);
        a_u64: u64 = 18_000_000_000_000_000_000 => (18_000_000_000_000_000_000_u64);
        a_usize: usize = 7 => (7);
        a_u128: u128 = (5 << 64) + 6 => ({ "low": 6, "high": 5 });
        an_i8: i8 = -100 => (-100);
        an_i16: i16 = -30_000 => (-30_000);
        an_i32: i32 = -2_000_000_000 => (-2_000_000_000);
        an_i64: i64 = -9_000_000_000_000_000_000 => (-9_000_000_000_000_000_000_i64);
        an_isize: isize = -7 => (-7);
        an_i128: i128 = -1 => ({ "low": u64::MAX, "high": -1 });
        an_f32: f32 = -0.375 => (-0.375);
        an_f64: f64 = 0.1 => (0.1);
        a_char: char = '漢' => ("漢");
        a_long_char: char = '🦀' => ("🦀");
        #[trace_event(encoding = utf16_unit)]
        a_unit: char = 'é' => ("é");
        #[trace_event(encoding = utf16_unit)]
        a_unit_too_small: char = '🦀' => ("\u{fffd}");
        #[trace_event(encoding = utf16_unit)]
        a_raw_unit: u16 = 0x20ac => ("€");
        #[trace_event(format = hex)]
        a_hex: u32 = 0xff => (255);
        last: u8 = 1 => (1);
    }
}

fn extremes() -> Sample {
    table! {
        Extremes;
        a_bool: bool = false => (false);
        u8_max: u8 = u8::MAX => (255);
        u16_max: u16 = u16::MAX => (65_535);
        u32_max: u32 = u32::MAX => (u32::MAX);
        u64_max: u64 = u64::MAX => (u64::MAX);
        u128_max: u128 = u128::MAX => ({ "low": u64::MAX, "high": u64::MAX });
        i8_min: i8 = i8::MIN => (-128);
        i16_min: i16 = i16::MIN => (-32_768);
        i32_min: i32 = i32::MIN => (i32::MIN);
        i64_min: i64 = i64::MIN => (i64::MIN);
        i128_min: i128 = i128::MIN => ({ "low": 0, "high": i64::MIN });
        f32_nan: f32 = f32::NAN => ("NaN");
        f32_infinite: f32 = f32::INFINITY => ("Infinity");
        f64_infinite: f64 = f64::NEG_INFINITY => ("-Infinity");
        f64_max: f64 = f64::MAX => (f64::MAX);
        f64_smallest: f64 = f64::from_bits(1) => (5e-324);
        last: u8 = 1 => (1);
    }
}

fn wrapped() -> Sample {
    table! {
        Wrapped;
        a: NonZero<u32> = NonZero::<u32>::MIN => (1);
        b: NonZero<i64> = NonZero::<i64>::MIN => (i64::MIN);
        c: Wrapping<u8> = Wrapping(2) => (2);
        d: Saturating<i64> = Saturating(-3) => (-3);
        e: AtomicBool = AtomicBool::new(true) => (true);
        f: AtomicU8 = AtomicU8::new(4) => (4);
        g: AtomicI8 = AtomicI8::new(-5) => (-5);
        h: AtomicU16 = AtomicU16::new(6) => (6);
        i: AtomicI16 = AtomicI16::new(-7) => (-7);
        j: AtomicU32 = AtomicU32::new(8) => (8);
        k: AtomicI32 = AtomicI32::new(-9) => (-9);
        l: &'a AtomicU64 = &AtomicU64::new(10) => (10);
        m: AtomicI64 = AtomicI64::new(-11) => (-11);
        n: AtomicUsize = AtomicUsize::new(12) => (12);
        o: AtomicIsize = AtomicIsize::new(-13) => (-13);
        last: u8 = 1 => (1);
    }
}

fn variable() -> Sample {
    table! {
        Variable;
        #[trace_event(encoding = varint)]
        one_byte: u8 = 127 => (127);
        #[trace_event(encoding = varint)]
        two_bytes: u16 = 128 => (128);
        #[trace_event(encoding = varint)]
        a_u32: u32 = u32::MAX => (u32::MAX);
        #[trace_event(encoding = varint)]
        ten_bytes: u64 = u64::MAX => (u64::MAX);
        #[trace_event(encoding = varint)]
        a_usize: usize = 300 => (300);
        #[trace_event(encoding = varint)]
        an_i8: i8 = -1 => (-1);
        #[trace_event(encoding = varint)]
        an_i16: i16 = 64 => (64);
        #[trace_event(encoding = varint)]
        an_i32: i32 = i32::MIN => (i32::MIN);
        #[trace_event(encoding = varint)]
        an_i64: i64 = i64::MIN => (i64::MIN);
        #[trace_event(encoding = varint)]
        an_isize: isize = -300 => (-300);
        last: u8 = 1 => (1);
    }
}

fn times() -> Sample {
    table! {
        Times;
        duration: Duration = Duration::new(3, 5) => (3_000_000_005_u64);
        longest_duration: Duration = Duration::MAX => (u64::MAX);
        time: SystemTime = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789)
            => (1_700_000_000_123_456_789_i64);
        time_before_1970: SystemTime = UNIX_EPOCH - Duration::from_nanos(1) => (-1);
        #[trace_event(encoding = date_time)]
        date_time: SystemTime = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123)
            => ("2023-11-14T22:13:20.1230000Z");
        last: u8 = 1 => (1);
    }
}

fn addresses() -> Sample {
    table! {
        Addresses;
        ip: IpAddr = V4.into() => ("192.0.2.1");
        ipv4: Ipv4Addr = V4 => ("192.0.2.1");
        ipv6: Ipv6Addr = V6 => ("2001:db8::1");
        socket: SocketAddr = (V6, 443).into() => ("[2001:db8::1]:443");
        socket_v4: SocketAddrV4 = SocketAddrV4::new(V4, 80) => ("192.0.2.1:80");
        socket_v6: SocketAddrV6 = SocketAddrV6::new(V6, 80, 0, 3) => ("[2001:db8::1%3]:80");
        last: u8 = 1 => (1);
    }
}

fn guids() -> Sample {
    table! {
        Guids;
        #[trace_event(encoding = guid)]
        bytes: [u8; 16] = GUID => ("01234567-89ab-cdef-0123-456789abcdef");
        #[trace_event(encoding = guid)]
        number: u128 = u128::from_be_bytes(GUID) => ("01234567-89ab-cdef-0123-456789abcdef");
        #[trace_event(encoding = guid)]
        some: Option<[u8; 16]> = Some([0xff; 16]) => (["ffffffff-ffff-ffff-ffff-ffffffffffff"]);
        last: u8 = 1 => (1);
    }
}

fn booleans_of_one_byte() -> Sample {
    table! {
        BooleansOfOneByte;
        #[trace_event(encoding = bool8)]
        yes: bool = true => (true);
        #[trace_event(encoding = bool8)]
        no: AtomicBool = AtomicBool::new(false) => (false);
        #[trace_event(encoding = bool8)]
        many: Vec<bool> = vec![true, false, true] => ([true, false, true]);
        #[trace_event(encoding = bool8)]
        maybe: Option<bool> = Some(true) => ([true]);
        last: u8 = 1 => (1);
    }
}
