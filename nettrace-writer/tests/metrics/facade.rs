//! A program that uses the macros of the crate `metrics`.

use std::{thread, time::Duration};

use metrics::{Unit, counter, describe_counter, gauge, histogram};
use nettrace_reader::{Reader, Value};
use nettrace_writer::{
    Session,
    metrics::{MetricsRecorder, Reporter},
    sink::MemorySink,
};

#[test]
fn metrics_are_instruments_of_a_meter() {
    MetricsRecorder::new("Facade").install().unwrap();
    assert!(MetricsRecorder::new("Second").install().is_err());
    describe_counter!("orders", Unit::Bytes, "Orders placed");
    // Threads remember keys by themselves; the sums are one.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    counter!("orders", "country" => "de").increment(1);
                    counter!("orders", "country" => "fr").increment(2);
                }
            });
        }
    });
    counter!("set").absolute(70);
    counter!("set").absolute(60);
    gauge!("heat").set(20.0);
    gauge!("heat").increment(2.0);
    gauge!("heat").decrement(0.5);
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).start().unwrap();
    let reporter = Reporter::every(Duration::from_secs(1_000)).meter("Facade");
    let reporting = reporter.start(&session);
    histogram!("size").record(7.0);
    reporting.finish();
    session.finish().unwrap();

    let bytes = memory.bytes();
    let (mut reader, mut values) = (Reader::new(&bytes[..]).unwrap(), Vec::new());
    while let Some(event) = reader.next_event().unwrap() {
        let fields: Vec<_> = event.fields().map(Result::unwrap).collect();
        let text = |name: &str| {
            let field = fields.iter().find(|(field, _)| *field == name);
            match field.map(|(_, value)| value) {
                Some(Value::Text(text)) => text.to_string(),
                _ => String::new(),
            }
        };
        if event.metadata().name.ends_with("ValuePublished") {
            let value = text("value") + &text("lastValue");
            values.push([text("instrumentName"), text("tags"), text("unit"), value]);
        }
    }
    values.sort();
    let expected = [
        ["heat", "", "", "21.5"],
        ["orders", "country=de", "B", "4000"],
        ["orders", "country=fr", "B", "8000"],
        ["set", "", "", "70"],
        ["size", "", "", ""],
    ];
    assert_eq!(values, expected);
}
