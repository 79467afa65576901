//! The timeline of a trace: threads, spans, events, counters, losses and samples. All targets with
//! such a line are [`Form`]s of it.

mod labels;
mod threads;
mod types;

use std::{
    io::{self, Write},
    rc::Rc,
};

use nettrace_reader::{Event, Stack, Thread, Totals, Trace, Value};

use self::{
    labels::{Keys, Labels},
    threads::Threads,
    types::{Ending, EventType},
};
use crate::{
    LeftOut, Target,
    model::{
        Clock, FrameNames, Lesson, Measured, Observed, Part, PerType, Processes, Reported, Role,
        process_of, reported, role_of, walk,
    },
    viewers::{
        Options,
        spans::{Begin, Draw, End, Spans},
        stacks::{self, Samples},
        values::{self, Details},
    },
};

/// Bytes that are collected before they are written.
const BATCH: usize = 1 << 20;

/// The form of a format with a line of time. Everything is appended to `out`.
pub(crate) trait Form: Draw {
    type Details: Details;

    /// Whether the form can express samples of this process and thread. Others are events.
    fn has_samples_of(process: Option<u64>, thread: Option<u64>) -> bool;

    /// A time that the format can express, in nanoseconds since the start of the trace.
    fn bounded(at: i64) -> i64;

    /// The key of a detail that comes often.
    fn key(&mut self, name: &str, out: &mut Vec<u8>) -> Vec<u8>;

    /// The provider and the name of an event or span.
    fn name(&mut self, provider: &str, name: &str, out: &mut Vec<u8>) -> Vec<u8>;

    /// A thread, with the number by which it is named from now on. A number can come again, for
    /// another thread.
    fn thread(&mut self, number: usize, process: Option<u64>, thread: &Thread, out: &mut Vec<u8>);

    /// An event without duration. `flow` comes from a span that is drawn elsewhere.
    fn moment(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>);

    /// Lost events of a thread, or of the process.
    fn lost(&mut self, thread: Option<usize>, at: i64, count: u64, out: &mut Vec<u8>);

    /// A value of a counter.
    fn counter(&mut self, process: Option<u64>, value: &CounterValue, at: i64, out: &mut Vec<u8>);

    /// Whether context switches are times in which threads waited. They are events otherwise.
    const HAS_WAITS: bool = false;

    /// Whether the stacks of events that are no samples are counted.
    fn wants_stacks(&self, _: &Samples) -> bool {
        false
    }

    /// The trace has said how a process is called.
    fn process_name(&mut self, _: Option<u64>, _: &str, _: &mut Vec<u8>) {}

    /// The samples since the last call.
    fn samples(&mut self, samples: &Samples, out: &mut Vec<u8>);

    /// Whether the form can take samples before the end of the trace. Otherwise those beyond the
    /// limit on memory are left out.
    fn takes_samples_early(&self) -> bool {
        true
    }

    /// The end of the result. A form with much to write calls `relieve` now and then.
    fn close(&mut self, out: &mut Vec<u8>, relieve: Relieve<'_>);

    /// Adds what it has left out itself.
    fn left_out(&self, left_out: &mut LeftOut);
}

/// Writes out what there is, if it is much.
pub(crate) type Relieve<'a> = &'a mut dyn FnMut(&mut Vec<u8>);

/// An event without duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) thread: usize,
    pub(crate) at: i64,
    /// The provider and the name of the event.
    pub(crate) name: &'a [u8],
    pub(crate) details: [&'a [u8]; 2],
    pub(crate) flow: Option<u64>,
}

/// A value of a counter.
#[derive(Clone, Debug)]
pub(crate) struct CounterValue {
    pub(crate) name: String,
    /// Empty if the trace states none.
    pub(crate) unit: String,
    pub(crate) value: f64,
}

impl CounterValue {
    /// The growth of a counter, or the value of a gauge. `None` for a histogram.
    fn of(reported: Reported<'_>) -> Option<Self> {
        let Reported { source, name, tags, unit, .. } = reported;
        let value = match reported.measured {
            Measured::Growth { increase, .. } => increase,
            Measured::Value { value, .. } => value,
            Measured::Distribution { .. } => return None,
        };
        let mut name = format!("{source}/{name}");
        if !tags.is_empty() {
            name = format!("{name}{{{tags}}}");
        }
        Some(Self { name, unit: unit.into_owned(), value })
    }
}

/// Writes a trace in a form.
#[derive(Debug)]
pub(crate) struct Timeline<F: Form, W> {
    sink: W,
    out: Vec<u8>,
    version: u32,
    clock: Clock,
    process: Option<u64>,
    epoch: u64,
    types: PerType<Rc<EventType>>,
    threads: Threads,
    spans: Spans,
    samples: Samples,
    samples_limit: usize,
    dimension: Option<String>,
    labels: Labels,
    stack: CachedStack,
    /// The details of the event that is being written.
    details: Vec<u8>,
    /// What that event says of the end of a span.
    ending: Ending,
    keys: Keys,
    form: F,
    links: u64,
    latest: i64,
    lost: u64,
    counts: Counts,
}

/// The stack of the last event that had one, as a detail.
#[derive(Debug, Default)]
struct CachedStack {
    addresses: Vec<u8>,
    process: Option<u64>,
    of_event: Vec<u8>,
    of_end: Vec<u8>,
}

/// What could not be expressed.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Events some of whose fields cannot be decoded.
    payloads: u64,
    /// Events with a payload whose fields the trace does not describe.
    undescribed: u64,
    /// Events whose time the form cannot express.
    times: u64,
    /// Samples beyond the limit on memory.
    samples: u64,
}

impl<F: Form, W: Write> Timeline<F, W> {
    /// Begins the result of a NetTrace trace of a major version. `out` has what the form has
    /// written so far.
    pub(crate) fn new(
        sink: W,
        mut form: F,
        mut out: Vec<u8>,
        trace: &Trace,
        version: u32,
        options: &Options,
    ) -> Self {
        let keys = Keys::new(&mut form, &mut out);
        for (process, name) in Processes::of(trace).named() {
            form.process_name(process, name, &mut out);
        }
        Self {
            sink,
            out,
            version,
            clock: Clock::of(trace),
            process: process_of(trace),
            epoch: 0,
            types: PerType::default(),
            threads: Threads::default(),
            spans: Spans::new(options.spans_limit),
            samples: Samples::default(),
            samples_limit: options.samples_limit,
            dimension: options.dimension.clone(),
            labels: Labels::default(),
            stack: CachedStack::default(),
            details: Vec::new(),
            ending: Ending::default(),
            keys,
            form,
            links: 0,
            latest: 0,
            lost: 0,
            counts: Counts::default(),
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// A sequence point has passed: ids may stand for something else.
    #[cold]
    fn begin_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.threads.begin_epoch(epoch, &mut self.spans, &mut self.out);
    }

    /// The number of a thread.
    fn thread(&mut self, thread: &Thread) -> usize {
        if let Some(number) = self.threads.find(thread, self.epoch) {
            return number;
        }
        let process = thread.process_id.or(self.process);
        let old = self.threads.numbers.get(&thread.index).copied();
        if let Some(old) = old {
            // Another thread has got the index.
            self.threads.remove(thread.index, old, &mut self.spans, &mut self.out);
        }
        let number = self.threads.add(thread, process, self.epoch);
        self.form.thread(number, process, thread, &mut self.out);
        number
    }

    fn read(&mut self, event: &Event<'_>) {
        let header = event.header;
        let exact = self.clock.since_start(header.timestamp);
        let at = F::bounded(exact);
        self.latest = self.latest.max(at);
        self.counts.times += u64::from(at != exact);
        if event.epoch() != self.epoch {
            self.begin_epoch(event.epoch());
        }
        let capture = event.capture_thread();
        if capture.lost != 0 {
            // Mostly the thread of the event before, whose losses are known.
            let number = self.threads.is_last(capture.definition);
            let number = number.unwrap_or_else(|| self.thread(&capture.thread));
            self.show_loss(number, capture.lost, at);
        }
        let thread = match self.threads.is_last(event.thread_definition()) {
            Some(number) => number,
            None => {
                let number = self.thread(event.thread());
                self.threads.defined_by(event.thread_definition());
                number
            }
        };
        self.labels.read(event);
        let Self { types, version, dimension, form, out, .. } = self;
        let by = dimension.as_deref();
        let ty = types.of(event, |of| Rc::new(EventType::new(of, *version, by, form, out)));
        let ty = Rc::clone(ty);
        let role = match self.labels.ids.overrides.opcode {
            Some(code) if header.label_list != 0 => {
                role_of(event.metadata(), Some(code), self.version)
            }
            _ => ty.role,
        };
        let is_sampled = ty.observed.is_some_and(|it| self.observe(it, event, thread, at));
        // The number in .NET's samples says what kind of code the thread was in, that of others for
        // how many samples each stands.
        let says_all = ty.observed == Some(Observed::Waiting) || event.payload == [1];
        if is_sampled && (says_all || !ty.has_more) {
            return;
        }
        if let Some(lesson) = ty.lesson {
            self.learn(lesson, event, thread);
        }
        if F::Details::IS_ANY {
            self.read_details(event, role, &ty, is_sampled);
        }
        if let Some(counter) = ty.counter {
            let process = self.threads.known[thread].process;
            if let Some(value) = reported(counter, event).and_then(CounterValue::of) {
                self.form.counter(process, &value, at, &mut self.out);
            }
        }
        if role == Role::Inside || !self.span(event, role, thread, at, &ty) {
            let flow = self.link(event, &ty);
            self.moment(thread, at, &ty, flow);
        }
        if event.header.stack_id != 0 && !is_sampled && self.form.wants_stacks(&self.samples) {
            let process = self.threads.known[thread].process;
            self.make_room();
            self.samples.event(event, process);
        }
    }

    /// Notes what an event says of code, or of a process.
    #[cold]
    fn learn(&mut self, lesson: Lesson, event: &Event<'_>, thread: usize) {
        let process = self.threads.known[thread].process;
        self.samples.symbols.take(lesson, event);
        self.stack = CachedStack::default();
        if lesson == Lesson::Process {
            if let Some(name) = self.samples.symbols.process_name(process) {
                self.form.process_name(process, name, &mut self.out);
            }
        }
    }

    /// Writes what the event says of a span. Returns `false` if it is an event like any other.
    fn span(
        &mut self,
        event: &Event<'_>,
        role: Role,
        thread: usize,
        at: i64,
        ty: &Rc<EventType>,
    ) -> bool {
        let ids = self.labels.ids;
        let Some(key) = ids.span else { return false };
        let Self { spans, form, out, labels, keys, .. } = self;
        let part = spans.part(role, key, &ty.span);
        let name = match part {
            Part::Start(_) | Part::Whole => ty.named(event, form, out),
            _ => Rc::clone(&ty.span),
        };
        let begin = |at, details| Begin {
            key,
            alias: ids.alias,
            parent: ids.related.filter(|parent| *parent != key),
            thread,
            at,
            process: self.threads.known[thread].process,
            name: Rc::clone(&name),
            details,
            is_poll: false,
        };
        let mut with_labels = |spans: &mut Spans, details: &[u8]| {
            let mut all = spans.buffer();
            all.extend_from_slice(details);
            all.extend_from_slice(labels.of_slice::<F::Details>(keys));
            all
        };
        let had_pauses = match role {
            Role::Stop | Role::Single if F::Details::IS_ANY => self.ending.had_pauses(),
            Role::Stop | Role::Single => ty.ending_of(event).had_pauses(),
            _ => false,
        };
        let end = End { key, thread, at, had_pauses, details: &self.details };
        match (role, part) {
            (_, Part::Start(other)) => {
                let details = with_labels(spans, &self.details);
                spans.start(begin(at, details), other, form, out);
                true
            }
            (_, Part::Stop(place)) => {
                spans.stop(place, &end, form, out);
                true
            }
            (_, Part::Whole) => {
                let Some(duration) = ty.end.stated(event).0 else { return false };
                let details = with_labels(spans, &[]);
                let begin = begin(F::bounded(at.saturating_sub(duration)), details);
                spans.whole(begin, &end, form, out);
                true
            }
            (Role::Resume, _) => {
                let details = with_labels(spans, &self.details);
                spans.resume(begin(at, details), out);
                true
            }
            (Role::Suspend, _) => spans.suspend(&end, form, out),
            _ => false,
        }
    }

    /// The flow from the span that an event inside of another one names: as related, or as the one
    /// that its span follows from.
    fn link(&mut self, event: &Event<'_>, ty: &EventType) -> Option<u64> {
        let ids = self.labels.ids;
        if ids.related.is_none() && ty.follows.is_none() {
            return None;
        }
        let followed = ty.followed(event, ids.trace.is_some());
        let from = followed.or(ids.related).filter(|from| Some(*from) != ids.span)?;
        self.links += 1;
        // The numbers of the flows from parents are ids of spans, which are random.
        let flow = self.links | 1 << 63;
        self.spans.link(from, flow).then_some(flow)
    }

    fn moment(&mut self, thread: usize, at: i64, ty: &EventType, flow: Option<u64>) {
        let out = self.spans.at(thread, at, &mut self.out);
        let details = [&*self.details, self.labels.of_event::<F::Details>(&self.keys)];
        let moment = Moment { thread, at, name: &ty.span.event, details, flow };
        self.form.moment(&moment, out);
    }

    /// Takes a sample or a context switch. Returns `false` if the event has no stack, its ids
    /// cannot be expressed, or it remains an event.
    fn observe(&mut self, what: Observed, event: &Event<'_>, thread: usize, at: i64) -> bool {
        let known = &self.threads.known[thread];
        let process = known.process;
        if !F::has_samples_of(process, known.thread.os_thread_id) {
            return false;
        }
        match what {
            Observed::Running if self.make_room() => self.samples.take(event, process, at),
            Observed::Waiting if !F::HAS_WAITS => false,
            Observed::Waiting if self.make_room() => {
                let nanos = self.clock.length(stacks::ticks_waited(event)) as u64;
                self.samples.wait(event, process, nanos)
            }
            _ => {
                self.counts.samples += 1;
                true
            }
        }
    }

    /// Makes room for a sample. Returns `false` if there is none.
    fn make_room(&mut self) -> bool {
        if self.samples.bytes() < self.samples_limit {
            return true;
        }
        let is_possible = self.form.takes_samples_early();
        if is_possible {
            self.form.samples(&self.samples, &mut self.out);
            self.samples.clear();
        }
        is_possible
    }

    fn show_loss(&mut self, number: usize, lost: u64, at: i64) {
        let known = &mut self.threads.known[number];
        if lost > known.lost {
            let more = lost - known.lost;
            known.lost = lost;
            self.lost += more;
            let out = self.spans.at(number, at, &mut self.out);
            self.form.lost(Some(number), at, more, out);
        }
    }

    /// Writes the fields of an event, its level and its stack as details. A sample has its stack.
    fn read_details(&mut self, event: &Event<'_>, role: Role, ty: &EventType, is_sampled: bool) {
        let out = &mut self.details;
        out.clear();
        let mut ending = Ending::default();
        let walked = walk(event, |place, value| {
            ending.note(ty, place, &value);
            values::field::<F::Details>(out, &ty.keys[place], &value);
        });
        self.ending = ending;
        self.counts.payloads += u64::from(walked.is_err());
        if ty.keys.is_empty() && !event.payload.is_empty() {
            self.counts.undescribed += 1;
        }
        match self.labels.ids.overrides.level {
            None => out.extend_from_slice(&ty.level),
            Some(level) => {
                out.extend_from_slice(&types::level::<F::Details>(level, &self.keys.level))
            }
        }
        if event.header.stack_id != 0 && !is_sampled {
            // .NET states a stack for each event, often without addresses. To compare it with an
            // empty vector, whose address is not one of memory, takes some processors 70 ns.
            if let Some(stack) = event.stack().filter(|stack| !stack.bytes().is_empty()) {
                let process = event.thread().process_id.or(self.process);
                if stack.bytes() != self.stack.addresses || process != self.stack.process {
                    self.stack.process = process;
                    self.stack.read::<F::Details>(stack, &self.keys, &self.samples.symbols);
                }
                let is_end = matches!(role, Role::Stop | Role::Suspend);
                let Self { stack: CachedStack { of_event, of_end, .. }, .. } = self;
                self.details.extend_from_slice(if is_end { of_end } else { of_event });
            }
        }
    }
}

impl<F: Form, W: Write> Target for Timeline<F, W> {
    #[inline]
    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.read(event);
        if self.out.len() < BATCH { Ok(()) } else { self.write_out() }
    }

    fn finish(mut self: Box<Self>, totals: &Totals) -> io::Result<LeftOut> {
        let this = &mut *self;
        this.spans.finish(&mut this.form, &mut this.out);
        if totals.lost > this.lost {
            this.form.lost(None, this.latest, totals.lost - this.lost, &mut this.out);
        }
        this.form.samples(&this.samples, &mut this.out);
        let (sink, mut written) = (&mut this.sink, Ok(()));
        this.form.close(&mut this.out, &mut |out| {
            if out.len() >= BATCH {
                // After an error, the rest is dropped.
                if written.is_ok() {
                    written = sink.write_all(out);
                }
                out.clear();
            }
        });
        written?;
        this.write_out()?;
        this.sink.flush()?;
        let mut left_out = LeftOut::default();
        let counts = this.counts;
        left_out.add(this.spans.flows_left_out, "connections from spans to their children");
        left_out.add(counts.undescribed, "payloads whose fields the trace does not describe");
        left_out.add(counts.times, "times far from the start of the trace");
        for (count, what) in [
            (
                this.spans.given_up(),
                "spans that are events without duration, as too many were under way",
            ),
            (counts.payloads, "events' fields that cannot be decoded"),
            (counts.samples, "samples beyond the limit on memory"),
            (this.samples.symbols.left_out, "names of functions beyond the limit on memory"),
        ] {
            left_out.miss(count, what);
        }
        this.form.left_out(&mut left_out);
        Ok(left_out)
    }
}

impl CachedStack {
    fn read<D: Details>(&mut self, stack: Stack<'_>, keys: &Keys, symbols: &FrameNames) {
        stack.bytes().clone_into(&mut self.addresses);
        let name = |address| symbols.find(self.process, address).name(address);
        let names = symbols.knows_code().then(|| {
            Value::Array(stack.addresses().map(|it| Value::Text(name(it).into())).collect())
        });
        for (out, key) in [(&mut self.of_event, &keys.stack), (&mut self.of_end, &keys.end_stack)] {
            out.clear();
            match &names {
                Some(names) => D::value(out, key, names),
                None => D::addresses(out, key, stack.addresses()),
            }
        }
    }
}
