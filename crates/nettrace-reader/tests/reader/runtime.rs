//! Events of the .NET runtime, whose names and fields are those of the crate's table.

use nettrace_reader::{Event, Options, Type, Value, verify};
use testkit::streams::runtime::{
    RUNDOWN, RUNTIME, SAMPLER, bulk_type, exception, gc_start, il_to_native_map, sample, stream,
};

/// The name of the first event of a stream, and its fields up to the end of the payload.
type Shown = (String, Vec<(String, String)>);

fn shown(event: &Event<'_>) -> Shown {
    let mut values = event.fields();
    let mut fields = Vec::new();
    while !values.is_exhausted() {
        let Some(value) = values.next() else { break };
        let (name, value) = value.unwrap();
        fields.push((name.to_owned(), text(&value)));
    }
    assert_eq!(values.used(), event.payload.len(), "{fields:?}");
    (event.metadata().name.clone(), fields)
}

fn text(value: &Value<'_>) -> String {
    let list = |values: Vec<String>| format!("[{}]", values.join(" "));
    match value {
        Value::Text(text) => format!("{text:?}"),
        Value::Array(values) => list(values.iter().map(text).collect()),
        Value::Object(fields) => {
            list(fields.iter().map(|(name, value)| format!("{name}={}", text(value))).collect())
        }
        Value::Bool(value) => value.to_string(),
        Value::U8(value) => value.to_string(),
        Value::U16(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        other => format!("{other:?}"),
    }
}

fn all(bytes: &[u8], options: Options) -> Vec<Shown> {
    let mut reader = options.open(bytes).unwrap();
    let mut out = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        out.push(shown(&event));
    }
    out
}

fn one(provider: &str, event_id: u64, version: u8, payload: Vec<u8>) -> Shown {
    let bytes = stream(&[(provider, event_id, version, payload)]);
    all(&bytes, Options::default()).remove(0)
}

/// Fields as `name=value`, with blanks between them.
#[track_caller]
fn check((name, fields): Shown, expected: &str) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(format!("{name} {}", fields.join(" ")), expected);
}

#[test]
fn names_and_fields() {
    check(
        one(RUNTIME, 1, 2, gc_start()),
        "GC/Start Count=7 Depth=2 Reason=1 Type=0 ClrInstanceID=9 ClientSequenceNumber=11",
    );
    check(one(SAMPLER, 0, 0, vec![2, 0, 0, 0]), "Thread/Sample Type=2");
    check(one(RUNTIME, 251, 0, Vec::new()), "ExceptionCatch/Stop ");
    let mut payload = vec![9, 0];
    payload.extend([b'M', 0, 0, 0]);
    payload.extend(5_i64.to_le_bytes());
    check(
        one(RUNDOWN, 300, 0, payload),
        "ExecutionCheckpointRundown/ExecutionCheckpointDCEnd ClrInstanceID=9 Name=\"M\" \
         Timestamp=5",
    );
}

#[test]
fn arrays_and_structures() {
    check(
        one(RUNTIME, 15, 0, bulk_type()),
        "Type/BulkType Count=2 ClrInstanceID=9 \
         Values=[[TypeID=4369 ModuleID=8738 TypeNameID=33554435 Flags=4 CorElementType=18 \
         Name=\"A\" TypeParameterCount=0 TypeParameters=[]] \
         [TypeID=4369 ModuleID=8738 TypeNameID=33554435 Flags=4 CorElementType=18 \
         Name=\"B`2\" TypeParameterCount=2 TypeParameters=[16 32]]]",
    );
    // An older version ends before the fields of later ones.
    let map = "Method/ILToNativeMap MethodID=13107 ReJITID=0 MethodExtent=0 CountOfMapEntries=2 \
               ILOffsets=[5 6] NativeOffsets=[50 60] ClrInstanceID=9";
    check(one(RUNTIME, 190, 0, il_to_native_map()), map);
    // An array without elements at the end of the payload is there.
    check(
        one(RUNTIME, 15, 0, vec![0, 0, 0, 0, 9, 0]),
        "Type/BulkType Count=0 ClrInstanceID=9 Values=[]",
    );
}

#[test]
fn a_message_that_the_runtime_left_out() {
    let rest = "ExceptionEIP=2130711092 ExceptionHRESULT=2148734496 ExceptionFlags=16 \
                ClrInstanceID=9";
    for (message, shown) in [(Some("no such file"), "no such file"), (Some(""), ""), (None, "")] {
        check(
            one(RUNTIME, 80, 1, exception(message)),
            &format!(
                "Exception/Start ExceptionType=\"System.IO.IOException\" \
                 ExceptionMessage={shown:?} {rest}"
            ),
        );
    }
}

#[test]
fn longer_and_shorter_payloads() {
    let start = "GC/Start Count=7 Depth=2 Reason=1 Type=0 ClrInstanceID=9 ClientSequenceNumber=11";
    let longer = [gc_start(), vec![1, 2, 3]].concat();
    for version in [2, 3, 255] {
        check(one(RUNTIME, 1, version, longer.clone()), &format!("{start} rest=Bytes([1, 2, 3])"));
    }
    check(one(RUNTIME, 1, 2, gc_start()[..8].to_vec()), "GC/Start Count=7 Depth=2");
    check(
        one(RUNTIME, 1, 2, gc_start()[..10].to_vec()),
        "GC/Start Count=7 Depth=2 Reason=Bytes([1, 0])",
    );
    // A text without an end, and counts beyond the payload.
    let (name, fields) = one(RUNTIME, 80, 1, vec![b'x'; 9]);
    assert_eq!((&*name, fields.len(), &*fields[0].0), ("Exception/Start", 1, "ExceptionType"));
    let (_, fields) = one(RUNTIME, 15, 0, vec![0xFF; 64]);
    assert_eq!(fields.len(), 3);
    assert!(fields[2].1.starts_with("Bytes(["), "{fields:?}");
    // The payload of an event that has none.
    check(one(RUNTIME, 251, 0, vec![1]), "ExceptionCatch/Stop rest=Bytes([1])");
}

#[test]
fn the_stream_as_it_is() {
    let bytes = sample();
    for (name, fields) in all_as_stated(&bytes) {
        assert_eq!((&*name, fields), ("", 0));
    }
    // What the table says is no promise of the writer.
    let short = stream(&[(RUNTIME, 1, 2, vec![1])]);
    let report = verify(&*short).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let mut reader = Options::default().open(&*bytes).unwrap();
    let event = reader.next_event().unwrap().unwrap();
    let metadata = event.metadata();
    assert!(metadata.is_from_table);
    assert_eq!(metadata.fields.last().unwrap().ty, Type::Rest);
}

fn all_as_stated(bytes: &[u8]) -> Vec<(String, usize)> {
    let mut reader = Options::default().runtime_events(false).open(bytes).unwrap();
    let mut out = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        assert!(!event.metadata().is_from_table);
        out.push((event.metadata().name.clone(), event.fields().count()));
    }
    out
}

/// Structures and counts multiply. No payload takes longer than its size explains.
#[test]
fn hostile_counts_end_soon() {
    let mut payload = 60_000_u32.to_le_bytes().to_vec();
    payload.extend([0; 65_000]);
    let (_, fields) = one(RUNTIME, 15, 0, payload);
    assert_eq!(fields.len(), 3);
}
