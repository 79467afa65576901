//! Reports of instruments in a session's trace.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use nettrace_reader::{Reader, Value};
use nettrace_writer::{
    ProviderFilter, Redact, Session,
    metrics::{Counter, Meter, Reporter, attach},
    sink::MemorySink,
};

/// An event of the provider, with its fields as text.
#[derive(Clone, Debug)]
struct Event {
    name: String,
    fields: BTreeMap<String, String>,
}

impl Event {
    fn is(&self, name: &str, pairs: &[(&str, &str)]) -> bool {
        self.name == name && pairs.iter().all(|(field, value)| &self[field] == *value)
    }
}

impl std::ops::Index<&str> for Event {
    type Output = str;

    fn index(&self, field: &str) -> &str {
        self.fields.get(field).unwrap_or_else(|| panic!("no {field}: {self:?}"))
    }
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::I32(number) => number.to_string(),
        Value::F32(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::FileTime(time) => time.to_string(),
        other => panic!("{other:?}"),
    }
}

fn flat(name: &str, value: &Value<'_>, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(inner) => inner.iter().for_each(|(name, value)| flat(name, value, fields)),
        value => drop(fields.insert(name.to_owned(), shown(value))),
    }
}

fn events(memory: &MemorySink) -> Vec<Event> {
    let bytes = memory.bytes();
    let (mut reader, mut events) = (Reader::new(&bytes[..]).unwrap(), Vec::new());
    while let Some(event) = reader.next_event().unwrap() {
        let name = event.metadata().name.to_string();
        let mut fields = BTreeMap::new();
        for field in event.fields() {
            let (name, value) = field.unwrap();
            flat(name, &value, &mut fields);
        }
        events.push(Event { name, fields });
    }
    events
}

/// Waits until a trace has an event.
#[track_caller]
fn wait_for(session: &Session, memory: &MemorySink, what: impl Fn(&Event) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(240);
    loop {
        session.flush().unwrap();
        if events(memory).iter().any(&what) {
            return;
        }
        assert!(Instant::now() < deadline, "{:#?}", events(memory));
        thread::sleep(Duration::from_millis(5));
    }
}

fn session() -> (Session, MemorySink) {
    let memory = MemorySink::new();
    (Session::builder().sink(memory.clone()).start().unwrap(), memory)
}

const LONG: Duration = Duration::from_secs(1_000);

#[test]
fn all_kinds_of_instruments_with_their_values_and_rates() {
    let meter = Meter::builder("Kinds").version("1.2").tag("zone", "eu").build();
    let orders = meter.counter("orders").unit("{order}").description("Orders placed").build();
    let of_germany = orders.tagged(&[("country", "de"), ("a", "b")]);
    of_germany.add(40);
    let queue = meter.up_down_counter("queue").build();
    queue.add(3);
    let heat = meter.gauge("heat").unit("Cel").build();
    let latency = meter.histogram("latency").unit("ms").build();
    latency.record(1.0);
    let _sum = meter.observable_counter("seen", |seen| seen.observe(7_u64)).build();
    let _both = meter
        .observable_up_down_counter("both", |both| {
            both.observe_tagged(-2_i64, &[("side", "left")]);
            both.observe_tagged(2_i64, &[("side", "right")]);
            both.observe_tagged(-4_i64, &[("side", "left")]); // the last one counts
        })
        .build();
    let _load = meter.observable_gauge("load", |load| load.observe(0.25)).build();
    static ELSEWHERE: Meter = Meter::new("Kinds-Not");
    static OTHER: Counter = Counter::new(&ELSEWHERE, "other");
    OTHER.add(1);

    let (session, memory) = session();
    let reporting = Reporter::every(LONG).meter("kinds").start(&session);
    wait_for(&session, &memory, |event| event.name == "InitialInstrumentEnumerationComplete");
    of_germany.add(2);
    queue.add(-5);
    heat.set(21.5);
    (1..=100).for_each(|n| latency.record(f64::from(n)));
    reporting.finish();
    session.finish().unwrap();

    let events = events(&memory);
    let begun: Vec<_> =
        events.iter().filter(|event| event.name == "BeginInstrumentReporting").collect();
    assert_eq!(begun.len(), 7);
    assert!(begun[0].is(
        "BeginInstrumentReporting",
        &[
            ("meterName", "Kinds"),
            ("meterVersion", "1.2"),
            ("meterTags", "zone=eu"),
            ("instrumentName", "orders"),
            ("instrumentType", "Counter`1"),
            ("unit", "{order}"),
            ("description", "Orders placed"),
        ]
    ));
    let (counter, up_down, gauge) =
        ("CounterRateValuePublished", "UpDownCounterRateValuePublished", "GaugeValuePublished");
    let expected: [(&str, &[(&str, &str)]); 8] = [
        (counter, &[("tags", "a=b,country=de"), ("rate", "2"), ("value", "42")]),
        (up_down, &[("tags", ""), ("rate", "-5"), ("value", "-2")]),
        (gauge, &[("instrumentName", "heat"), ("lastValue", "21.5"), ("unit", "Cel")]),
        (
            "HistogramValuePublished",
            &[("quantiles", "0.5=51;0.95=96;0.99=100"), ("count", "100"), ("sum", "5050")],
        ),
        (counter, &[("instrumentName", "seen"), ("rate", "0"), ("value", "7")]),
        (up_down, &[("tags", "side=left"), ("rate", "0"), ("value", "-4")]),
        (up_down, &[("tags", "side=right"), ("rate", "0"), ("value", "2")]),
        (gauge, &[("instrumentName", "load"), ("lastValue", "0.25")]),
    ];
    let first = events.iter().position(|event| event.name == "CollectionStart").unwrap();
    let found = &events[first + 1..];
    assert_eq!(found.len(), expected.len() + 1, "{found:#?}");
    for (event, (name, pairs)) in found.iter().zip(expected) {
        assert!(event.is(name, pairs), "{event:?} is not {name} {pairs:?}");
    }
    assert!(found[8].is("CollectionStop", &[("sessionId", "trace")]));
    assert_eq!(&events[first]["intervalStartTime"], &found[8]["intervalStartTime"]);
}

#[test]
fn what_is_recorded_right_after_the_start_is_in_the_first_interval() {
    let meter = Meter::builder("First").build();
    let latency = meter.histogram("latency").build();
    let orders = meter.counter("orders").build();
    latency.record(7.0);
    orders.add(7);
    let (mut counts, mut rates) = (0, 0);
    const ROUNDS: i32 = 20;
    for _ in 0..ROUNDS {
        let (session, memory) = session();
        let reporting = Reporter::every(LONG).meter("First").start(&session);
        // Before the thread that reports has begun.
        (0..10).for_each(|_| latency.record(1.0));
        orders.add(10);
        reporting.finish();
        session.finish().unwrap();
        for event in events(&memory) {
            match &*event.name {
                "HistogramValuePublished" => counts += event["count"].parse::<i32>().unwrap(),
                "CounterRateValuePublished" => rates += event["rate"].parse::<i32>().unwrap(),
                _ => {}
            }
        }
    }
    assert_eq!((counts, rates), (10 * ROUNDS, 10 * ROUNDS));
}

#[test]
fn instruments_that_are_born_and_end_while_watched() {
    let meter = Meter::new("Births");
    let (session, memory) = session();
    let _reporting = Reporter::every(LONG).meter("Births").start(&session);
    wait_for(&session, &memory, |event| event.name == "InitialInstrumentEnumerationComplete");
    let child = meter.counter("child").build();
    let is =
        |name: &'static str| move |event: &Event| event.is(name, &[("instrumentName", "child")]);
    wait_for(&session, &memory, is("BeginInstrumentReporting"));
    let other = child.tagged(&[("a", "b")]);
    drop(child);
    other.add(1); // It lives as long as one handle of it.
    session.flush().unwrap();
    assert!(!events(&memory).iter().any(is("EndInstrumentReporting")));
    drop(other);
    wait_for(&session, &memory, is("EndInstrumentReporting"));
    session.finish().unwrap();
}

#[test]
fn each_client_has_its_own_intervals_names_and_limits() {
    let meter = Meter::new("Clients");
    let (one, two) = (meter.counter("one").build(), meter.counter("two").build());
    let tagged: Vec<_> = ["x", "y", "z"].map(|tag| one.tagged(&[("tag", tag)])).into();
    let sizes = meter.histogram("sizes").build();
    let _sizes: Vec<_> = ["a", "b"].map(|tag| sizes.tagged(&[("tag", tag)])).into();
    let arguments = [
        "SessionId=SHARED;Metrics=Clients\\two;RefreshInterval=0.1",
        "SessionId=SHARED;Metrics=Clients\\one;RefreshInterval=0.2;MaxTimeSeries=2",
        "SessionId=s3;Metrics=Clients\\sizes;RefreshInterval=0.15;MaxHistograms=1",
    ];
    let clients = arguments.map(|arguments| {
        let (session, memory) = session();
        let reporting = attach(&session, [("System.Diagnostics.Metrics", arguments)]);
        (session, memory, reporting)
    });
    for (session, memory, _) in &clients {
        wait_for(session, memory, |event| event.name == "InitialInstrumentEnumerationComplete");
    }
    two.add(10);
    tagged.iter().for_each(|one| one.add(1));
    for (session, memory, _) in &clients {
        for _ in 0..2 {
            wait_for(session, memory, |event| event.name == "CollectionStop");
        }
    }
    let traces = clients.map(|(session, memory, reporting)| {
        reporting.finish();
        session.finish().unwrap();
        events(&memory)
    });
    for (trace, name) in traces.iter().zip(["two", "one", "sizes"]) {
        let is_value = |event: &&Event| event.name.ends_with("ValuePublished");
        let mut values = trace.iter().filter(is_value).peekable();
        assert!(values.peek().is_some());
        assert!(values.all(|event| &event["instrumentName"] == name), "{trace:#?}");
    }
    // Every increment is in one interval.
    let rates = traces[0].iter().filter(|event| event.name == "CounterRateValuePublished");
    assert_eq!(rates.map(|event| event["rate"].parse::<u64>().unwrap()).sum::<u64>(), 10);
    let count = |trace: &[Event], name: &str| trace.iter().filter(|one| one.name == name).count();
    assert_eq!(count(&traces[1], "TimeSeriesLimitReached"), 1);
    assert!(
        !traces[1]
            .iter()
            .any(|event| event.name.starts_with("Counter") && &event["tags"] == "tag=z")
    );
    assert_eq!(count(&traces[2], "HistogramLimitReached"), 1);
    assert_eq!(count(&traces[0], "TimeSeriesLimitReached"), 0);
}

#[test]
fn a_callback_that_panics_is_told_and_asked_again() {
    static PANICS: AtomicBool = AtomicBool::new(false);
    let meter = Meter::new("Panics");
    let _observed = meter
        .observable_gauge("thermometer", |heat| {
            if PANICS.load(Ordering::Relaxed) {
                std::panic::resume_unwind(Box::new("it is broken"));
            }
            heat.observe(20.5);
        })
        .build();
    let (session, memory) = session();
    let reporting = Reporter::every(Duration::from_millis(100)).meter("Panics").start(&session);
    let has_value = |text: &'static str| {
        move |event: &Event| event.is("GaugeValuePublished", &[("lastValue", text)])
    };
    wait_for(&session, &memory, has_value("20.5"));
    PANICS.store(true, Ordering::Relaxed);
    let is_error = |event: &Event| event.name == "ObservableInstrumentCallbackError";
    wait_for(&session, &memory, |event| {
        is_error(event)
            && event["errorMessage"].contains("thermometer of meter Panics: it is broken")
    });
    // Without text: there is no value any more.
    wait_for(&session, &memory, has_value(""));
    PANICS.store(false, Ordering::Relaxed);
    session.flush().unwrap();
    let before = events(&memory).len();
    wait_for(&session, &memory, |event| has_value("20.5")(event) && events(&memory).len() > before);
    drop(reporting);
    session.finish().unwrap();
}

#[test]
fn older_clients_get_event_counters() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let meter = Meter::new("Older");
    let orders = meter.counter("orders").unit("{order}").description("Orders").build();
    let of_germany = orders.tagged(&[("country", "de")]);
    let latency = meter.histogram("latency").build();
    let _calls = meter
        .observable_up_down_counter("calls", |calls| {
            calls.observe(CALLS.fetch_add(1, Ordering::Relaxed));
        })
        .build();
    let memory = MemorySink::new();
    // A client that wants counters alone has such a filter.
    let filter = ProviderFilter::new("Older").level(nettrace_writer::Level::LogAlways);
    let session = Session::builder().sink(memory.clone()).provider(filter).start().unwrap();
    let reporting = attach(&session, [("older", "EventCounterIntervalSec=1000")]);
    let deadline = Instant::now() + Duration::from_secs(240);
    while CALLS.load(Ordering::Relaxed) == 0 {
        assert!(Instant::now() < deadline, "it begins");
        thread::sleep(Duration::from_millis(1));
    }
    of_germany.add(5);
    [2.0, 4.0].into_iter().for_each(|value| latency.record(value));
    reporting.finish();
    session.finish().unwrap();
    let events = events(&memory);
    let expected: [&[(&str, &str)]; 3] = [
        &[
            ("Name", "orders"),
            ("DisplayName", "Orders"),
            ("Increment", "5"),
            ("Metadata", "country:de"),
            ("Series", "Interval=1000000"),
            ("CounterType", "Sum"),
            ("DisplayUnits", "{order}"),
        ],
        &[
            ("Name", "latency"),
            ("Mean", "3"),
            ("StandardDeviation", "1"),
            ("Count", "2"),
            ("Min", "2"),
            ("Max", "4"),
            ("CounterType", "Mean"),
        ],
        &[("Name", "calls"), ("Mean", "1"), ("Count", "1")],
    ];
    assert_eq!(events.len(), expected.len(), "{events:#?}");
    for (event, pairs) in events.iter().zip(expected) {
        assert!(event.is("EventCounters", pairs), "{event:?} is not {pairs:?}");
    }
}

#[test]
fn a_client_that_asks_in_both_ways_gets_each_value_once() {
    let meter = Meter::new("Both-Ways");
    let counter = meter.counter("counter").build();
    counter.add(1);
    let (session, memory) = session();
    let providers = [
        ("Both-Ways", "EventCounterIntervalSec=1000"),
        ("System.Diagnostics.Metrics", "SessionId=s;Metrics=Both-Ways;RefreshInterval=1000"),
    ];
    attach(&session, providers).finish();
    session.finish().unwrap();
    let names: Vec<_> = events(&memory).into_iter().map(|event| event.name).collect();
    assert!(names.iter().any(|name| name == "CounterRateValuePublished"));
    assert!(!names.iter().any(|name| name == "EventCounters"), "{names:?}");
}

#[test]
fn wrong_arguments_are_told() {
    let (session, memory) = session();
    attach(&session, [("System.Diagnostics.Metrics", "SessionId=s;RefreshInterval=soon")]).finish();
    session.finish().unwrap();
    let events = events(&memory);
    let text = "RefreshInterval is not a number of seconds; it is 1";
    assert!(
        events.iter().any(|event| event.is("Error", &[("sessionId", "s"), ("errorMessage", text)]))
    );
    assert!(events.iter().any(|event| event.name == "Message"));
}

/// A session can keep the values of some tags out, however tags and values are spelt.
#[test]
fn a_tag_is_redacted() {
    // Its sessions hear of the instruments of all tests.
    if !testkit::process::alone("reports::a_tag_is_redacted") {
        return;
    }
    let user = "cn=Ada,ou=Lovelace,zone:x=1815";
    for how in [Redact::Mask, Redact::Hash] {
        let meter = Meter::builder("Redacted-Tags").tag("user:id", user).build();
        let counter = meter.counter("orders").build();
        let memory = MemorySink::new();
        let builder = Session::builder().sink(memory.clone()).redact("user:id", how);
        let session = builder.start().unwrap();
        let meters = "SessionId=s;Metrics=Redacted-Tags;RefreshInterval=1000";
        let providers = [
            [("System.Diagnostics.Metrics", meters)],
            [("Redacted-Tags", "EventCounterIntervalSec=1000")],
        ];
        for (provider, begun) in providers.iter().zip(["BeginInstrumentReporting", ""]) {
            let tagged = counter.tagged(&[("user:id", user), ("zone", "eu"), ("a,b", "c,d")]);
            tagged.add(1);
            let reporting = attach(&session, *provider);
            if !begun.is_empty() {
                wait_for(&session, &memory, |event| event.name == begun);
            }
            tagged.add(1);
            reporting.finish();
        }
        assert_eq!(session.warnings().len(), 0, "{:?}", session.warnings());
        session.finish().unwrap();
        let bytes = memory.bytes();
        for part in ["Ada", "Lovelace", "1815"] {
            let part: Vec<_> = part.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert!(!bytes.windows(part.len()).any(|bytes| bytes == part), "{how:?}");
        }
        let events = events(&memory);
        let of = |field: &str| -> Vec<String> {
            let texts = events.iter().filter_map(|event| event.fields.get(field).cloned());
            texts.filter(|text| !text.is_empty()).collect()
        };
        let (tags, of_counters, of_meter) = (of("tags"), of("Metadata"), of("meterTags"));
        let hidden = of_meter[0].strip_prefix("user%3Aid=").unwrap();
        match how {
            Redact::Mask => assert_eq!(hidden, "***"),
            _ => assert!(hidden.len() == 16, "{hidden}"),
        }
        assert_eq!(tags[0], format!("a%2Cb=c%2Cd,user%3Aid={hidden},zone=eu"));
        let of_counter = of_counters.iter().find(|tags| tags.contains("zone")).unwrap();
        let (before, after) = ("a%2Cb:c%2Cd,user%3Aid:", ",zone:eu");
        assert!(of_counter.starts_with(before) && of_counter.ends_with(after), "{of_counter}");
    }
}
