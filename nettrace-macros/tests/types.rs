//! Every type that a field can have, in every encoding: its schema and its encoder calls.
#![expect(clippy::disallowed_types, reason = "an atomic can be a field")]

mod recorder;

use std::{
    borrow::Cow,
    error::Error,
    ffi::OsString,
    fmt::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    num::{NonZero, Saturating, Wrapping},
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI16, AtomicIsize, AtomicU8, AtomicU64},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nettrace_event::{ArrayLayout::*, Cut, FieldType, StrEncoding};
use nettrace_macros::TraceEvent;
use uuid::Uuid;

use crate::recorder::{record, schema_of};

/// Declares an event with the given fields, makes one, and compares each field's type and all
/// calls.
macro_rules! check {
    ($($(#[$attr:meta])* $field:ident: $ty:ty = $value:expr => $kind:expr, $calls:expr;)+) => {{
        #[derive(TraceEvent)]
        #[trace_event(crate = nettrace_event)]
        struct Event<'a> {
            $($(#[$attr])* $field: $ty,)+
            #[trace_event(skip)]
            _lifetime: std::marker::PhantomData<&'a ()>,
        }
        let event = Event { $($field: $value,)+ _lifetime: std::marker::PhantomData };
        let mut types = schema_of::<Event<'_>>().fields.iter();
        let mut expected: Vec<&str> = Vec::new();
        $(
            let field = types.next().unwrap();
            assert_eq!(field.ty, $kind, "{}", field.name);
            expected.extend($calls);
        )+
        assert_eq!(record(&event), expected);
    }};
}

const TEXT: FieldType = FieldType::Str(StrEncoding::Utf16);

#[test]
fn numbers() {
    check! {
        a: bool = true => FieldType::Bool, ["Bool true"];
        b: u8 = 1 => FieldType::U8, ["U8 1"];
        c: u16 = 2 => FieldType::U16, ["U16 2"];
        d: u32 = 3 => FieldType::U32, ["U32 3"];
        e: u64 = 4 => FieldType::U64, ["U64 4"];
        f: usize = 5 => FieldType::U64, ["U64 5"];
        g: u128 = 6 => FieldType::U128, ["U128 6"];
        h: i8 = -1 => FieldType::I8, ["I8 -1"];
        i: i16 = -2 => FieldType::I16, ["I16 -2"];
        j: i32 = -3 => FieldType::I32, ["I32 -3"];
        k: i64 = -4 => FieldType::I64, ["I64 -4"];
        l: isize = -5 => FieldType::I64, ["I64 -5"];
        m: i128 = -6 => FieldType::I128, ["I128 -6"];
        n: f32 = 0.5 => FieldType::F32, ["F32 0.5"];
        o: f64 = f64::NEG_INFINITY => FieldType::F64, ["F64 -inf"];
        p: char = 'é' => FieldType::Char, ["Char 'é'"];
    }
}

#[test]
fn wrapped_numbers() {
    check! {
        a: NonZero<u32> = NonZero::new(1).unwrap() => FieldType::U32, ["U32 1"];
        b: std::num::NonZeroIsize = NonZero::new(-1).unwrap() => FieldType::I64, ["I64 -1"];
        c: Wrapping<u8> = Wrapping(2) => FieldType::U8, ["U8 2"];
        d: Saturating<i64> = Saturating(3) => FieldType::I64, ["I64 3"];
        e: AtomicBool = AtomicBool::new(true) => FieldType::Bool, ["Bool true"];
        f: &'a AtomicU64 = &AtomicU64::new(4) => FieldType::U64, ["U64 4"];
        g: Arc<AtomicIsize> = Arc::new(AtomicIsize::new(-5)) => FieldType::I64, ["I64 -5"];
        #[trace_event(encoding = varint)]
        h: AtomicI16 = AtomicI16::new(-6) => FieldType::VarInt, ["VarInt -6"];
        #[trace_event(encoding = varint)]
        i: Option<NonZero<u64>> = NonZero::new(7) => FieldType::Option(&FieldType::VarUInt),
            ["some", "VarUInt 7", "end"];
        j: [AtomicU8; 1] = [AtomicU8::new(8)] => FieldType::Array(&FieldType::U8, Fixed(1)),
            ["[ Fixed(1) 1", "U8 8", "]"];
    }
}

#[test]
fn chosen_encodings_of_numbers() {
    check! {
        #[trace_event(encoding = bool8)]
        a: bool = false => FieldType::Bool8, ["Bool8 false"];
        #[trace_event(encoding = bool8)]
        b: [bool; 2] = [true, false] => FieldType::Array(&FieldType::Bool8, Fixed(2)),
            ["[ Fixed(2) 2", "Bool8 true", "Bool8 false", "]"];
        #[trace_event(encoding = varint)]
        c: u8 = u8::MAX => FieldType::VarUInt, ["VarUInt 255"];
        #[trace_event(encoding = varint)]
        d: usize = usize::MAX => FieldType::VarUInt, ["VarUInt 18446744073709551615"];
        #[trace_event(encoding = varint)]
        e: i64 = i64::MIN => FieldType::VarInt, ["VarInt -9223372036854775808"];
        #[trace_event(encoding = varint)]
        f: isize = -1 => FieldType::VarInt, ["VarInt -1"];
        #[trace_event(encoding = utf16_unit)]
        g: char = 'ü' => FieldType::Utf16Unit, ["Utf16Unit 252"];
        #[trace_event(encoding = utf16_unit)]
        h: char = '🦀' => FieldType::Utf16Unit, ["Utf16Unit 65533"];
        #[trace_event(encoding = utf16_unit)]
        i: Vec<u16> = vec![65] => FieldType::Array(&FieldType::Utf16Unit, Counted),
            ["[ Counted 1", "Utf16Unit 65", "]"];
        #[trace_event(encoding = guid)]
        j: u128 = 1 => FieldType::Guid, ["Guid [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]"];
        #[trace_event(encoding = guid)]
        k: Option<[u8; 16]> = Some([2; 16]) => FieldType::Option(&FieldType::Guid),
            ["some", "Guid [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]", "end"];
    }
}

#[test]
fn text() {
    check! {
        a: &'a str = "é\0🦀" => TEXT, ["str Utf16 é\0🦀"];
        b: String = "b".into() => TEXT, ["str Utf16 b"];
        c: Cow<'a, str> = Cow::Borrowed("c") => TEXT, ["str Utf16 c"];
        d: Box<str> = "d".into() => TEXT, ["str Utf16 d"];
        e: Arc<str> = "e".into() => TEXT, ["str Utf16 e"];
        f: Rc<String> = Rc::new("f".into()) => TEXT, ["str Utf16 f"];
        g: &'a &'a str = &"g" => TEXT, ["str Utf16 g"];
        h: &'a Path = Path::new("/h") => TEXT, ["str Utf16 /h"];
        i: PathBuf = "/i".into() => TEXT, ["str Utf16 /i"];
        #[trace_event(encoding = utf8)]
        j: OsString = "j".into() => FieldType::Str(StrEncoding::Utf8), ["str Utf8 j"];
        #[trace_event(encoding = utf16)]
        k: String = "k".into() => TEXT, ["str Utf16 k"];
        #[trace_event(encoding = utf16_nul)]
        l: &'a [&'a str] = &["l", ""]
            => FieldType::Array(&FieldType::Str(StrEncoding::Utf16Nul), Counted),
            ["[ Counted 2", "str Utf16Nul l", "str Utf16Nul ", "]"];
        #[trace_event(encoding = utf8)]
        m: Vec<Option<String>> = vec![Some("m".into()), None]
            => FieldType::Array(&FieldType::Option(&FieldType::Str(StrEncoding::Utf8)), Counted),
            ["[ Counted 2", "some", "str Utf8 m", "end", "none", "end", "]"];
        #[trace_event(encoding = utf8)]
        n: (&'a str, String) = ("n", "o".into()) => FieldType::Object(
            const { &[
                nettrace_event::FieldSchema::new("0", FieldType::Str(StrEncoding::Utf8)),
                nettrace_event::FieldSchema::new("1", FieldType::Str(StrEncoding::Utf8)),
            ] }), ["str Utf8 n", "str Utf8 o"];
        o: Cut<&'a str, 3> = Cut("long") => TEXT, ["str Utf16 lo…"];
        #[trace_event(encoding = utf8)]
        p: Option<Cut<String, 4>> = Some(Cut("four".into()))
            => FieldType::Option(&FieldType::Str(StrEncoding::Utf8)),
            ["some", "str Utf8 four", "end"];
    }
}

#[cfg(unix)]
#[test]
fn paths_that_are_not_unicode_show_the_replacement_character() {
    use std::os::unix::ffi::OsStringExt;

    check! {
        a: PathBuf = OsString::from_vec(b"a\xffb".to_vec()).into() => TEXT,
            ["str Utf16 a\u{fffd}b"];
    }
}

#[test]
fn sequences() {
    const BYTES: FieldType = FieldType::Array(&FieldType::U8, Counted);
    check! {
        a: &'a [u8] = &[1, 2] => BYTES, ["[ Counted 2", "U8 1", "U8 2", "]"];
        b: Vec<u8> = vec![] => BYTES, ["[ Counted 0", "]"];
        c: Box<[u8]> = Box::new([3]) => BYTES, ["[ Counted 1", "U8 3", "]"];
        d: Cow<'a, [u8]> = Cow::Owned(vec![4]) => BYTES, ["[ Counted 1", "U8 4", "]"];
        e: Arc<[u8]> = Arc::new([5]) => BYTES, ["[ Counted 1", "U8 5", "]"];
        f: &'a mut [u8] = &mut [6] => BYTES, ["[ Counted 1", "U8 6", "]"];
        g: [[i16; 2]; 1] = [[7, 8]]
            => FieldType::Array(&FieldType::Array(&FieldType::I16, Fixed(2)), Fixed(1)),
            ["[ Fixed(1) 1", "[ Fixed(2) 2", "I16 7", "I16 8", "]", "]"];
        h: [u32; 0] = [] => FieldType::Array(&FieldType::U32, Counted), ["[ Counted 0", "]"];
        i: Vec<Vec<bool>> = vec![vec![true], vec![]]
            => FieldType::Array(&FieldType::Array(&FieldType::Bool, Counted), Counted),
            ["[ Counted 2", "[ Counted 1", "Bool true", "]", "[ Counted 0", "]", "]"];
        j: Option<Option<u8>> = Some(None) => FieldType::Option(&FieldType::Option(&FieldType::U8)),
            ["some", "none", "end", "end"];
        k: Option<&'a [char]> = Some(&['k'])
            => FieldType::Option(&FieldType::Array(&FieldType::Char, Counted)),
            ["some", "[ Counted 1", "Char 'k'", "]", "end"];
        l: [(u8, f32); 1] = [(1, 2.0)] => FieldType::Array(
            &FieldType::Object(const { &[
                nettrace_event::FieldSchema::new("0", FieldType::U8),
                nettrace_event::FieldSchema::new("1", FieldType::F32),
            ] }), Fixed(1)), ["[ Fixed(1) 1", "U8 1", "F32 2.0", "]"];
    }
}

#[test]
fn long_tuples_name_each_part() {
    check! {
        a: (u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, bool) =
            (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, true) => schema_of::<Tuple>().fields[0].ty,
            ["U8 0", "U8 1", "U8 2", "U8 3", "U8 4", "U8 5", "U8 6",
             "U8 7", "U8 8", "U8 9", "U8 10", "Bool true"];
    }
    let FieldType::Object(parts) = schema_of::<Tuple>().fields[0].ty else { panic!() };
    let names: Vec<_> = parts.iter().map(|part| part.name).collect();
    assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]);
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Tuple((u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, bool));

#[test]
fn times() {
    let before = UNIX_EPOCH - Duration::new(1, 999_999_999);
    let after = UNIX_EPOCH + Duration::from_nanos(1_500_000_000);
    let far = UNIX_EPOCH + Duration::from_secs(1 << 40);
    check! {
        a: SystemTime = after => FieldType::UnixNanos, ["UnixNanos 1500000000"];
        b: SystemTime = before => FieldType::UnixNanos, ["UnixNanos -1999999999"];
        c: SystemTime = far => FieldType::UnixNanos, ["UnixNanos 9223372036854775807"];
        d: SystemTime = UNIX_EPOCH - Duration::from_secs(1 << 40) => FieldType::UnixNanos,
            ["UnixNanos -9223372036854775808"];
        #[trace_event(encoding = date_time)]
        e: SystemTime = after => FieldType::DateTime, ["DateTime 1500"];
        #[trace_event(encoding = date_time)]
        f: Option<SystemTime> = Some(before) => FieldType::Option(&FieldType::DateTime),
            ["some", "DateTime -2000", "end"];
        g: Duration = Duration::from_micros(3) => FieldType::DurationNanos, ["DurationNanos 3000"];
        h: Duration = Duration::MAX => FieldType::DurationNanos,
            ["DurationNanos 18446744073709551615"];
    }
}

#[test]
fn addresses_and_guids() {
    let v4 = Ipv4Addr::new(10, 0, 0, 1);
    check! {
        a: IpAddr = v4.into() => FieldType::IpAddr, ["IpAddr 10.0.0.1"];
        b: Ipv4Addr = v4 => FieldType::IpAddr, ["IpAddr 10.0.0.1"];
        c: &'a Ipv6Addr = &Ipv6Addr::LOCALHOST => FieldType::IpAddr, ["IpAddr ::1"];
        d: SocketAddr = (v4, 80).into() => FieldType::SocketAddr, ["SocketAddr 10.0.0.1:80"];
        e: SocketAddrV4 = SocketAddrV4::new(v4, 81) => FieldType::SocketAddr,
            ["SocketAddr 10.0.0.1:81"];
        f: SocketAddrV6 = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 82, 0, 0) => FieldType::SocketAddr,
            ["SocketAddr [::1]:82"];
        g: Uuid = Uuid::from_u128(7) => FieldType::Guid,
            ["Guid [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]"];
        #[trace_event(encoding = guid)]
        h: Vec<Uuid> = vec![] => FieldType::Array(&FieldType::Guid, Counted), ["[ Counted 0", "]"];
    }
}

/// An error with a source.
#[derive(Debug)]
struct Failed(Option<Box<Self>>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "request failed" } else { "no route" })
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.as_deref().map(|source| source as _)
    }
}

/// A type as `http::Method`.
struct Method(&'static str);

impl AsRef<str> for Method {
    fn as_ref(&self) -> &str {
        self.0
    }
}

/// Writes one character so many times.
struct Repeated(char, usize);

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.1).try_for_each(|_| f.write_char(self.0))
    }
}

#[test]
fn texts_of_values() {
    let failed = || Failed(Some(Box::new(Failed(None))));
    let dynamic: &dyn Error = &failed();
    const TEXT: FieldType = FieldType::Str(StrEncoding::Utf16);
    check! {
        #[trace_event(encoding = display)]
        a: f64 = 1.5 => TEXT, ["str Utf16 1.5"];
        #[trace_event(encoding = debug)]
        b: Option<&'a str> = Some("x") => TEXT, ["str Utf16 Some(\"x\")"];
        #[trace_event(encoding = error)]
        c: Failed = failed() => TEXT, ["str Utf16 request failed: no route"];
        #[trace_event(encoding = error)]
        d: &'a dyn Error = dynamic => TEXT, ["str Utf16 request failed: no route"];
        #[trace_event(encoding = as_ref)]
        e: Method = Method("PATCH") => TEXT, ["str Utf16 PATCH"];
        #[trace_event(encoding = display)]
        f: &'a dyn fmt::Display = &'y' => TEXT, ["str Utf16 y"];
    }
    // Around the length from which on a text takes an allocation, with characters across it.
    for (character, count) in
        [('a', 255), ('a', 256), ('a', 257), ('é', 128), ('é', 129), ('€', 86)]
    {
        #[derive(TraceEvent)]
        #[trace_event(crate = nettrace_event)]
        struct Long {
            #[trace_event(encoding = display)]
            text: Repeated,
        }
        let calls = record(&Long { text: Repeated(character, count) });
        assert_eq!(calls, [format!("str Utf16 {}", character.to_string().repeat(count))]);
    }
}
