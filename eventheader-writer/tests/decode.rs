//! Every type of field, encoded here and decoded by `tracepoint_decode`.

mod decoder;
mod spans;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::{NonZero, Wrapping},
    time::{Duration, SystemTime},
};

use decoder::decode;
use eventheader_writer::{Context, Error, TraceEvent, TraceField, encoded};
use serde_json::{Value, json};
use uuid::Uuid;

/// The event's bytes as encoded. `live_values` includes this file as a module and has its own
/// function of this name, which returns the bytes that the kernel delivered.
#[allow(dead_code, reason = "that one")]
fn delivered<T: TraceEvent>(event: &T, context: &Context<'_>) -> Vec<u8> {
    encoded(event, context).expect("the event can be described")
}

#[track_caller]
fn check<T: TraceEvent>(event: &T, expected: Value) {
    let bytes = crate::delivered(event, &Context::new());
    let decoded = decode("Tests_L4K0", &bytes);
    assert_eq!(Value::from(decoded.fields), expected);
}

#[test]
fn numbers() {
    #[derive(TraceEvent)]
    struct Numbers {
        bool: bool,
        #[trace_event(encoding = bool8)]
        bool8: bool,
        u8: u8,
        u16: u16,
        u32: u32,
        u64: u64,
        usize: usize,
        u128: u128,
        i8: i8,
        i16: i16,
        i32: i32,
        i64: i64,
        isize: isize,
        i128: i128,
        f32: f32,
        f64: f64,
        #[trace_event(encoding = varint)]
        var_uint: u16,
        #[trace_event(encoding = varint)]
        var_int: i32,
        non_zero: NonZero<u8>,
        wrapping: Wrapping<i16>,
    }
    let event = Numbers {
        bool: true,
        bool8: false,
        u8: u8::MAX,
        u16: u16::MAX,
        u32: u32::MAX,
        u64: u64::MAX,
        usize: 7,
        u128: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        i8: i8::MIN,
        i16: i16::MIN,
        i32: i32::MIN,
        i64: i64::MIN,
        isize: -7,
        i128: -1,
        f32: 1.5,
        f64: -0.25,
        var_uint: 300,
        var_int: -300,
        non_zero: NonZero::<u8>::MIN,
        wrapping: Wrapping(-2),
    };
    check(
        &event,
        json!({
            "bool": true, "bool8": false,
            "u8": 255, "u16": 65_535, "u32": u32::MAX, "u64": u64::MAX, "usize": 7,
            "u128": "00 11 22 33 44 55 66 77 88 99 AA BB CC DD EE FF",
            "i8": -128, "i16": -32_768, "i32": i32::MIN, "i64": i64::MIN, "isize": -7,
            "i128": "FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF",
            "f32": 1.5, "f64": -0.25,
            "var_uint": 300, "var_int": -300, "non_zero": 1, "wrapping": -2,
        }),
    );
}

#[test]
fn text() {
    #[derive(TraceEvent)]
    struct Text<'a> {
        plain: &'a str,
        empty: String,
        #[trace_event(encoding = utf8)]
        utf8: &'a str,
        #[trace_event(encoding = utf16)]
        utf16: &'a str,
        #[trace_event(encoding = utf16_nul)]
        nul: &'a str,
        char: char,
        astral: char,
        #[trace_event(encoding = utf16_unit)]
        unit: char,
        #[trace_event(format = xml)]
        xml: &'a str,
        #[trace_event(format = json)]
        json: &'a str,
        path: &'a std::path::Path,
    }
    let event = Text {
        plain: "häß\u{1F388}",
        empty: String::new(),
        utf8: "é",
        utf16: "ü",
        nul: "a\0b",
        char: 'ß',
        astral: '\u{1F388}',
        unit: 'x',
        xml: "<a/>",
        json: "[1]",
        path: std::path::Path::new("/tmp"),
    };
    check(
        &event,
        json!({
            "plain": "häß\u{1F388}", "empty": "", "utf8": "é", "utf16": "ü", "nul": "a\u{FFFD}b",
            "char": "ß", "astral": "\u{1F388}", "unit": "x", "xml": "<a/>", "json": "[1]",
            "path": "/tmp",
        }),
    );
}

#[test]
fn formats() {
    #[derive(TraceEvent)]
    struct Formats {
        #[trace_event(format = hex)]
        hex8: u8,
        #[trace_event(format = hex)]
        hex64: i64,
        #[trace_event(format = hex)]
        hex_of_many: Vec<u16>,
        #[trace_event(format = errno)]
        errno: i32,
        #[trace_event(format = pid)]
        pid: u32,
        #[trace_event(format = time)]
        time32: u32,
        #[trace_event(format = time)]
        time64: i64,
        #[trace_event(format = time)]
        system_time: SystemTime,
        #[trace_event(format = port)]
        port: u16,
        #[trace_event(format = port)]
        ports: [u16; 2],
        #[trace_event(format = port)]
        maybe_port: Option<u16>,
        #[trace_event(format = ip_address)]
        v4: [u8; 4],
        #[trace_event(format = ip_address)]
        v6: [u8; 16],
        #[trace_event(format = ip_address)]
        number: u32,
        #[trace_event(format = ip_address)]
        many: Vec<[u8; 4]>,
        #[trace_event(format = hex_bytes)]
        bytes: Vec<u8>,
        #[trace_event(format = hex_bytes)]
        mac: [u8; 6],
        #[trace_event(format = hex_bytes)]
        macs: Vec<[u8; 6]>,
        #[trace_event(format = hex_bytes)]
        wrapped: [Wrapping<u8>; 2],
        #[trace_event(format = hex_bytes)]
        integer: u16,
    }
    let event = Formats {
        hex8: 0xAB,
        hex64: -1,
        hex_of_many: vec![1, 0xFFFF],
        errno: 2,
        pid: 4_000_000_000,
        time32: 0,
        time64: -1,
        system_time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_999),
        port: 443,
        ports: [80, 0x1234],
        maybe_port: Some(8_080),
        v4: [127, 0, 0, 1],
        v6: Ipv6Addr::LOCALHOST.octets(),
        number: u32::from(Ipv4Addr::new(10, 1, 2, 3)),
        many: vec![[1, 2, 3, 4], [5, 6, 7, 8]],
        bytes: vec![1, 2, 255],
        mac: [1, 2, 3, 4, 5, 6],
        macs: vec![[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]],
        wrapped: [Wrapping(7), Wrapping(8)],
        integer: u16::from_ne_bytes([1, 2]),
    };
    check(
        &event,
        json!({
            "hex8": "0xAB", "hex64": "0xFFFFFFFFFFFFFFFF", "hex_of_many": ["0x1", "0xFFFF"],
            "errno": "ENOENT(2)", "pid": -294_967_296,
            "time32": "1970-01-01T00:00:00Z", "time64": "1969-12-31T23:59:59Z",
            "system_time": "1970-01-01T00:00:01Z",
            "port": 443, "ports": [80, 0x1234], "maybe_port": 8_080,
            "v4": "127.0.0.1", "v6": "::1", "number": "10.1.2.3", "many": ["1.2.3.4", "5.6.7.8"],
            "bytes": "01 02 FF", "mac": "01 02 03 04 05 06",
            "macs": ["01 02 03 04 05 06", "07 08 09 0A 0B 0C"],
            "wrapped": "07 08", "integer": "01 02",
        }),
    );
}

#[test]
fn addresses_guids_and_times() {
    #[derive(TraceEvent)]
    struct Various {
        v4: IpAddr,
        v6: Ipv6Addr,
        socket: SocketAddr,
        sockets: Vec<SocketAddr>,
        uuid: Uuid,
        #[trace_event(encoding = guid)]
        bytes: [u8; 16],
        at: SystemTime,
        #[trace_event(encoding = date_time)]
        calendar: SystemTime,
        took: Duration,
    }
    let uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    let event = Various {
        v4: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        v6: Ipv6Addr::LOCALHOST,
        socket: SocketAddr::from(([192, 0, 2, 1], 443)),
        sockets: vec![SocketAddr::from((Ipv6Addr::LOCALHOST, 1))],
        uuid,
        bytes: uuid.into_bytes(),
        at: SystemTime::UNIX_EPOCH - Duration::from_nanos(1),
        calendar: SystemTime::UNIX_EPOCH - Duration::from_millis(1),
        took: Duration::from_micros(2),
    };
    let text = uuid.to_string();
    check(
        &event,
        json!({
            "v4": "192.0.2.1", "v6": "::1",
            "socket": {"address": "192.0.2.1", "port": 443},
            "sockets": [{"address": "::1", "port": 1}],
            "uuid": text, "bytes": text,
            "at": -1, "calendar": "1969-12-31T23:59:59Z", "took": 2_000,
        }),
    );
}

#[test]
fn sequences_and_structs() {
    #[derive(TraceField)]
    struct Point {
        x: i32,
        #[trace_event(format = hex_bytes)]
        id: [u8; 2],
        label: &'static str,
    }
    #[derive(TraceEvent)]
    struct Sequences<'a> {
        counted: Vec<u32>,
        none: &'a [u8],
        fixed: [i16; 3],
        texts: Vec<&'a str>,
        two: [&'a str; 2],
        point: Point,
        points: Vec<Point>,
        pair: [Point; 2],
        tuple: (u8, &'a str),
        nested: Vec<Vec<u8>>,
        matrix: [[f32; 2]; 2],
        #[trace_event(format = ip_address)]
        v6: [[u8; 16]; 2],
        addresses: Vec<IpAddr>,
        bools: Vec<bool>,
        #[trace_event(encoding = utf16_nul)]
        terminated: Vec<&'a str>,
    }
    let point = |x| Point { x, id: [1, 2], label: "p" };
    let event = Sequences {
        counted: vec![1, 2],
        none: &[],
        fixed: [-1, 0, 1],
        texts: vec!["a", "", "c"],
        two: ["x", "y"],
        point: point(0),
        points: vec![point(1), point(2)],
        pair: [point(3), point(4)],
        tuple: (9, "t"),
        nested: vec![vec![1], vec![], vec![2, 3]],
        matrix: [[0.5, 1.5], [2.5, 3.5]],
        v6: [Ipv6Addr::LOCALHOST.octets(), Ipv6Addr::UNSPECIFIED.octets()],
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        bools: vec![true, false],
        terminated: vec!["m", "n"],
    };
    let point = |x: i32| json!({"x": x, "id": "01 02", "label": "p"});
    check(
        &event,
        json!({
            "counted": [1, 2], "none": [], "fixed": [-1, 0, 1], "texts": ["a", "", "c"],
            "two": ["x", "y"],
            "point": point(0), "points": [point(1), point(2)], "pair": [point(3), point(4)],
            "tuple": {"0": 9, "1": "t"},
            "nested": [{"items": [1]}, {"items": []}, {"items": [2, 3]}],
            "matrix": [{"items": [0.5, 1.5]}, {"items": [2.5, 3.5]}], "v6": ["::1", "::"],
            "addresses": ["127.0.0.1", "::1"], "bools": [true, false], "terminated": ["m", "n"],
        }),
    );
}

#[derive(TraceField, Clone)]
struct Inner {
    value: u8,
}

#[derive(TraceEvent, Clone)]
struct Options {
    bool: Option<bool>,
    u32: Option<u32>,
    i64: Option<i64>,
    f64: Option<f64>,
    u128: Option<u128>,
    char: Option<char>,
    #[trace_event(encoding = utf16_unit)]
    unit: Option<u16>,
    uuid: Option<Uuid>,
    ip: Option<IpAddr>,
    #[trace_event(format = errno)]
    errno: Option<i32>,
    #[trace_event(format = hex_bytes)]
    mac: Option<[u8; 6]>,
    #[trace_event(format = ip_address)]
    v4: Option<[u8; 4]>,
    text: Option<String>,
    bytes: Option<Vec<u8>>,
    inner: Option<Inner>,
    socket: Option<SocketAddr>,
    many: Vec<Option<u16>>,
    texts: Vec<Option<String>>,
    twice: Option<Option<u8>>,
}

#[test]
fn absent_values_are_null_where_the_format_has_one() {
    let none = Options {
        bool: None,
        u32: None,
        i64: None,
        f64: None,
        u128: None,
        char: None,
        unit: None,
        uuid: None,
        ip: None,
        errno: None,
        mac: None,
        v4: None,
        text: None,
        bytes: None,
        inner: None,
        socket: None,
        many: vec![None, Some(0), Some(1)],
        texts: vec![None, Some(String::new()), Some("x".to_owned())],
        twice: Some(None),
    };
    check(
        &none,
        json!({
            "bool": null, "u32": null, "i64": null, "f64": null, "u128": "", "char": "", "unit": "",
            "uuid": null, "ip": null, "errno": null, "mac": "", "v4": null,
            "text": [], "bytes": [], "inner": [], "socket": [], "many": [null, 0, 1],
            "texts": [{"value": []}, {"value": [""]}, {"value": ["x"]}], "twice": [null],
        }),
    );
    let some = Options {
        bool: Some(false),
        u32: Some(0),
        i64: Some(-1),
        f64: Some(0.5),
        u128: Some(1),
        char: Some('ß'),
        unit: Some(0x41),
        uuid: Some(Uuid::nil()),
        ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        errno: Some(13),
        mac: Some([1, 2, 3, 4, 5, 6]),
        v4: Some([1, 2, 3, 4]),
        text: Some(String::new()),
        bytes: Some(vec![1]),
        inner: Some(Inner { value: 5 }),
        socket: Some(SocketAddr::from(([1, 2, 3, 4], 5))),
        many: vec![],
        texts: vec![],
        twice: None,
    };
    check(
        &some,
        json!({
            "bool": false, "u32": 0, "i64": -1, "f64": 0.5,
            "u128": "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01", "char": "ß", "unit": "A",
            "uuid": "00000000-0000-0000-0000-000000000000", "ip": "127.0.0.1",
            "errno": "EACCES(13)",
            "mac": "01 02 03 04 05 06", "v4": "1.2.3.4", "text": [""], "bytes": [{"items": [1]}],
            "inner": [{"value": 5}], "socket": [{"address": "1.2.3.4", "port": 5}],
            "many": [], "texts": [], "twice": [],
        }),
    );
}

#[test]
fn located_fields_stand_behind_the_others() {
    #[derive(TraceEvent)]
    struct Located<'a> {
        #[trace_event(encoding = rel_loc)]
        first: &'a str,
        second: u8,
        #[trace_event(encoding = data_loc)]
        third: Vec<u32>,
        #[trace_event(encoding = utf8_rel_loc)]
        fourth: &'a str,
        #[trace_event(encoding = rel_loc, format = hex_bytes)]
        fifth: Vec<u8>,
        #[trace_event(encoding = rel_loc, format = hex_bytes)]
        sixth: Vec<[u8; 3]>,
        #[trace_event(encoding = data_loc)]
        seventh: Vec<(bool, u16)>,
        #[trace_event(encoding = data_loc)]
        eighth: Vec<[(u8, [u16; 2]); 2]>,
        #[trace_event(encoding = data_loc)]
        last: [u8; 2],
    }
    let event = Located {
        first: "é",
        second: 2,
        third: vec![3, 4],
        fourth: "ß",
        fifth: vec![1, 2],
        sixth: vec![[1, 2, 3], [4, 5, 6]],
        seventh: vec![(true, 1), (false, 2)],
        eighth: vec![[(1, [2, 3]), (4, [5, 6])]; 3],
        last: [8, 9],
    };
    let eighth = json!({"items": [{"0": 1, "1": [2, 3]}, {"0": 4, "1": [5, 6]}]});
    check(
        &event,
        json!({
            "second": 2, "first": "é", "third": [3, 4], "fourth": "ß", "fifth": "01 02",
            "sixth": ["01 02 03", "04 05 06"],
            "seventh": [{"0": true, "1": 1}, {"0": false, "1": 2}],
            "eighth": [eighth, eighth, eighth], "last": [8, 9],
        }),
    );
}

#[test]
fn tags_stand_behind_the_names() {
    #[derive(TraceField)]
    struct Part {
        #[trace_event(tag = 0x55AA)]
        inside: u8,
    }
    #[derive(TraceEvent)]
    struct Tagged {
        #[trace_event(tag = 1)]
        number: u32,
        #[trace_event(tag = 0xFFFF)]
        list: [u16; 2],
        #[trace_event(tag = 2)]
        part: Part,
    }
    check(
        &Tagged { number: 1, list: [2, 3], part: Part { inside: 4 } },
        json!({
            "number;tag=0x1": 1, "list;tag=0xFFFF": [2, 3],
            "part;tag=0x2": {"inside;tag=0x55AA": 4},
        }),
    );
}

#[test]
fn headers() {
    #[derive(TraceEvent)]
    #[trace_event(id = 300, version = 7, level = Warning, opcode = Start, tag = 0xBEEF)]
    #[trace_event(name = "Begun", key_values = [("team", "a;b"), ("empty", "")])]
    struct Explicit {
        value: u8,
    }
    #[derive(TraceEvent)]
    #[trace_event(level = LogAlways, version = 3)]
    struct Derived;

    let (id, related) = ([7; 16], [8; 16]);
    let event = Explicit { value: 1 };
    let bytes = crate::delivered(&event, &Context::new().activity(&id).related(&related));
    let decoded = decode("Shop_L3K2aGops", &bytes);
    assert_eq!(decoded.provider, "Shop");
    assert_eq!(decoded.name, "Begun;team=a;;b;empty=");
    assert_eq!(decoded.keyword, 0x2A);
    assert_eq!((decoded.id, decoded.version, decoded.tag), (300, 7, 0xBEEF));
    assert_eq!((decoded.opcode, decoded.level), (1, 3));
    assert_eq!((decoded.activity, decoded.related), (Some(id), Some(related)));
    assert_eq!(Value::from(decoded.fields), json!({"value": 1}));

    let bytes = crate::delivered(&Derived, &Context::new().activity(&id));
    let decoded = decode("Shop_L1K0", &bytes);
    assert_eq!((decoded.id, decoded.version, decoded.level), (0, 3, 1));
    assert_eq!((decoded.activity, decoded.related), (Some(id), None));
    assert!(decoded.fields.is_empty());

    // A related activity without an activity is left out.
    let alone = encoded(&Derived, &Context::new().related(&related)).unwrap();
    assert_eq!(alone, encoded(&Derived, &Context::new()).unwrap());
}

#[test]
fn structs_are_eight_deep_at_most() {
    macro_rules! chain {
        ($outer:ident $inner:ty, $($rest:tt)*) => {
            #[derive(TraceField, Default)]
            struct $outer {
                next: $inner,
            }
            chain!($($rest)*);
        };
        () => {};
    }
    chain!(A u8, B A, C B, D C, E D, F E, G F, H G,);
    #[derive(TraceEvent)]
    struct Deep {
        next: H,
    }
    let mut expected = json!(0);
    for _ in 0..9 {
        expected = json!({ "next": expected });
    }
    check(&Deep { next: H::default() }, expected);
}

#[test]
fn what_does_not_fit_is_refused() {
    #[derive(TraceEvent)]
    struct Large {
        text: String,
    }
    let fits = |len| encoded(&Large { text: "x".repeat(len) }, &Context::new());
    let overhead = fits(0).unwrap().len();
    let most = eventheader_writer::MAX_EVENT_BYTES - overhead;
    assert_eq!(fits(most).unwrap().len(), eventheader_writer::MAX_EVENT_BYTES);
    assert!(matches!(fits(most + 1), Err(Error::TooLarge { event }) if event == "Large"));
    assert!(matches!(fits(100_000), Err(Error::TooLarge { .. })));
}

#[test]
fn numbers_and_bytes_in_other_words() {
    #[derive(TraceEvent)]
    struct Words<'a> {
        #[trace_event(format = signed)]
        signed: u8,
        #[trace_event(format = unsigned)]
        unsigned: [i16; 2],
        #[trace_event(format = boolean)]
        truth: Option<u32>,
        #[trace_event(format = uuid)]
        uuids: [[u8; 16]; 1],
        #[trace_event(format = latin1)]
        latin1: &'a [u8],
        #[trace_event(format = utf)]
        names: Vec<&'a [u8]>,
        #[trace_event(format = utf_bom)]
        utf16: &'a [u16],
        #[trace_event(format = utf)]
        utf32: [char; 2],
        #[trace_event(format = json)]
        json: Option<&'a [u8]>,
    }
    let event = Words {
        signed: 255,
        unsigned: [-1, 1],
        truth: Some(1),
        uuids: [*Uuid::from_u128(1).as_bytes()],
        latin1: b"\xDF",
        names: vec![b"a", "é".as_bytes()],
        utf16: &[0xFEFF, 0xD83C, 0xDF88],
        utf32: ['ß', 'x'],
        json: Some(b"[]"),
    };
    check(
        &event,
        json!({
            "signed": -1, "unsigned": [65_535, 1], "truth": true,
            "uuids": ["00000000-0000-0000-0000-000000000001"], "latin1": "ß", "names": ["a", "é"],
            "utf16": "\u{1F388}", "utf32": "ßx", "json": ["[]"],
        }),
    );
}
