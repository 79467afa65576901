//! A second recorder of events, as a second version of this crate would be one. A process of its
//! own, because the first one stays replaced.

use nettrace_event::{AnyEvent, EventType, Recorder, registry};
use nettrace_writer::{Emit, Session, TraceEvent, Warning, health, sink::MemorySink};

#[derive(TraceEvent)]
#[trace_event(provider = "Other-Recorder")]
struct Tick;

fn record(_: &dyn AnyEvent, _: &'static EventType) {}

static OTHER: Recorder = Recorder { record, register: |ty| registry::register(ty).is_ok() };

#[test]
fn a_second_recorder_is_told() {
    let session = Session::builder().sink(MemorySink::new()).start().unwrap();
    Tick.emit();
    assert!(!session.warnings().contains(&Warning::OtherRecorder));
    OTHER.attach();
    Tick.emit();
    assert!(session.warnings().contains(&Warning::OtherRecorder));
    assert!(health().to_string().contains("two recorders"), "{}", health());
    assert_eq!(session.finish().unwrap().written, 1);
}
