//! Clients of .NET see this process's counters: the library that `dotnet-counters` uses.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "threads that count")]

mod support;

use std::{
    io::{BufRead as _, BufReader},
    process::{self, Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use nettrace_metrics::{Counter, Meter};
use testkit::reference::tool;

use crate::support::Server;

/// A client, and the lines that it prints: a JSON object for each value.
struct Client {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Client {
    fn start(server: &Server, seconds: u32, names: &[&str]) -> Option<Self> {
        let tool = tool("counters")?;
        let mut command = Command::new(tool);
        command.args([process::id().to_string(), seconds.to_string()]).args(names);
        command.env("TMPDIR", server.folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                let _ = sender.send(line.unwrap());
            }
        });
        Some(Self { child, lines, seen: Vec::new() })
    }

    /// Waits for a line that has all these parts.
    #[track_caller]
    fn wait_for(&mut self, parts: &[&str]) {
        let has_all = |line: &String| parts.iter().all(|part| line.contains(part));
        while !self.seen.iter().any(has_all) {
            let line = self.lines.recv_timeout(Duration::from_secs(100));
            let line = line.unwrap_or_else(|_| panic!("no {parts:?} in {:#?}", self.seen));
            self.seen.push(line);
        }
    }

    /// All lines.
    fn finish(mut self) -> Vec<String> {
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(100)) {
            self.seen.push(line);
        }
        assert!(self.child.wait().unwrap().success(), "{:#?}", self.seen);
        self.seen
    }
}

/// The number of a field of a line.
fn number(line: &str, field: &str) -> f64 {
    let (_, after) = line.split_once(&format!("\"{field}\": ")).unwrap();
    after[..after.find([',', '}']).unwrap()].parse().unwrap()
}

#[test]
fn three_clients_see_what_the_program_knows() {
    let server = Server::start();
    let meter = Meter::builder("Contoso-Counted").version("3").build();
    let orders = meter.counter("orders").unit("{order}").build();
    let (german, french) =
        (orders.tagged(&[("country", "de")]), orders.tagged(&[("country", "fr")]));
    let queue = meter.up_down_counter("queue").build();
    let heat = meter.gauge("heat").unit("Cel").build();
    let latency = meter.histogram("latency").unit("ms").build();
    static OTHER: Meter = Meter::new("Contoso-Other");
    static SEEN: Counter = Counter::new(&OTHER, "seen");
    SEEN.add(17);
    queue.add(4);
    heat.set(-21.5);
    let Some(mut all) = Client::start(&server, 6, &["Contoso-Counted", "Contoso-Other"]) else {
        return;
    };
    let mut one = Client::start(&server, 6, &["Contoso-Counted"]).unwrap();
    let mut other = Client::start(&server, 6, &["Contoso-Other"]).unwrap();
    for client in [&mut all, &mut one] {
        client.wait_for(&["BeginInstrumentReporting", "\"latency\"", "\"ms\""]);
    }
    other.wait_for(&["BeginInstrumentReporting", "\"seen\""]);
    german.add(40);
    french.add(2);
    (1..=100).for_each(|n| latency.record(f64::from(n)));
    let born = meter.counter("born").build();
    born.add(3);
    for client in [&mut all, &mut one] {
        client.wait_for(&["CounterRateAndValue", "\"orders\"", "{order}", "40.0", "country=de"]);
        client.wait_for(&["CounterRateAndValue", "\"orders\"", "\"value\": 2.0", "country=fr"]);
        client.wait_for(&["UpDownCounter", "\"queue\"", "\"value\": 4.0"]);
        client.wait_for(&["GaugePayload", "\"heat\"", "Cel", "-21.5"]);
        client.wait_for(&["AggregatePercentile", "\"latency\""]);
        client.wait_for(&["CounterRateAndValue", "\"born\"", "\"value\": 3.0"]);
    }
    drop(born);
    other.wait_for(&["CounterRateAndValue", "\"seen\"", "\"value\": 17.0"]);
    for (client, may_have, must_not) in [(one, "Counted", "Other"), (other, "Other", "Counted")] {
        let lines = client.finish();
        assert!(lines.iter().any(|line| line.contains(may_have)), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains(must_not)), "{lines:#?}");
        assert!(lines.last().unwrap().ends_with("lost=0"), "{lines:#?}");
        // What was counted while it watched is in its rates, once.
        let of_orders = lines.iter().filter(|line| line.contains("\"orders\""));
        let values = of_orders.filter(|line| line.contains("\"rate\""));
        let rates: f64 = values.map(|line| number(line, "rate")).sum();
        assert_eq!(rates, if may_have == "Counted" { 42.0 } else { 0.0 }, "{lines:#?}");
        // No value comes by both ways.
        assert!(!lines.iter().any(|line| line.contains("\"meter\": false")), "{lines:#?}");
    }
    all.finish();
}

#[test]
fn a_client_is_told_that_there_are_too_many_series() {
    let server = Server::start();
    let meter = Meter::new("Contoso-Many");
    let many = meter.counter("many").build();
    let _many: Vec<_> = (0..1_100).map(|n| many.tagged(&[("n", &n.to_string())])).collect();
    let Some(mut client) = Client::start(&server, 3, &["Contoso-Many"]) else { return };
    client.wait_for(&["TimeSeriesLimitError"]);
    let lines = client.finish();
    let values = lines.iter().filter(|line| line.contains("CounterRateAndValue"));
    assert!(values.count() >= 1_000, "{lines:#?}");
}
