//! The target Chrome: the Trace Event Format, a JSON object with a list of events.
//!
//! | event | `ph` |
//! |---|---|
//! | a slice of a thread that ended; one that did not | `X`; `B` |
//! | an asynchronous span | `b` and `e` |
//! | an event without duration | `i` |
//! | a flow from a slice to one of another thread | `s` and `f` |
//! | a value of a counter | `C` |
//! | names of processes and threads | `M` |
//! | samples, as V8's profiler writes them | `P` |

mod samples;

use std::{collections::HashMap, io::Write};

use nettrace_reader::{Thread, Trace};

use crate::{
    LeftOut,
    model::{Time, process_of, unix_nanos},
    viewers::{
        Options,
        json::{self, Members, show, string},
        spans::{self, Begin, Draw, Place},
        stacks::{Sampled, Samples},
        timeline::{CounterValue, Form, Moment, Relieve, Timeline},
    },
};

/// Ids from here on stand for ids that are larger or unknown. Viewers take 32 bits.
const SUBSTITUTE: u64 = 1 << 30;

/// How many ends of flows are remembered.
const FLOWS: usize = 1 << 16;

/// Begins a JSON file.
pub(crate) fn begin<W: Write>(
    sink: W,
    trace: &Trace,
    version: u32,
    options: &Options,
) -> Timeline<Chrome, W> {
    let mut out = Vec::new();
    let form = Chrome::new(trace, &mut out);
    Timeline::new(sink, form, out, trace, version, options)
}

/// The form of Chrome.
#[derive(Debug)]
pub(crate) struct Chrome {
    process: Option<u64>,
    /// The process and the thread of each number.
    threads: Vec<(u64, u64)>,
    ids: Ids,
    /// The last number of an asynchronous span.
    last: u64,
    flows: Flows,
    counters_left_out: u64,
    profiles: samples::Profiles,
}

/// The ids of processes and threads in the result.
#[derive(Debug, Default)]
struct Ids {
    processes: HashMap<Option<u64>, u64>,
    threads: HashMap<Sampled, u64>,
    substitutes: u64,
}

/// Flows whose one end is written. A flow can only join slices of threads.
#[derive(Debug, Default)]
struct Flows {
    /// The begin of spans that children on other threads named.
    starts: HashMap<u64, (u64, u64, i64)>,
    /// The begin of children whose parents have not been written.
    ends: HashMap<u64, (u64, u64, i64)>,
    left_out: u64,
}

impl Ids {
    fn substitute(&mut self) -> u64 {
        self.substitutes += 1;
        SUBSTITUTE + self.substitutes
    }

    fn process(&mut self, process: Option<u64>, out: &mut Vec<u8>) -> u64 {
        if let Some(id) = self.processes.get(&process) {
            return *id;
        }
        let id = process.filter(|id| *id < SUBSTITUTE);
        let id = id.unwrap_or_else(|| self.substitute());
        self.processes.insert(process, id);
        let name = process.map_or("process".to_owned(), |id| format!("process {id}"));
        metadata(out, "process_name", (id, 0), &name);
        id
    }

    fn thread(&mut self, thread: &Sampled, out: &mut Vec<u8>) -> (u64, u64) {
        let process = self.process(thread.process, out);
        if let Some(id) = self.threads.get(thread) {
            return (process, *id);
        }
        let id = thread.id.filter(|id| (1..SUBSTITUTE).contains(id));
        let id = id.unwrap_or_else(|| self.substitute());
        if self.threads.len() >= FLOWS {
            // A thread of the same id is described again.
            self.threads.clear();
        }
        self.threads.insert(thread.clone(), id);
        metadata(out, "thread_name", (process, id), &thread.title());
        (process, id)
    }
}

/// Begins an event. Each is on a line of its own.
fn event(out: &mut Vec<u8>, ph: u8, (process, thread): (u64, u64), at: i64) {
    out.extend_from_slice(b",\n{\"ph\":\"");
    out.push(ph);
    out.extend_from_slice(b"\",\"pid\":");
    json::decimal(out, process);
    out.extend_from_slice(b",\"tid\":");
    json::decimal(out, thread);
    out.extend_from_slice(b",\"ts\":");
    json::micros(out, at);
}

/// Writes the details of an event, and ends it.
fn end_with(out: &mut Vec<u8>, details: &[&[u8]]) {
    if details.iter().any(|part| !part.is_empty()) {
        out.extend_from_slice(b",\"args\":");
        json::write_members(out, details);
    }
    out.push(b'}');
}

fn metadata(out: &mut Vec<u8>, what: &str, place: (u64, u64), name: &str) {
    event(out, b'M', place, 0);
    // Chrome writes this category, too. speedscope's page looks for samples only if the first event
    // has a category.
    out.extend_from_slice(b",\"cat\":\"__metadata\"");
    show(out, format_args!(",\"name\":\"{what}\",\"args\":{{\"name\":"));
    string(out, name);
    out.extend_from_slice(b"}}");
}

impl Chrome {
    fn new(trace: &Trace, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(
            b"{\"displayTimeUnit\":\"ns\",\"otherData\":{\"exporter\":\"nettrace\"",
        );
        let start = unix_nanos(&trace.sync_time).and_then(|nanos| Time::of_unix(nanos.into()));
        if let Some(start) = start {
            out.extend_from_slice(b",\"start\":");
            string(out, &start.to_string());
        }
        let mut facts = Vec::new();
        for (key, value) in &trace.key_values {
            use crate::viewers::values::Details;
            Members::text(&mut facts, &Members::plain_key(key), value);
        }
        out.extend_from_slice(b",\"trace\":");
        json::write_members(out, &[&facts]);
        out.extend_from_slice(b"},\"traceEvents\":[\n");
        // Every other event begins with a comma.
        let mut ids = Ids::default();
        let process = process_of(trace);
        let at = out.len();
        ids.process(process, out);
        out.drain(at..at + 2);
        Self {
            process,
            threads: Vec::new(),
            ids,
            last: 0,
            flows: Flows::default(),
            counters_left_out: 0,
            profiles: samples::Profiles::default(),
        }
    }

    /// Writes an end of a flow.
    fn flow(out: &mut Vec<u8>, ph: u8, id: u64, (process, thread, at): (u64, u64, i64)) {
        event(out, ph, (process, thread), at);
        show(out, format_args!(",\"id\":\"{id:#x}\",\"cat\":\"nettrace\",\"name\":\"parent\""));
        if ph == b'f' {
            out.extend_from_slice(b",\"bp\":\"e\"");
        }
        out.push(b'}');
    }

    /// Writes the flows of a slice of a thread, as far as their other ends are known.
    fn flows(
        &mut self,
        here: (u64, u64, i64),
        span: &Begin,
        flows: spans::Flows<'_>,
        out: &mut Vec<u8>,
    ) {
        for id in flows.inside {
            self.flows.ends.remove(id);
        }
        let mut join = |id, from, to| {
            Self::flow(out, b's', id, from);
            Self::flow(out, b'f', id, to);
        };
        for id in flows.elsewhere {
            match self.flows.ends.remove(id) {
                Some(there) => join(*id, here, there),
                None if self.flows.starts.len() < FLOWS => {
                    self.flows.starts.insert(*id, here);
                }
                None => self.flows.left_out += 1,
            }
        }
        if span.parent.is_some() {
            let id = span.flow();
            match self.flows.starts.remove(&id) {
                Some(there) => join(id, there, here),
                None if self.flows.ends.len() < FLOWS => {
                    self.flows.ends.insert(id, here);
                }
                None => {
                    self.flows.left_out += self.flows.ends.len() as u64;
                    self.flows.ends.clear();
                }
            }
        }
    }
}

impl Draw for Chrome {
    fn own_track(&mut self, _: &Begin, _: Option<i64>, _: &mut Vec<u8>) -> Place {
        self.last += 1;
        Place::Own(self.last)
    }

    fn begin(
        &mut self,
        place: Place,
        span: &Begin,
        flows: spans::Flows<'_>,
        end: Option<(i64, &[u8])>,
        out: &mut Vec<u8>,
    ) {
        let thread = self.threads.get(span.thread).copied().unwrap_or_default();
        let (until, details) = end.unwrap_or((span.at, &[]));
        match place {
            Place::Thread(_) => {
                event(out, if end.is_some() { b'X' } else { b'B' }, thread, span.at);
                if end.is_some() {
                    out.extend_from_slice(b",\"dur\":");
                    json::micros(out, until.saturating_sub(span.at));
                }
                out.extend_from_slice(&span.name.bytes);
                end_with(out, &[&span.details, details]);
                self.flows((thread.0, thread.1, span.at), span, flows, out);
            }
            Place::Own(number) => {
                let id = |out: &mut Vec<u8>| {
                    show(out, format_args!(",\"id\":\"{number:#x}\""));
                    out.extend_from_slice(&span.name.bytes);
                };
                event(out, b'b', thread, span.at);
                id(out);
                end_with(out, &[&span.details, details]);
                if end.is_some() {
                    event(out, b'e', thread, until);
                    id(out);
                    out.push(b'}');
                }
                self.flows.left_out +=
                    u64::from(span.parent.is_some()) + flows.elsewhere.len() as u64;
            }
        }
    }

    fn end(&mut self, _: Place, _: i64, _: &[u8], _: &mut Vec<u8>) {}

    fn instant(&mut self, span: &Begin, out: &mut Vec<u8>) {
        let thread = self.threads.get(span.thread).copied().unwrap_or_default();
        event(out, b'i', thread, span.at);
        out.extend_from_slice(&span.name.event);
        out.extend_from_slice(b",\"s\":\"t\"");
        end_with(out, &[&span.details]);
    }
}

impl Form for Chrome {
    type Details = Members;

    fn has_samples_of(_: Option<u64>, _: Option<u64>) -> bool {
        true
    }

    fn bounded(at: i64) -> i64 {
        at
    }

    fn key(&mut self, name: &str, _: &mut Vec<u8>) -> Vec<u8> {
        json::quoted(name)
    }

    fn name(&mut self, provider: &str, name: &str, _: &mut Vec<u8>) -> Vec<u8> {
        let mut bytes = b",\"name\":".to_vec();
        string(&mut bytes, name);
        bytes.extend_from_slice(b",\"cat\":");
        // A comma would begin another category.
        string(&mut bytes, &provider.replace(',', ";"));
        bytes
    }

    fn thread(&mut self, number: usize, process: Option<u64>, thread: &Thread, out: &mut Vec<u8>) {
        let ids = self.ids.thread(&Sampled::of(thread, process), out);
        if self.threads.len() <= number {
            self.threads.resize(number + 1, (0, 0));
        }
        self.threads[number] = ids;
    }

    fn moment(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) {
        event(out, b'i', self.threads[moment.thread], moment.at);
        out.extend_from_slice(moment.name);
        out.extend_from_slice(b",\"s\":\"t\"");
        end_with(out, &moment.details);
        // Flows join slices.
        self.flows.left_out += u64::from(moment.flow.is_some());
    }

    fn lost(&mut self, thread: Option<usize>, at: i64, count: u64, out: &mut Vec<u8>) {
        let (place, scope) = match thread {
            Some(number) => (self.threads[number], 't'),
            None => ((self.ids.process(self.process, out), 0), 'p'),
        };
        event(out, b'i', place, at);
        show(out, ",\"name\":\"lost events\",\"cat\":\"nettrace\"");
        show(out, format_args!(",\"s\":\"{scope}\",\"args\":{{\"lost\":{count}}}}}"));
    }

    fn counter(&mut self, process: Option<u64>, value: &CounterValue, at: i64, out: &mut Vec<u8>) {
        if !value.value.is_finite() {
            self.counters_left_out += 1;
            return;
        }
        let process = self.ids.process(process, out);
        event(out, b'C', (process, 0), at);
        out.extend_from_slice(b",\"name\":");
        string(out, &value.name);
        out.extend_from_slice(b",\"cat\":\"counter\",\"args\":{");
        string(out, if value.unit.is_empty() { "value" } else { &value.unit });
        out.push(b':');
        json::float(out, value.value);
        out.extend_from_slice(b"}}");
    }

    fn process_name(&mut self, process: Option<u64>, name: &str, out: &mut Vec<u8>) {
        let id = self.ids.process(process, out);
        let number = process.map_or(String::new(), |id| format!(" ({id})"));
        metadata(out, "process_name", (id, 0), &format!("{name}{number}"));
    }

    fn samples(&mut self, samples: &Samples, out: &mut Vec<u8>) {
        self.profiles.write(samples, &mut self.ids, out);
    }

    fn close(&mut self, out: &mut Vec<u8>, _: Relieve<'_>) {
        out.extend_from_slice(b"\n]}\n");
    }

    fn left_out(&self, left_out: &mut LeftOut) {
        let what = "connections from or to what is no slice of a thread";
        left_out.add(self.flows.left_out, what);
        left_out.add(self.counters_left_out, "values of counters that are no numbers");
    }
}
