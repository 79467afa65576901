//! The speed of converting a trace for each viewer and to a report, beside reading it alone. A
//! ratio is the time of the conversion divided by that of reading: how many times as long it takes.
//!
//! The traces lie in memory, and the results are counted and dropped, all on one thread.

use std::{
    hint::black_box,
    io::{self, Write},
    time::Instant,
};

use benches::{
    events::{PROVIDER, Two},
    options::Options,
    report::Report,
};
use nettrace_reader::{Reader, SortedReader};
use nettrace_views::{
    report::{self, NamesOnly, Report as Page},
    viewers::{View, write},
};
use nettrace_writer::{Emit, OnFull, Origin, Session, TraceEvent, TraceSpan, sink::MemorySink};

/// A sample, as profilers write it.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Universal.Events", name = "cpu")]
struct Sample {
    value: u64,
}

/// A span of two events, with fields.
#[derive(TraceSpan)]
#[trace_event(provider = "Bench", later = [bytes: u64])]
struct Request<'a> {
    path: &'a str,
    number: u64,
}

/// The traces, how many events each has, and what emits event number `n`.
type Make = fn(u64);

const TRACES: [(&str, Make); 3] = [("plain", plain), ("spans", spans), ("samples", samples)];

fn plain(number: u64) {
    for number in 0..number {
        Two { a: black_box(number), b: number }.emit();
    }
}

/// A span in another one, with an event in each: six events.
fn spans(number: u64) {
    for number in 0..number / 6 {
        let mut outer = Request { path: "/checkout", number }.enter();
        Two { a: black_box(number), b: number }.emit();
        {
            let mut inner = Request { path: "/pay", number }.enter();
            Two { a: black_box(number), b: number }.emit();
            inner.record_bytes(number);
        }
        outer.record_bytes(number);
    }
}

/// Samples with a thousand different stacks of twenty frames.
fn samples(number: u64) {
    let mut stack = [0; 20];
    for number in 0..number {
        for (depth, address) in (0..).zip(&mut stack) {
            *address = 0x40_0000 + ((number * 7919 % 1000) >> (depth / 2)) as usize * 64 + depth;
        }
        let stack = stack.map(|address| address as _);
        Sample { value: black_box(number) }.emit_with(&Origin::new().stack(&stack));
    }
}

fn main() {
    let options = Options::from_env();
    let mut report = Report::default();
    for (name, make) in TRACES {
        let ways: Vec<_> =
            View::ALL.iter().map(|view| Way::View(*view)).chain([Way::Page]).collect();
        let is_wanted = |way: &Way| options.wants(&format!("views_{name}_{}", way.name()));
        let ways: Vec<_> = ways.into_iter().filter(is_wanted).collect();
        if !ways.is_empty() {
            let trace = trace(make, options.amount(1_000_000, 600));
            measure(name, &trace, &ways, &options, &mut report);
        }
    }
    report.finish();
}

/// What is made of a trace.
#[derive(Clone, Copy)]
enum Way {
    View(View),
    /// The page of `nettrace report`.
    Page,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::View(view) => view.name(),
            Self::Page => "report",
        }
    }

    /// Converts the trace. Returns the size of the result.
    fn run(self, trace: &[u8]) -> u64 {
        let (mut events, mut counted) = (sorted(trace), Counted(0));
        match self {
            Self::View(view) => {
                let written = write(view, &mut events, &mut counted, &Default::default());
                let end = written.expect("what counts takes everything").end;
                end.expect("the trace is sound");
            }
            Self::Page => {
                let options = report::Options::new("bench");
                let page = Page::read(&mut events, &mut NamesOnly, &options);
                page.write(&mut counted).expect("what counts takes everything");
            }
        }
        counted.0
    }
}

/// Converts a trace in each way, in turns, because other programs load the machine to varying
/// degrees.
fn measure(trace_name: &str, trace: &[u8], ways: &[Way], options: &Options, report: &mut Report) {
    let (mut events, mut reading) = (0, f64::MAX);
    let mut best = vec![(f64::MAX, 0); ways.len()];
    for _ in 0..options.amount(5, 1) {
        let begin = Instant::now();
        events = read(sorted(trace));
        reading = reading.min(begin.elapsed().as_secs_f64());
        for (way, (seconds, size)) in ways.iter().zip(&mut best) {
            let begin = Instant::now();
            *size = way.run(trace);
            *seconds = seconds.min(begin.elapsed().as_secs_f64());
        }
    }
    let name = format!("views_{trace_name}");
    report.figure(&format!("{name}_events"), events);
    report.figure(&format!("{name}_bytes"), trace.len());
    report.figure(&format!("{name}_read_per_second"), events as f64 / reading);
    for (way, (seconds, size)) in ways.iter().zip(best) {
        let name = format!("{name}_{}", way.name());
        report.figure(&format!("{name}_bytes"), size);
        report.figure(&format!("{name}_per_second"), events as f64 / seconds);
        if options.measure {
            report.ratio(&name, seconds / reading);
        }
    }
}

fn sorted(trace: &[u8]) -> SortedReader<&[u8]> {
    Reader::new(trace).expect("it is a trace").sorted()
}

/// Visits every event and does nothing with it.
fn read(mut events: SortedReader<&[u8]>) -> u64 {
    let mut seen = 0;
    while let Some(event) = events.next_event().expect("the trace is sound") {
        black_box((event.header.timestamp, event.payload));
        seen += 1;
    }
    seen
}

/// A trace of one thread.
fn trace(make: Make, number: u64) -> Vec<u8> {
    let memory = MemorySink::new();
    let session = Session::builder()
        .sink(memory.clone())
        .on_full(OnFull::Block)
        .provider(PROVIDER)
        .provider("Universal.Events");
    let session = session.start().expect("memory needs nothing");
    make(number);
    session.finish().expect("memory takes everything");
    memory.bytes()
}

/// Counts bytes and drops them.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += black_box(bytes).len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
