//! Counters, gauges and histograms in `nettrace report`: those of `nettrace_writer::metrics`, and
//! those of .NET.

#![allow(clippy::disallowed_methods, reason = "a test waits for a thread")]

mod program;

use std::{thread, time::Duration};

use nettrace_reader::Reader;
use nettrace_writer::{
    Session,
    metrics::{Counter, Gauge, Histogram, Meter, Reporter, UpDownCounter},
    sink::MemorySink,
};
use program::{nettrace, stderr, stdout, strict_json};
use serde_json::{Value, json};
use testkit::streams::{EventType, Row, Stream, utf16z};

/// What the page has of instruments.
fn instruments(trace: &[u8]) -> Value {
    let output = nettrace(&["report", "-", "-o", "-"], trace);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (_, rest) = stdout(&output).split_once("id=\"data\">").expect("the page has data");
    let (data, _) = rest.split_once("</script>").expect("the data ends");
    strict_json(data)["instruments"].clone()
}

/// The text of the report.
fn text(trace: &[u8]) -> String {
    let output = nettrace(&["report", "-", "--text"], trace);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).to_owned()
}

/// The series with this name and these tags.
fn series<'v>(of: &'v Value, name: &str, tags: &str) -> &'v Value {
    let mut all = of["series"].as_array().unwrap().iter();
    let found = all.find(|one| one["name"] == name && one["tags"] == tags);
    found.unwrap_or_else(|| panic!("no {name} {tags}: {of:#}"))
}

/// The words of the line that begins so, without that.
fn words<'t>(text: &'t str, begin: &str) -> Vec<&'t str> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(begin));
    lines.next().unwrap_or_else(|| panic!("no {begin}: {text}")).split_whitespace().collect()
}

/// Waits until the first interval has begun.
fn wait_until_it_reports(session: &Session, memory: &MemorySink) {
    let has_begun = || {
        session.flush().unwrap();
        let bytes = memory.bytes();
        let mut events = Reader::new(&bytes[..]).unwrap();
        while let Some(event) = events.next_event().unwrap() {
            if &*event.metadata().name == "InitialInstrumentEnumerationComplete" {
                return true;
            }
        }
        false
    };
    while !has_begun() {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_the_reporter_has_recorded() {
    static SHOP: Meter = Meter::new("Instruments-Shop");
    static ORDERS: Counter = Counter::new(&SHOP, "orders").unit("{order}");
    static QUEUE: UpDownCounter = UpDownCounter::new(&SHOP, "queue");
    static PRICE: Gauge = Gauge::new(&SHOP, "price").unit("EUR");
    static LATENCY: Histogram = Histogram::new(&SHOP, "latency").unit("ms");

    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).start().unwrap();
    let reporter = Reporter::every(Duration::from_secs(100)).meter("Instruments-*");
    // What was counted before a report began belongs to no interval.
    let (by_card, by_transfer) =
        (ORDERS.tagged(&[("by", "card")]), ORDERS.tagged(&[("by", "transfer")]));
    let reporting = reporter.start(&session);
    wait_until_it_reports(&session, &memory);
    by_card.add(30);
    by_transfer.add(12);
    QUEUE.add(5);
    QUEUE.add(-7);
    PRICE.set(2.5);
    for value in 1..=100 {
        LATENCY.record(f64::from(value));
    }
    reporting.finish();
    session.finish().unwrap();
    let trace = memory.bytes();

    let shown = instruments(&trace);
    assert_eq!(shown["left_out"], 0);
    let card = series(&shown, "orders", "by=card");
    assert_eq!(
        (&card["kind"], &card["unit"], &card["total"]),
        (&"counter".into(), &"order".into(), &json!(30.0))
    );
    let transfer = series(&shown, "orders", "by=transfer");
    // Both grew in the same interval, however long it was.
    let rates = [card, transfer].map(|one| one["mean"].as_f64().unwrap());
    assert!((rates[0] / rates[1] - 2.5).abs() < 1e-9, "{rates:?}");
    let queue = series(&shown, "queue", "");
    assert_eq!((&queue["kind"], &queue["last"]), (&"up-down counter".into(), &json!(-2.0)));
    let price = series(&shown, "price", "");
    let found = ["last", "lowest", "highest", "mean"].map(|key| price[key].clone());
    assert_eq!(found, [2.5; 4].map(Value::from));
    assert_eq!(price["lines"], json!([[[price["lines"][0][0][0], 2.5]]]));
    let latency = series(&shown, "latency", "");
    assert_eq!((&latency["values"], &latency["mean"]), (&json!(100.0), &json!(50.5)));
    let percentiles: Vec<f64> = serde_json::from_value(latency["percentiles"].clone()).unwrap();
    for (found, wanted) in percentiles.iter().zip([50.0, 95.0, 99.0]) {
        assert!((found / wanted - 1.0_f64).abs() < 0.05, "{percentiles:?}");
    }
    let lines = latency["lines"].as_array().unwrap();
    let last: Vec<_> = lines.iter().map(|line| line[0][1].as_f64().unwrap()).collect();
    assert_eq!(last, percentiles);

    let text = text(&trace);
    assert!(
        words(&text, "Instruments-Shop/orders{by=card}").ends_with(&["30", "order", "a", "second"])
    );
    assert_eq!(words(&text, "Instruments-Shop/queue"), ["-2"; 4]);
    assert_eq!(words(&text, "Instruments-Shop/price")[4..], ["EUR"]);
    assert_eq!(words(&text, "Instruments-Shop/latency")[..2], ["100", "50.5"]);
}

/// An event with these fields, which are texts of UTF-16.
fn of_texts(number: u64, name: &str, fields: &[&str]) -> EventType {
    let ty = EventType::new(number, "System.Diagnostics.Metrics", number, name);
    fields.iter().fold(ty, |ty, field| ty.field(field, &[18]))
}

#[test]
fn what_dotnet_has_recorded() {
    const OF_SERIES: [&str; 6] =
        ["sessionId", "meterName", "meterVersion", "instrumentName", "unit", "tags"];
    let fields = |more: &[&'static str]| [&OF_SERIES[..], more].concat();
    let rate = of_texts(1, "CounterRateValuePublished", &fields(&["rate"]));
    let quantiles = of_texts(2, "HistogramValuePublished", &fields(&["quantiles"]));
    let start = of_texts(3, "CollectionStart", &["sessionId"])
        .field("intervalStartTime", &[16])
        .field("intervalEndTime", &[16]);
    let counters = EventType::new(4, "Demo", 4, "EventCounters")
        .field("Name", &[18])
        .field("Increment", &[14])
        .field("IntervalSec", &[13]);
    let of_series = |session: &str, name: &str, more: &str| {
        [session, "Demo.Shop", "", name, "{order}", "", more].map(utf16z).concat()
    };
    let interval = |hundreds_of_nanos: u64| {
        let begin = 133_000_000_000_000_000_u64;
        [utf16z("s"), begin.to_le_bytes().into(), (begin + hundreds_of_nanos).to_le_bytes().into()]
            .concat()
    };
    let counter = |increment: f64, seconds: f32| {
        [utf16z("requests"), increment.to_le_bytes().into(), seconds.to_le_bytes().into()].concat()
    };
    let mut stream = Stream::new();
    stream.thread(5);
    for ty in [&rate, &quantiles, &start, &counters] {
        stream.metadata(ty);
    }
    let payloads = [
        (1, of_series("s", "orders", "7")),
        (3, interval(20_000_000)),
        (1, of_series("s", "orders", "6")),
        (3, interval(5_000_000)),
        (1, of_series("s", "orders", "6")),
        // Another client's, an instrument that has gone, and what is no number.
        (1, of_series("t", "orders", "100")),
        (1, of_series("s", "orders", "")),
        (1, of_series("s", "orders", "NaN")),
        (2, of_series("s", "latency", "0.5=1;0.95=20;0.99=30")),
        (2, of_series("s", "latency", "0.5=2;0.95=10;0.99=40")),
        (2, of_series("s", "latency", "")),
        (4, counter(196.0, 2.0)),
    ];
    let rows: Vec<_> = payloads
        .iter()
        .zip(1..)
        .map(|((ty, payload), number)| {
            Row::new(5, number, 1000 + u64::from(number) * 10).metadata(*ty).payload(payload)
        })
        .collect();
    stream.events(&rows);
    let trace = stream.end();
    let shown = instruments(&trace);
    let all = shown["series"].as_array().unwrap();
    let keys = ["source", "name", "session", "last", "mean", "lowest", "highest", "percentiles"];
    let found: Vec<_> = all.iter().map(|one| keys.map(|key| one[key].clone())).collect();
    let none = Value::Null;
    let expected = [
        json!(["Demo", "requests", "", 98.0, 98.0, 98.0, 98.0, none]),
        json!(["Demo.Shop", "latency", "s", none, none, none, none, [2.0, 20.0, 40.0]]),
        // An interval of a second, as nothing says its length, then of two and of a half.
        json!(["Demo.Shop", "orders", "s", 12.0, 19.0 / 3.5, 3.0, 12.0, none]),
        json!(["Demo.Shop", "orders", "t", 200.0, 200.0, 200.0, 200.0, none]),
    ];
    assert_eq!(json!(found), json!(expected));
    // One interval for each value, and in each what was reported.
    let values: Vec<_> =
        all[2]["lines"][0].as_array().unwrap().iter().map(|point| point[1].clone()).collect();
    assert_eq!(values, [7.0, 3.0, 12.0].map(Value::from));
    assert_eq!(words(&text(&trace), "Demo.Shop/latency"), ["2", "20", "40", "order"]);
}

/// A trace with a value of each of these gauges: meter, name and tags.
fn gauges<'t>(all: impl IntoIterator<Item = [&'t str; 3]>) -> Vec<u8> {
    let fields = ["sessionId", "meterName", "meterVersion", "instrumentName", "unit", "tags"];
    let gauge = of_texts(1, "GaugeValuePublished", &[&fields[..], &["lastValue"]].concat());
    let mut stream = Stream::new();
    stream.thread(5).metadata(&gauge);
    let payload =
        |[meter, name, tags]: [&str; 3]| ["s", meter, "", name, "", tags, "1"].map(utf16z).concat();
    let payloads: Vec<_> = all.into_iter().map(payload).collect();
    let rows: Vec<_> = payloads
        .iter()
        .zip(1..)
        .map(|(payload, number)| Row::new(5, number, 1000 + u64::from(number)).payload(payload))
        .collect();
    stream.events(&rows);
    stream.end()
}

/// Instruments of the application come before those of the process and its tracer.
#[test]
fn those_of_the_application_come_first() {
    let trace = gauges([
        ["NetTrace.Tracer", "nettrace.events", "session=1"],
        ["NetTrace.Process", "process.memory.usage", ""],
        ["System.Runtime", "dotnet.gc.collections", ""],
        ["Shop", "orders", ""],
        ["NetTraceless", "queue", ""],
    ]);
    let shown = instruments(&trace);
    let sources: Vec<_> =
        shown["series"].as_array().unwrap().iter().map(|one| one["source"].clone()).collect();
    let expected =
        ["NetTraceless", "Shop", "NetTrace.Process", "NetTrace.Tracer", "System.Runtime"];
    assert_eq!(sources, expected);
    let text = text(&trace);
    let at = |name| text.find(name).unwrap_or_else(|| panic!("{text}"));
    assert!(at("Shop/orders") < at("NetTrace.Process/"), "{text}");
}

/// However many instruments and tags a trace has, a page has a limit and says so.
#[test]
fn many_series() {
    let tags: Vec<_> = (1..=1100).map(|number| format!("number={number:05}")).collect();
    let trace = gauges(tags.iter().map(|tags| ["Demo.Shop", "price", tags]));
    let shown = instruments(&trace);
    assert_eq!(shown["series"].as_array().unwrap().len(), 200);
    assert_eq!(shown["left_out"], 800);
    let text = text(&trace);
    assert!(text.contains("100 values are of instruments or tags beyond 1,000."), "{text}");
    assert!(text.contains("and 170 more counters and gauges\n"), "{text}");
    assert!(text.contains("and 800 more instruments with their tags\n"), "{text}");
}
