//! Events of the .NET runtime, whose names and fields no stream states.

use super::{
    EventType, Row, Stream, utf16z,
    v5::{Objects, event_type as named_type, event_type_of},
};

pub const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
pub const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";
pub const SAMPLER: &str = "Microsoft-DotNETCore-SampleProfiler";

/// The description of an event, as EventPipe writes it: without a name and fields.
pub fn event_type(id: u64, provider: &str, event_id: u64, version: u8) -> EventType {
    EventType::new(id, provider, event_id, "").optional(&[9, version])
}

/// A stream with one event of each version and payload.
pub fn stream(events: &[(&str, u64, u8, Vec<u8>)]) -> Vec<u8> {
    let mut stream = Stream::new();
    stream.thread(1);
    for (id, (provider, event_id, version, payload)) in (1..).zip(events) {
        stream.metadata(&event_type(id, provider, *event_id, *version));
        let row = Row::new(1, id as u32, 1_000 + id).metadata(id as u32);
        stream.events(&[row.sorted().payload(payload)]);
    }
    stream.end()
}

/// Payloads of one version each: as the runtime writes them, longer, shorter, and of no sense.
pub fn sample() -> Vec<u8> {
    stream(&[
        (RUNTIME, 1, 2, gc_start()),
        (RUNTIME, 1, 2, gc_start()[..10].to_vec()),
        (RUNTIME, 1, 200, [gc_start(), vec![1, 2, 3]].concat()),
        (RUNTIME, 80, 1, exception(Some("no such file"))),
        (RUNTIME, 80, 1, exception(None)),
        (RUNTIME, 15, 0, bulk_type()),
        (RUNTIME, 190, 0, il_to_native_map()),
        (RUNTIME, 251, 0, Vec::new()),
        (RUNTIME, 15, 0, vec![0xFF; 64]),
        (RUNTIME, 189, 0, [utf16z("a").repeat(9), b"\x01\0\0\0no\0\x07\0".to_vec()].concat()),
        (SAMPLER, 0, 0, vec![2, 0, 0, 0]),
        (RUNDOWN, 300, 0, [vec![9, 0], utf16z("Main"), 5_i64.to_le_bytes().to_vec()].concat()),
    ])
}

/// Version 4: an activity during which the runtime throws and collects, on the same thread.
pub fn within_activity() -> Vec<u8> {
    let none = [0; 4];
    let of_runtime = |id, event_id| event_type_of(RUNTIME, id, event_id, "", &none);
    let start = named_type(1, 1, "WorkStart", &none);
    let stop = named_type(2, 2, "WorkStop", &none);
    let row = |number: u32, payload: &[u8]| {
        let row = Row::new(5, number, 1_000 + u64::from(number) * 10).metadata(number);
        Row { activity: [7; 16], ..row.payload(payload) }
    };
    // The types are in the order of the rows, but for the end of the activity.
    let rows = [
        row(1, &[]),
        row(2, &exception(None)).metadata(3),
        row(3, &gc_start()).metadata(4),
        row(4, &[7, 0, 0, 0, 2, 0, 0, 0, 9, 0]).metadata(5),
        row(5, &[]).metadata(2),
    ];
    let mut stream = Objects::new();
    stream.metadata(&[start, stop, of_runtime(3, 80), of_runtime(4, 1), of_runtime(5, 2)]);
    stream.events(&rows);
    stream.end()
}

/// GC/Start, version 2.
pub fn gc_start() -> Vec<u8> {
    let mut payload: Vec<u8> = [7_u32, 2, 1, 0].iter().flat_map(|it| it.to_le_bytes()).collect();
    payload.extend(9_u16.to_le_bytes());
    payload.extend(11_u64.to_le_bytes());
    payload
}

/// Exception/Start. The runtime writes nothing, not even a zero, for a message that it does not
/// have.
pub fn exception(message: Option<&str>) -> Vec<u8> {
    let mut payload = utf16z("System.IO.IOException");
    payload.extend(message.map(utf16z).unwrap_or_default());
    payload.extend(0x7F00_1234_u64.to_le_bytes());
    payload.extend(0x8013_1620_u32.to_le_bytes());
    payload.extend([0x10, 0, 9, 0]);
    payload
}

/// Type/BulkType with two types. The second has two type parameters.
pub fn bulk_type() -> Vec<u8> {
    let mut payload = vec![2, 0, 0, 0, 9, 0];
    for (name, parameters) in [("A", &[][..]), ("B`2", &[0x10_u64, 0x20])] {
        payload.extend(0x1111_u64.to_le_bytes());
        payload.extend(0x2222_u64.to_le_bytes());
        payload.extend([3, 0, 0, 2, 4, 0, 0, 0, 0x12]);
        payload.extend(utf16z(name));
        payload.extend((parameters.len() as u32).to_le_bytes());
        payload.extend(parameters.iter().flat_map(|it| it.to_le_bytes()));
    }
    payload
}

/// Method/ILToNativeMap of version 0, with two entries.
pub fn il_to_native_map() -> Vec<u8> {
    let mut payload = [0x3333_u64, 0].iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>();
    payload.extend([0, 2, 0]);
    payload.extend([5_u32, 6, 50, 60].iter().flat_map(|it| it.to_le_bytes()));
    payload.extend([9, 0]);
    payload
}
