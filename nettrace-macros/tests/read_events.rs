//! `derive(ReadEvent)` and `derive(ReadField)`: what a session has written is read with types.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    net::{IpAddr, SocketAddr},
    num::NonZero,
    time::{Duration, SystemTime},
};

use nettrace_reader::{Guid, Mismatch, Problem, ReadError, ReadEvent, ReadField, Reader};
use nettrace_writer::{Emit, Session, TraceEvent, TraceField, sink::MemorySink, traced};
use proptest::prelude::*;

/// What a session writes while `emit` runs.
fn written(provider: &str, emit: impl FnOnce()) -> Vec<u8> {
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider(provider).start().unwrap();
    emit();
    session.finish().unwrap();
    memory.bytes()
}

/// All events of a type, or why one of them is none.
fn read<T: ReadEvent>(trace: &[u8]) -> Vec<Result<T, Mismatch>> {
    let mut reader = Reader::new(trace).unwrap();
    let events = reader.events::<T>().map(|event| match event {
        Ok(event) => Ok(event.value),
        Err(ReadError::Event(mismatch)) => Err(mismatch),
        Err(ReadError::Trace(error)) => panic!("{error}"),
    });
    events.collect()
}

#[derive(Clone, Debug, PartialEq, TraceField, ReadField)]
struct Place {
    city: String,
    #[trace_event(rename = "level")]
    floor: i8,
    #[trace_event(skip)]
    note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, TraceField, ReadField)]
enum Payment {
    Cash,
    #[trace_event(rename = "credit card")]
    Card,
}

#[derive(Clone, Copy, Debug, PartialEq, TraceField, ReadField)]
#[trace_event(encoding = number)]
#[repr(i16)]
enum Grade {
    Low = -3,
    High = 300,
}

#[derive(Clone, Copy, Debug, PartialEq, TraceField, ReadField)]
#[trace_event(transparent)]
struct Cents(u32);

#[derive(Clone, Debug, PartialEq, TraceEvent, ReadEvent)]
#[trace_event(provider = "Read-All")]
struct Numbers {
    flag: bool,
    #[trace_event(encoding = bool8)]
    small_flag: bool,
    a: (u8, u16, u32, u64, usize),
    b: (i8, i16, i32, i64, isize),
    wide: u128,
    wide_signed: i128,
    not_zero: NonZero<u16>,
    single: f32,
    double: f64,
    #[trace_event(encoding = varint)]
    variable: u64,
    #[trace_event(encoding = varint)]
    variable_signed: i32,
    cents: Cents,
    grade: Grade,
    three: [u16; 3],
    bytes: Vec<u8>,
    #[trace_event(encoding = rel_loc)]
    located: Vec<u32>,
    lists: Vec<Vec<i32>>,
    maybe: Option<u64>,
    perhaps: Option<Vec<u8>>,
    twice: Option<Option<u8>>,
    boxed: Box<i64>,
}

#[derive(Clone, Debug, PartialEq, TraceEvent, ReadEvent)]
#[trace_event(provider = "Read-All", name = "ManyTexts")]
struct Texts {
    #[trace_event(rename = "how")]
    payment: Payment,
    utf16: String,
    #[trace_event(encoding = utf8)]
    utf8: Box<str>,
    #[trace_event(encoding = utf16_nul)]
    nul: String,
    #[trace_event(encoding = utf8_data_loc)]
    located: String,
    cow: Cow<'static, str>,
    letter: char,
    from: IpAddr,
    to: SocketAddr,
    took: Duration,
    at: SystemTime,
    place: Place,
    places: Vec<Place>,
    map: BTreeMap<String, u8>,
    hashed: HashMap<u16, String>,
    #[trace_event(skip)]
    skipped: u8,
}

fn text() -> impl Strategy<Value = String> {
    // A NUL is written as U+FFFD in some encodings.
    any::<String>().prop_map(|text| text.replace('\0', "-"))
}

fn ascii() -> impl Strategy<Value = String> {
    "[ -~]{0,40}"
}

fn place() -> impl Strategy<Value = Place> {
    (text(), any::<i8>()).prop_map(|(city, floor)| Place { city, floor, note: String::new() })
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let scalars = any::<(bool, bool, u128, i128, f32, f64, u64, i32)>();
    let tuples = any::<((u8, u16, u32, u64, usize), (i8, i16, i32, i64, isize), [u16; 3])>();
    let lists = any::<(Vec<u8>, Vec<u32>, Vec<Vec<i32>>, Option<u64>)>();
    let others = any::<(Option<Vec<u8>>, Option<Option<u8>>, i64, u32, bool)>();
    (scalars, tuples, lists, others, 1_u16..).prop_map(
        |(scalars, (a, b, three), (bytes, located, lists, maybe), others, not_zero)| {
            let (flag, small_flag, wide, wide_signed, single, double, variable, variable_signed) =
                scalars;
            let (perhaps, twice, boxed, cents, is_high) = others;
            // A number that is none differs from itself.
            let single = if single.is_nan() { 0.5 } else { single };
            let double = if double.is_nan() { 0.5 } else { double };
            Numbers {
                flag,
                small_flag,
                a,
                b,
                wide,
                wide_signed,
                not_zero: NonZero::new(not_zero).unwrap(),
                single,
                double,
                variable,
                variable_signed,
                cents: Cents(cents),
                grade: if is_high { Grade::High } else { Grade::Low },
                three,
                bytes,
                located,
                lists,
                maybe,
                perhaps,
                twice,
                boxed: Box::new(boxed),
            }
        },
    )
}

fn texts() -> impl Strategy<Value = Texts> {
    let strings = (text(), text(), text(), text(), text());
    let addresses = any::<(IpAddr, (IpAddr, u16), char, u64, i64, bool)>();
    let places = (place(), prop::collection::vec(place(), 0..3));
    let map = prop::collection::btree_map(text(), any::<u8>(), 0..4);
    let hashed = prop::collection::hash_map(any::<u16>(), ascii(), 0..4);
    (strings, addresses, places, map, hashed).prop_map(
        |(strings, addresses, (place, places), map, hashed)| {
            let (utf16, utf8, nul, located, cow) = strings;
            let (from, to, letter, took, at, is_cash) = addresses;
            let since = Duration::from_nanos(at.unsigned_abs());
            let at = match at {
                0.. => SystemTime::UNIX_EPOCH + since,
                _ => SystemTime::UNIX_EPOCH - since,
            };
            Texts {
                payment: if is_cash { Payment::Cash } else { Payment::Card },
                utf16,
                utf8: utf8.into(),
                nul,
                located,
                cow: cow.into(),
                letter: if letter == '\0' { '-' } else { letter },
                from,
                to: to.into(),
                took: Duration::from_nanos(took),
                at,
                place,
                places,
                map,
                hashed,
                skipped: 0,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        numbers in prop::collection::vec(numbers(), 1..5),
        texts in prop::collection::vec(texts(), 1..5),
    ) {
        let trace = written("Read-All", || {
            numbers.iter().for_each(|event| event.emit());
            texts.iter().for_each(|event| event.emit());
        });
        let all: Result<Vec<Numbers>, _> = read(&trace).into_iter().collect();
        prop_assert_eq!(all, Ok(numbers));
        let all: Result<Vec<Texts>, _> = read(&trace).into_iter().collect();
        prop_assert_eq!(all, Ok(texts));
    }
}

mod versions {
    use super::*;

    /// What several versions of a service write.
    #[derive(TraceEvent)]
    #[trace_event(provider = "Read-Versions", name = "Sold")]
    pub(super) struct First {
        pub(super) cents: u16,
        pub(super) who: String,
    }

    #[derive(TraceEvent)]
    #[trace_event(provider = "Read-Versions", name = "Sold", version = 1)]
    pub(super) struct Second {
        pub(super) cents: u32,
        pub(super) who: Option<String>,
        pub(super) id: uuid::Uuid,
    }

    #[derive(TraceEvent)]
    #[trace_event(provider = "Read-Versions", name = "Sold", version = 2)]
    pub(super) struct Third {
        pub(super) who: u8,
    }
}

/// Reads them all.
#[derive(Debug, PartialEq, ReadEvent)]
#[trace_event(provider = "Read-Versions")]
struct Sold {
    who: Option<String>,
    cents: u64,
    id: Option<Guid>,
}

/// Knows the first version.
#[derive(Debug, PartialEq, ReadEvent)]
#[trace_event(provider = "Read-Versions", name = "Sold")]
struct Old {
    cents: u16,
    who: String,
}

#[test]
fn older_and_newer_versions_are_read_by_names() {
    let id = uuid::Uuid::from_u128(0x0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9);
    let trace = written("Read-Versions", || {
        versions::First { cents: 7, who: "Ada".into() }.emit();
        versions::Second { cents: 8, who: None, id }.emit();
        versions::Second { cents: 70_000, who: Some("Bo".into()), id }.emit();
        versions::Third { who: 3 }.emit();
    });
    let mismatch = |field: &str, problem| Mismatch {
        event: "Read-Versions/Sold".into(),
        field: field.into(),
        problem,
    };
    let id = Some(Guid(*id.as_bytes()));
    let all = read::<Sold>(&trace);
    assert_eq!(
        all[..3],
        [
            Ok(Sold { who: Some("Ada".into()), cents: 7, id: None }),
            Ok(Sold { who: None, cents: 8, id }),
            Ok(Sold { who: Some("Bo".into()), cents: 70_000, id }),
        ]
    );
    assert_eq!(*all[3].as_ref().unwrap_err(), mismatch("who", Problem::Value("U8(3)".into())));
    assert_eq!(
        all[3].as_ref().unwrap_err().to_string(),
        "field `who` of Read-Versions/Sold is U8(3)"
    );
    // A new field is not read. What does not fit the old type is told, and the next is read.
    let old = read::<Old>(&trace);
    assert_eq!(old[0], Ok(Old { cents: 7, who: "Ada".into() }));
    assert_eq!(*old[1].as_ref().unwrap_err(), mismatch("who", Problem::Value("Array([])".into())));
    assert_eq!(
        *old[2].as_ref().unwrap_err(),
        mismatch("cents", Problem::Value("U32(70000)".into()))
    );
    assert_eq!(*old[3].as_ref().unwrap_err(), mismatch("cents", Problem::Missing));
}

/// The variants of an enum are events.
#[derive(Debug, PartialEq, TraceEvent, ReadEvent)]
#[trace_event(provider = "Read-Jobs")]
enum Job {
    Started { id: u32, name: String },
    Moved(u8, #[trace_event(skip)] Vec<u8>),
    Ended,
}

#[derive(Debug, PartialEq, ReadEvent)]
#[trace_event(provider = "Read-Jobs", name = "workStop")]
struct WorkStop {
    duration: Duration,
    outcome: String,
}

#[traced(provider = "Read-Jobs")]
fn work() {
    Job::Ended.emit();
}

#[test]
fn variants_and_spans_are_read() {
    let trace = written("Read-Jobs", || {
        Job::Started { id: 1, name: "a".into() }.emit();
        Job::Moved(2, vec![3]).emit();
        work();
    });
    let jobs: Vec<_> = read::<Job>(&trace).into_iter().map(Result::unwrap).collect();
    let expected =
        [Job::Started { id: 1, name: "a".into() }, Job::Moved(2, Vec::new()), Job::Ended];
    assert_eq!(jobs, expected);
    let stops = read::<WorkStop>(&trace);
    assert_eq!(stops[0].as_ref().unwrap().outcome, "ok");

    // In the order of time, with the header of each.
    let mut sorted = Reader::new(&trace[..]).unwrap().sorted();
    let times: Vec<_> = sorted.events::<Job>().map(|it| it.unwrap().header.timestamp).collect();
    assert!(times.len() == 3 && times.is_sorted(), "{times:?}");
    // A trace that ends early.
    let mut cut = Reader::new(&trace[..trace.len() - 40]).unwrap();
    let last = cut.events::<Job>().last().unwrap();
    assert!(matches!(last, Err(ReadError::Trace(_))), "{last:?}");
}

#[derive(Clone, Debug, PartialEq, TraceField, ReadField)]
struct Cart {
    items: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, TraceField, ReadField)]
struct Limit {
    value: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, TraceField, ReadField)]
#[trace_event(transparent)]
struct Numbered(Vec<u8>);

/// Arrays within arrays, and objects that look like what version 6 makes of these.
#[derive(Clone, Debug, PartialEq, TraceEvent, ReadEvent)]
#[trace_event(provider = "Read-Wrapped")]
struct Wrapped {
    carts: Vec<Option<Cart>>,
    limits: Option<Option<Limit>>,
    plain: Vec<Cart>,
    one: Option<Limit>,
    numbered: Vec<Numbered>,
    twice: Option<Vec<Option<Vec<u8>>>>,
    #[trace_event(encoding = utf16_unit)]
    letter: Option<char>,
    #[trace_event(encoding = utf16_unit)]
    units: Vec<u16>,
    #[trace_event(encoding = utf16_unit)]
    two: [char; 2],
}

#[test]
fn what_looks_like_a_wrapper_is_none() {
    let cart = |items: &[u32]| Cart { items: items.to_vec() };
    let all = [
        Wrapped {
            carts: vec![None, Some(cart(&[])), Some(cart(&[1]))],
            limits: Some(None),
            plain: vec![cart(&[]), cart(&[2, 3])],
            one: Some(Limit { value: None }),
            numbered: vec![Numbered(vec![]), Numbered(vec![4])],
            twice: Some(vec![None, Some(vec![]), Some(vec![5, 6])]),
            letter: None,
            units: vec![0x41, 0x42],
            two: ['x', 'y'],
        },
        Wrapped {
            carts: vec![],
            limits: Some(Some(Limit { value: Some(7) })),
            plain: vec![],
            one: None,
            numbered: vec![],
            twice: Some(vec![]),
            letter: Some('z'),
            units: vec![],
            two: ['a', 'b'],
        },
    ];
    let trace = written("Read-Wrapped", || all.iter().for_each(|event| event.emit()));
    let read: Vec<_> = read::<Wrapped>(&trace).into_iter().map(Result::unwrap).collect();
    assert_eq!(read, all);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Read-Optional", name = "Listed")]
struct Listed {
    lists: Vec<Vec<u8>>,
    name: String,
}

#[derive(Debug, PartialEq, ReadEvent)]
#[trace_event(provider = "Read-Optional", name = "Listed")]
struct MaybeListed {
    lists: Option<Vec<Vec<u8>>>,
    name: Option<String>,
}

/// What was recorded before a field became optional.
#[test]
fn fields_that_became_optional() {
    let trace = written("Read-Optional", || {
        for lists in [vec![], vec![vec![]], vec![vec![1], vec![]]] {
            Listed { lists, name: String::new() }.emit();
        }
    });
    let read: Vec<_> = read::<MaybeListed>(&trace).into_iter().map(Result::unwrap).collect();
    let name = || Some(String::new());
    // An empty list is what an absent one is.
    let expected = [
        MaybeListed { lists: None, name: name() },
        MaybeListed { lists: Some(vec![vec![]]), name: name() },
        MaybeListed { lists: Some(vec![vec![1], vec![]]), name: name() },
    ];
    assert_eq!(read, expected);
}

#[derive(Debug, PartialEq, ReadField)]
#[trace_event(transparent)]
struct Maybe(Option<u32>, #[trace_event(skip)] u8);

/// A text is a list of code units only for what such a unit is.
#[test]
fn a_text_is_no_list_of_numbers() {
    let text = |text: &str| nettrace_reader::Value::Text(text.to_owned().into());
    assert_eq!(Option::<u64>::read_field(text("7")), None);
    assert_eq!(Option::<IpAddr>::read_field(text("")), None);
    assert_eq!(Vec::<u8>::read_field(text("abc")), None);
    assert_eq!(Vec::<String>::read_field(text("")), None);
    assert_eq!(Vec::<u16>::read_field(text("ab")), Some(vec![0x61, 0x62]));
    assert_eq!(Option::<char>::read_field(text("")), Some(None));
    assert_eq!(Maybe::absent(), Some(Maybe(None, 0)));
    assert_eq!(Cents::absent(), None);
}

#[derive(Clone, Debug, PartialEq, TraceField, ReadField)]
struct Inner<T> {
    value: T,
}

#[derive(Clone, Debug, PartialEq, TraceField, ReadField)]
#[trace_event(transparent)]
struct Only<T>(T);

#[derive(Clone, Debug, PartialEq, TraceEvent)]
#[trace_event(provider = "Read-Generic", name = "Pair")]
struct Pair {
    first: u32,
    list: [u32; 3],
    inner: Inner<Vec<String>>,
    only: Only<Option<String>>,
}

/// Whoever reads says of which types the fields are.
#[derive(Debug, PartialEq, ReadEvent)]
#[trace_event(provider = "Read-Generic", name = "Pair")]
struct AnyPair<T, U, const N: usize>
where
    U: Clone,
{
    first: T,
    list: [T; N],
    inner: Inner<Vec<U>>,
    only: Only<Option<U>>,
    #[trace_event(skip)]
    skipped: (T, Option<U>),
}

#[derive(Debug, PartialEq, ReadEvent)]
#[trace_event(provider = "Read-Generic")]
enum Any<T> {
    #[trace_event(name = "Pair")]
    Pair { first: T },
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn generic_types_are_read(
        first: u32,
        list: [u32; 3],
        texts in prop::collection::vec(text(), 0..3),
        only in prop::option::of(text()),
    ) {
        let pair = Pair { first, list, inner: Inner { value: texts.clone() }, only: Only(only) };
        let trace = written("Read-Generic", || pair.clone().emit());
        let only = pair.only.clone();
        let expected = AnyPair {
            first: u64::from(first),
            list: list.map(u64::from),
            inner: Inner { value: texts.iter().map(|text| Box::from(&**text)).collect() },
            only: Only(only.0.map(Box::from)),
            skipped: (0, None::<Box<str>>),
        };
        prop_assert_eq!(read(&trace), vec![Ok(expected)]);
        prop_assert_eq!(read(&trace), vec![Ok(Any::Pair { first: u128::from(first) })]);
        // Two elements are not three.
        prop_assert!(read::<AnyPair<u32, String, 2>>(&trace)[0].is_err());
    }
}
