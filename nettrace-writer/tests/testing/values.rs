//! Every kind of value, as a test sees it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, SystemTime},
};

use nettrace_writer::{
    Emit, TraceEvent, TraceField, assert_event,
    testing::{self, Value},
};

use crate::Answered;

#[derive(TraceField)]
struct Point {
    x: i32,
    y: f32,
}

#[derive(TraceField)]
enum Way {
    Card,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Values")]
struct Values<'a> {
    yes: bool,
    #[trace_event(encoding = bool8)]
    no: bool,
    small: i8,
    large: u128,
    negative: i128,
    half: f32,
    tenth: f64,
    #[trace_event(encoding = varint)]
    variable: i64,
    letter: char,
    text: &'a str,
    #[trace_event(encoding = utf8)]
    utf8: &'a str,
    #[trace_event(encoding = utf16_nul)]
    terminated: &'a str,
    #[trace_event(encoding = rel_loc)]
    located: &'a str,
    #[trace_event(encoding = utf8_data_loc)]
    at_end: &'a str,
    #[trace_event(encoding = data_loc)]
    numbers: &'a [u16],
    #[trace_event(encoding = guid)]
    guid: [u8; 16],
    time: SystemTime,
    #[trace_event(encoding = date_time)]
    date: SystemTime,
    took: Duration,
    address: IpAddr,
    list: Vec<Option<&'a str>>,
    fixed: [u8; 2],
    point: Point,
    pair: (u8, char),
    absent: Option<u32>,
    present: Option<u32>,
    map: BTreeMap<&'a str, u8>,
    way: Way,
    #[trace_event(rename = "http.status")]
    status: u16,
}

#[test]
fn every_kind_of_value_comes_back() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    let guid = *b"0123456789abcdef";
    let events = testing::capture();
    Values {
        yes: true,
        no: false,
        small: -8,
        large: u128::MAX,
        negative: i128::MIN,
        half: 0.1,
        tenth: 0.1,
        variable: -300,
        letter: 'é',
        text: "a \"b\" 🎈",
        utf8: "é",
        terminated: "end",
        located: "there",
        at_end: "last",
        numbers: &[1, 2],
        guid,
        time,
        date: time,
        took: Duration::from_nanos(1_500),
        address: [10, 0, 0, 7].into(),
        list: vec![Some("a"), None],
        fixed: [3, 4],
        point: Point { x: -1, y: 2.5 },
        pair: (9, 'z'),
        absent: None,
        present: Some(5),
        map: [("k", 1)].into(),
        way: Way::Card,
        status: 201,
    }
    .emit();
    let address: IpAddr = [10, 0, 0, 7].into();
    let event = assert_event!(events, Values {
        yes: true, no: false, small: -8, large: u128::MAX, negative: i128::MIN, half: 0.1,
        tenth: 0.1, variable: -300, letter: 'é', text: "a \"b\" 🎈", utf8: "é", terminated: "end",
        located: "there", at_end: "last", numbers: [1, 2], time: time, date: time,
        took: Duration::from_nanos(1_500), address: address, fixed: vec![3, 4],
        guid: "30313233-3435-3637-3839-616263646566", list: [Some("a"), None], way: "Card",
        point: Value::Object(vec![("x", Value::Int(-1)), ("y", Value::F32(2.5))]),
        absent: None::<u32>, present: 5, "http.status": 201, ..
    });
    assert_event!(events, Values { absent: Value::None, present: Some(5), half: 0.1_f32, .. });
    assert_eq!(event.get::<Option<u32>>("absent"), None);
    assert_eq!(event.get::<Vec<u16>>("numbers"), [1, 2]);
    let expected = "Values { yes: true, no: false, small: -8, \
         large: 340282366920938463463374607431768211455, \
         negative: -170141183460469231731687303715884105728, half: 0.1, tenth: 0.1, \
         variable: -300, letter: \"é\", text: \"a \\\"b\\\" 🎈\", utf8: \"é\", terminated: \"end\", \
         located: \"there\", at_end: \"last\", numbers: [1, 2], \
         guid: \"…\", time: \"…\", date: \"…\", took: \"…\", address: \"10.0.0.7\", \
         list: [\"a\", None], fixed: [3, 4], point: { x: -1, y: 2.5 }, pair: { 0: 9, 1: \"z\" }, \
         absent: None, present: 5, map: [{ Key: \"k\", Value: 1 }], way: \"Card\", \
         http.status: 201 }\n";
    assert_eq!(events.snapshot(), expected);
}

#[test]
fn what_no_session_could_record_says_so() {
    let events = testing::capture();
    let long = "x".repeat(40_000);
    Answered { url: &long, status: 200, micros: 0 }.emit();
    // More than what most payloads fit into.
    Answered { url: &long[..10_000], status: 200, micros: 0 }.emit();
    let expected = "Answered (cannot be recorded: an array or a text has more than 32767 elements)";
    assert_eq!(events.events()[0].to_string(), expected);
    assert_eq!(
        assert_event!(events, Answered { status: 200, .. }).get::<String>("url").len(),
        10_000
    );
}
