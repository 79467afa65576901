//! Clients of .NET see this process's counters: the library that `dotnet-counters` uses.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "threads that count")]

mod support;

use std::{
    io::{BufRead as _, BufReader, Read},
    os::unix::net::UnixStream,
    process::{self, Child, Command, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use nettrace_diagnostics::client::Wanted;
use nettrace_reader::{Reader, Value};
use nettrace_writer::metrics::{Counter, Meter};
use testkit::reference::tool;

use crate::support::{PATIENCE, Server};

/// A client, and a line for each of its values. It ends with the test.
struct Client {
    lines: Receiver<String>,
    seen: Vec<String>,
    /// The client of .NET. Ours ends with its session.
    child: Option<Child>,
}

impl Client {
    /// The client of .NET, which asks for values each second. Its lines are JSON objects.
    fn start(server: &Server, names: &[&str]) -> Option<Self> {
        let tool = tool("counters")?;
        let mut command = Command::new(tool);
        // It is ended long before.
        command.args([process::id().to_string(), "3600".to_owned()]).args(names);
        command.env("TMPDIR", server.folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        // Events that have no value are on its standard error.
        forward(child.stderr.take().unwrap(), sender.clone());
        forward(child.stdout.take().unwrap(), sender);
        Some(Self { lines, seen: Vec::new(), child: Some(child) })
    }

    /// A client of ours, with an interval in seconds.
    fn ours(server: &Server, meter: &str, interval: &str) -> Self {
        let arguments = format!("SessionId={interval};Metrics={meter};RefreshInterval={interval}");
        let name = "System.Diagnostics.Metrics".to_owned();
        let wanted = Wanted { name, keywords: 2, level: 4, arguments };
        let stream = server.target().collect(&[wanted], 16).unwrap().stream;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || decode(stream, &sender));
        Self { lines, seen: Vec::new(), child: None }
    }

    /// Waits until there are so many lines that have all these parts.
    #[track_caller]
    fn wait_for_some(&mut self, count: usize, parts: &[&str]) {
        let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
        while self.seen.iter().filter(has_all).count() < count {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no {parts:?} in {:#?}", self.seen));
            self.seen.push(line);
        }
    }

    /// Waits for a line that has all these parts.
    #[track_caller]
    fn wait_for(&mut self, parts: &[&str]) {
        self.wait_for_some(1, parts);
    }

    /// The sum of what was counted in all intervals so far, over all tags.
    fn sum_of_rates(&self, counter: &str) -> f64 {
        let name = format!("\"{counter}\"");
        let values = self.seen.iter().filter(|line| line.contains(&name));
        values.filter(|line| line.contains("\"rate\"")).map(|line| number(line, "rate")).sum()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sends each line.
fn forward(from: impl Read + Send + 'static, to: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let _ = to.send(line);
        }
    });
}

/// Sends a line for each event of a trace, until its session ends.
fn decode(stream: UnixStream, to: &Sender<String>) {
    let Ok(mut reader) = Reader::new(stream) else { return };
    while let Ok(Some(event)) = reader.next_event() {
        let mut line = event.metadata().name.clone();
        for (name, value) in event.fields().map(Result::unwrap) {
            // Numbers without quotes, as the other client has them.
            line += &match value {
                Value::Text(text) if matches!(name, "rate" | "value") => {
                    format!(", \"{name}\": {text}")
                }
                Value::Text(text) => format!(", \"{name}\": \"{text}\""),
                Value::I32(number) => format!(", \"{name}\": {number}"),
                Value::F64(number) => format!(", \"{name}\": {number}"),
                _ => continue,
            };
        }
        let _ = to.send(line + "}");
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
    let Some(mut all) = Client::start(&server, &["Contoso-Counted", "Contoso-Other"]) else {
        return;
    };
    let mut one = Client::start(&server, &["Contoso-Counted"]).unwrap();
    let mut other = Client::start(&server, &["Contoso-Other"]).unwrap();
    // At once with these, with other intervals.
    let mut fast = Client::ours(&server, "Contoso-Counted", "0.3");
    let mut slow = Client::ours(&server, "Contoso-Other", "1.7");
    for client in [&mut all, &mut one] {
        client.wait_for(&["BeginInstrumentReporting", "\"latency\"", "\"ms\""]);
    }
    other.wait_for(&["BeginInstrumentReporting", "\"seen\""]);
    for client in [&mut fast, &mut slow] {
        client.wait_for(&["InitialInstrumentEnumerationComplete"]);
    }
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
    fast.wait_for(&["CounterRateValue", "\"orders\"", "\"value\": 40,", "country=de"]);
    fast.wait_for(&["CounterRateValue", "\"born\"", "\"value\": 3,"]);
    drop(born);
    for client in [&mut all, &mut one, &mut fast] {
        client.wait_for(&["EndInstrumentReporting", "born"]);
    }
    other.wait_for(&["CounterRateAndValue", "\"seen\"", "\"value\": 17.0"]);
    slow.wait_for(&["CounterRateValue", "\"seen\"", "\"value\": 17,"]);
    for (mut client, value, name, not, rates) in [
        (all, "CounterRateAndValue", "orders", "\"meter\": false", 42.0),
        (one, "CounterRateAndValue", "orders", "Contoso-Other", 42.0),
        (other, "CounterRateAndValue", "seen", "Contoso-Counted", 0.0),
        (fast, "CounterRateValue", "orders", "\"seen\"", 42.0),
        (slow, "CounterRateValue", "seen", "\"rate\": 40", 0.0),
    ] {
        // What was counted while it watched is in its rates, once: also after further intervals.
        client.wait_for_some(4, &[value, &format!("\"{name}\""), "\"rate\": 0"]);
        assert_eq!(client.sum_of_rates(name), rates, "{:#?}", client.seen);
        assert!(!client.seen.iter().any(|line| line.contains(not)), "{:#?}", client.seen);
    }
}

#[test]
fn a_client_is_told_that_there_are_too_many_series() {
    let server = Server::start();
    let meter = Meter::new("Contoso-Many");
    let many = meter.counter("many").build();
    let _many: Vec<_> = (0..1_100).map(|n| many.tagged(&[("n", &n.to_string())])).collect();
    let Some(mut client) = Client::start(&server, &["Contoso-Many"]) else { return };
    client.wait_for(&["TimeSeriesLimitError"]);
    // Those that there is room for, each once in an interval.
    client.wait_for_some(1_000, &["CounterRateAndValue"]);
}
