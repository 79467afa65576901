//! The instruments of the process, of the tracer and of the allocator.

use std::{alloc::System, collections::BTreeMap, hint::black_box, time::Duration};

use nettrace_reader::{Reader, Value};
use nettrace_writer::{
    Emit as _, Session, TraceEvent,
    metrics::{CountingAllocator, Reporter, observe_process},
    sink::MemorySink,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::system();

#[derive(TraceEvent)]
#[trace_event(provider = "Process-Counters")]
struct Tick;

#[test]
fn they_tell_what_the_process_does() {
    type Allocator = CountingAllocator<System>;
    observe_process();
    observe_process();
    Allocator::observe();
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).start().unwrap();
    (0..100).for_each(|_| Tick.emit());
    session.flush().unwrap();
    let before = Allocator::live();
    let kept = black_box(vec![1_u8; 8 << 20]);
    let live = Allocator::live();
    // The session's own thread may take or give back a little meanwhile.
    assert!((7 << 20..9 << 20).contains(&(live - before)), "{before}, then {live}");
    Reporter::every(Duration::from_secs(1_000)).meter("NetTrace.*").start(&session).finish();
    drop(kept);
    session.finish().unwrap();

    let bytes = memory.bytes();
    let (mut reader, mut values) = (Reader::new(&bytes[..]).unwrap(), BTreeMap::new());
    while let Some(event) = reader.next_event().unwrap() {
        let fields: BTreeMap<_, _> = event.fields().map(Result::unwrap).collect();
        let text = |name: &str| match fields.get(name) {
            Some(Value::Text(text)) => Some(text.to_string()),
            _ => None,
        };
        if let Some(value) = text("value").or_else(|| text("lastValue")) {
            let value: f64 = value.parse().unwrap();
            assert!(values.insert(text("instrumentName").unwrap(), value).is_none());
        }
    }
    let within = |name: &str, least: f64, most: f64| {
        let value = values.get(name).unwrap_or_else(|| panic!("no {name} in {values:?}"));
        assert!((least..=most).contains(value), "{name}: {value}");
    };
    within("nettrace.events", 100.0, 1_000.0);
    within("nettrace.dropped", 0.0, 0.0);
    within("nettrace.bytes", 100.0, 1e6);
    within("nettrace.wakeups", 1.0, 1e6);
    within("process.memory.allocations", 10.0, 1e9);
    within("process.memory.allocated", (8 << 20).into(), 1e12);
    within("process.memory.live", (8 << 20).into(), 1e9);
    if cfg!(unix) {
        within("process.cpu.time", 1e-5, 1e6);
    }
    if cfg!(target_os = "linux") {
        within("process.memory.usage", (8 << 20).into(), 1e10);
        within("process.thread.count", 2.0, 1_000.0);
        within("process.open_file_descriptor.count", 3.0, 10_000.0);
    }
}
