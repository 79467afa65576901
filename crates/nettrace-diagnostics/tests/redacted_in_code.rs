//! Values that the program redacts in code are not in the traces that tools ask for. One test,
//! because it holds for the process.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "shared test support")]

mod support;

use std::{io::Read as _, thread, time::Duration};

use nettrace_diagnostics::{
    Options,
    client::{Target, Wanted},
};
use nettrace_reader::{Reader, Value};
use nettrace_writer::{Emit as _, Keep, Redact, Session, sink::MemorySink};

use crate::support::{Detail, Server, Tick};

fn work() {
    Detail { text: "customer Ada" }.emit();
    Tick { number: 4_711 }.emit();
}

/// The values of the fields of a trace.
fn values(trace: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(trace).unwrap();
    let mut values = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        values.extend(event.fields().map(|field| match field.unwrap().1 {
            Value::Text(text) => text.to_string(),
            Value::U64(number) => number.to_string(),
            other => panic!("{other:?}"),
        }));
    }
    values
}

/// What a tool gets that asks for these events, while [`work`] is done.
fn attached(target: &Target, name: &str) -> Result<Vec<String>, String> {
    let (name, arguments) = (name.to_owned(), String::new());
    let wanted = Wanted { name, keywords: u64::MAX, level: 5, arguments };
    let mut live = target.collect(&[wanted], 1).map_err(|error| error.to_string())?;
    work();
    let mut trace = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| live.stream.read_to_end(&mut trace).unwrap());
        target.stop(live.id).unwrap();
    });
    Ok(values(&trace))
}

fn recorded(builder: nettrace_writer::SessionBuilder) -> Vec<String> {
    let memory = MemorySink::new();
    let session = builder.sink(memory.clone()).start().unwrap();
    work();
    session.finish().unwrap();
    values(&memory.bytes())
}

#[test]
fn what_the_program_redacts_in_code_is_not_in_the_traces_of_tools() {
    const PROVIDER: &str = "Contoso-Attach";
    const RECORDER: &str = "NetTrace-FlightRecorder";
    let clear = ["customer Ada", "4711"];
    let server = Server::start();
    let target = server.target();
    let recorder = || {
        let keep = Keep::last(Duration::from_secs(60));
        Session::builder().provider(PROVIDER).flight_recorder(keep).start().unwrap()
    };
    assert_eq!(attached(&target, PROVIDER).unwrap(), clear);
    // What a session keeps to itself holds for it alone.
    let alone = || Session::builder().redact("text", Redact::Mask).redact_alone();
    assert_eq!(recorded(alone()), ["***", "4711"]);
    assert_eq!(attached(&target, PROVIDER).unwrap(), clear);
    let early = recorder();
    assert_eq!(attached(&target, RECORDER).unwrap(), clear);

    // A session of the program redacts.
    assert_eq!(recorded(Session::builder().redact("text", Redact::Mask)), ["***", "4711"]);
    assert_eq!(attached(&target, PROVIDER).unwrap(), ["***", "4711"]);
    assert_eq!(recorded(Session::builder()), ["***", "4711"]);
    // One that says otherwise changes nothing for others.
    assert_eq!(recorded(Session::builder().redact("text", Redact::Keep)), clear);
    assert_eq!(recorded(Session::builder().redact_alone()), clear);
    assert_eq!(attached(&target, PROVIDER).unwrap(), ["***", "4711"]);
    // A name that somebody else has given is no misspelling of this session.
    let session = Session::builder().provider("Fabrikam-*").sink(MemorySink::new());
    let session = session.start().unwrap();
    assert!(session.warnings().iter().all(|warning| !warning.to_string().contains("`text`")));
    session.finish().unwrap();

    // A flight recorder that began before has the values.
    let refused = attached(&target, RECORDER).unwrap_err();
    assert!(refused.contains("kept out of traces since it began"), "{refused}");
    early.finish().unwrap();
    let late = recorder();
    assert_eq!(attached(&target, RECORDER).unwrap(), ["***", "4711"]);
    late.finish().unwrap();

    // The server, too, can have names.
    let other = Server::with(Options::new().redact("number", Redact::Mask));
    assert_eq!(attached(&other.target(), PROVIDER).unwrap(), ["***", "0"]);
    assert_eq!(recorded(Session::builder()), ["***", "0"]);
}
