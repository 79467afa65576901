//! Random programs of spans, labels, contexts and futures, on two threads, against a model: every
//! event has the labels that the model says were in force, and what sampling leaves out is counted.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    collections::BTreeMap,
    mem,
    pin::Pin,
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    task::{self, Poll, Waker},
    thread,
};

use nettrace_event::trace_context::{ActivityId, SpanId, TraceContext, TraceFlags, TraceId};
use nettrace_reader::Label as Read;
use nettrace_writer::{
    Context, ContextScope, Elapsed, Emit, End, EnteredSpan, FutureExt, Label, LabelScope, Outcome,
    Parent, Sampling, Session, Span, SpanEvents, TraceEvent, enter_labels, sink::MemorySink,
};
use parking_lot::Mutex;
use proptest::{collection::vec, prelude::*, sample::Index};
use testkit::{effort::all_or, process::one_at_a_time};

use crate::trace_support::read;

#[derive(TraceEvent)]
#[trace_event(provider = "Model", opcode = Start)]
struct WorkStart {
    number: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Model", opcode = Stop)]
struct WorkStop {
    number: u64,
    duration: Elapsed,
    outcome: Outcome,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Model")]
struct Tick {
    number: u64,
}

/// Recorded wherever it is.
#[derive(TraceEvent)]
#[trace_event(provider = "Model", level = Error)]
struct Failure {
    number: u64,
}

/// What is in force: the span with its parent and its trace, what is decided for it, and labels.
#[derive(Clone, Debug, Default, PartialEq)]
struct InForce {
    span: Option<(u64, Option<u64>, [u8; 16])>,
    /// `None`: the span is another process's.
    is_kept: Option<bool>,
    /// The flag of `traceparent`.
    is_sampled: bool,
    labels: BTreeMap<&'static str, i64>,
}

impl InForce {
    fn is_sampled_out(&self) -> bool {
        self.span.is_some() && self.is_kept == Some(false)
    }

    fn as_read(&self) -> Vec<String> {
        let activity = |span| {
            let span = SpanId::from_u64(span).unwrap();
            ActivityId::from_span_id(span, process::id()).to_bytes()
        };
        let mut labels = Vec::new();
        if let Some((span, parent, trace)) = self.span {
            labels.push(Read::ActivityId(activity(span)));
            labels.extend(parent.map(|parent| Read::RelatedActivityId(activity(parent))));
            labels.extend([Read::TraceId(trace), Read::SpanId(span)]);
        }
        let own = self.labels.iter();
        labels.extend(own.map(|(key, value)| Read::Int((*key).into(), *value)));
        sorted(&labels)
    }
}

fn sorted(labels: &[Read]) -> Vec<String> {
    let mut labels: Vec<_> = labels.iter().map(|label| format!("{label:?}")).collect();
    labels.sort();
    labels
}

/// What each event should have: by number, its name and what was in force. And how many Starts and
/// other events sampling should leave out.
#[derive(Debug, Default)]
struct Expected {
    next: AtomicU64,
    sampled_out: [AtomicU64; 2],
    events: Mutex<BTreeMap<u64, (&'static str, InForce)>>,
}

impl Expected {
    fn expect(&self, name: &'static str, in_force: &InForce) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if in_force.is_sampled_out() && name != "Failure" {
            let kind = usize::from(name != "WorkStart");
            self.sampled_out[kind].fetch_add(1, Ordering::Relaxed);
        } else {
            self.events.lock().insert(number, (name, in_force.clone()));
        }
        number
    }
}

/// The events of one span. The model learns of the Stop from here, because the test does not know
/// when a future stops.
struct Work {
    expected: Arc<Expected>,
    own: InForce,
}

impl SpanEvents for Work {
    fn stop(&mut self, end: &End) {
        let number = self.expected.expect("WorkStop", &self.own);
        WorkStop { number, duration: end.duration, outcome: end.outcome }.emit();
    }
}

/// What the test holds.
enum Guard {
    Span(EnteredSpan<Work>),
    Labels(LabelScope),
    Context(ContextScope),
}

/// A future that emits an event in each poll, and in its destructor if it is not ready.
struct Ticking {
    expected: Arc<Expected>,
    own: InForce,
    left: u8,
}

impl Future for Ticking {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<()> {
        Tick { number: self.expected.expect("Tick", &self.own) }.emit();
        // A scope that is forgotten in a poll must not outlive the poll.
        mem::forget(enter_labels(&[Label::Int("forgotten", 1)]).unwrap());
        self.left = self.left.saturating_sub(1);
        if self.left == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        // The destructor of a future that is ready runs after the span has ended.
        if self.left == 0 {
            return;
        }
        Tick { number: self.expected.expect("Tick", &self.own) }.emit();
    }
}

/// Where a span begins, and what decides whether it is recorded if it is a root.
#[derive(Clone, Copy, Debug)]
struct Place {
    is_root: bool,
    sampling: Option<Sampling>,
}

fn place() -> impl Strategy<Value = Place> {
    let sampling = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Sampling::always())),
        3 => Just(Some(Sampling::never())),
        2 => Just(Some(Sampling::caller().or(Sampling::never()))),
    ];
    (any::<bool>(), sampling).prop_map(|(is_root, sampling)| Place { is_root, sampling })
}

/// A step of a thread.
#[derive(Clone, Debug)]
enum Step {
    Emit,
    EmitFailure,
    EnterSpan(Place),
    EnterLabels(&'static str, i64),
    /// Enters one of the contexts that some thread has kept.
    EnterContext(Index),
    KeepContext,
    /// Drops a guard, whichever.
    Drop(Index),
    Forget(Index),
    /// Begins a future that is ready after so many polls: a span, or with the present context.
    Begin(Option<Place>, u8),
    Poll(Index),
    DropFuture(Index),
    /// Gives a future to the other thread.
    Send(Index),
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    prop_oneof![
        6 => Just(Step::Emit),
        2 => Just(Step::EmitFailure),
        5 => place().prop_map(Step::EnterSpan),
        3 => (prop_oneof![Just("a"), Just("b")], 0_i64..3)
            .prop_map(|(key, value)| Step::EnterLabels(key, value)),
        2 => index().prop_map(Step::EnterContext),
        2 => Just(Step::KeepContext),
        6 => index().prop_map(Step::Drop),
        1 => index().prop_map(Step::Forget),
        3 => (proptest::option::of(place()), 0_u8..4)
            .prop_map(|(span, polls)| Step::Begin(span, polls)),
        6 => index().prop_map(Step::Poll),
        1 => index().prop_map(Step::DropFuture),
        2 => index().prop_map(Step::Send),
    ]
}

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A thread of the program, and the model of it.
struct Thread {
    expected: Arc<Expected>,
    contexts: Arc<Mutex<Vec<(Context, InForce)>>>,
    /// Guards with the numbers of their frames.
    guards: Vec<(Guard, u64)>,
    frames: Vec<(u64, InForce)>,
    frame_numbers: u64,
    futures: Vec<BoxedFuture>,
    other: mpsc::Sender<BoxedFuture>,
    own: mpsc::Receiver<BoxedFuture>,
}

impl Thread {
    fn in_force(&self) -> InForce {
        self.frames.last().map(|frame| frame.1.clone()).unwrap_or_default()
    }

    fn push(&mut self, in_force: InForce) -> u64 {
        self.frame_numbers += 1;
        self.frames.push((self.frame_numbers, in_force));
        self.frame_numbers
    }

    /// Ends a frame. Those within it stay.
    fn end(&mut self, mut guard: Guard, number: u64) {
        let at = self.frames.iter().position(|frame| frame.0 == number).expect("it is in force");
        let (_, in_force) = self.frames.remove(at);
        if let Guard::Span(span) = &mut guard {
            span.own.labels = in_force.labels;
        }
        drop(guard);
    }

    /// The ids of a span that has begun here.
    fn child(&self, context: &Context, place: Place) -> InForce {
        let ids = context.trace_context().expect("a span");
        let (span, trace) = (ids.span_id().to_u64(), ids.trace_id().to_bytes());
        let outer = self.in_force();
        let parent = outer.span.filter(|_| !place.is_root);
        if let Some((_, _, of_parent)) = parent {
            assert_eq!(trace, of_parent, "one trace");
        }
        let caller = parent.map(|_| outer.is_sampled);
        let decided = place.sampling.map(|sampling| match caller {
            Some(caller) if sampling == Sampling::caller().or(Sampling::never()) => caller,
            _ => sampling == Sampling::always(),
        });
        let is_kept = outer.is_kept.filter(|_| parent.is_some()).or(decided).unwrap_or(true);
        let is_decided_here = parent.is_none() || outer.is_kept.is_none();
        let is_sampled = match caller {
            Some(caller) if !is_decided_here || decided.is_none() => caller,
            _ => is_kept,
        };
        assert_eq!((context.is_sampled_out(), ids.flags().is_sampled()), (!is_kept, is_sampled));
        let span = match parent {
            // It has no ids of its own.
            Some(parent) if !is_kept => {
                assert_eq!((parent.0, parent.2), (span, trace));
                parent
            }
            _ => (span, parent.map(|parent| parent.0), trace),
        };
        InForce { span: Some(span), is_kept: Some(is_kept), is_sampled, ..outer }
    }

    fn begin(&self, place: Place) -> Span<Work> {
        let parent = if place.is_root { Parent::None } else { Parent::Current };
        let events = Work { expected: Arc::clone(&self.expected), own: InForce::default() };
        let mut started = None;
        let mut span = Span::begin_sampled(events, parent, place.sampling, |_| {
            let own = self.child(&Context::current(), place);
            WorkStart { number: self.expected.expect("WorkStart", &own) }.emit();
            started = Some(own);
        });
        span.own = started.expect("it has started");
        span
    }

    fn run(&mut self, step: &Step) {
        while let Ok(future) = self.own.try_recv() {
            self.futures.push(future);
        }
        match step {
            Step::Emit => {
                let number = self.expected.expect("Tick", &self.in_force());
                Tick { number }.emit();
            }
            Step::EmitFailure => {
                let number = self.expected.expect("Failure", &self.in_force());
                Failure { number }.emit();
            }
            Step::EnterSpan(place) => {
                let span = self.begin(*place);
                assert_eq!(span.is_recorded(), !span.own.is_sampled_out());
                let number = self.push(span.own.clone());
                self.guards.push((Guard::Span(span.enter()), number));
            }
            Step::EnterLabels(key, value) => {
                let mut in_force = self.in_force();
                in_force.labels.insert(key, *value);
                let number = self.push(in_force);
                let scope = enter_labels(&[Label::Int(key, *value)]).unwrap();
                self.guards.push((Guard::Labels(scope), number));
            }
            Step::KeepContext => {
                self.contexts.lock().push((Context::current(), self.in_force()));
            }
            Step::EnterContext(which) => {
                let kept = self.contexts.lock();
                if kept.is_empty() {
                    return;
                }
                let (context, in_force) = which.get(&kept).clone();
                drop(kept);
                let number = self.push(in_force);
                self.guards.push((Guard::Context(context.enter()), number));
            }
            Step::Drop(which) | Step::Forget(which) if !self.guards.is_empty() => {
                let (guard, number) = self.guards.swap_remove(which.index(self.guards.len()));
                if matches!(step, Step::Forget(_)) {
                    return match guard {
                        Guard::Span(span) => mem::forget(span),
                        Guard::Labels(scope) => mem::forget(scope),
                        Guard::Context(scope) => mem::forget(scope),
                    };
                }
                self.end(guard, number);
            }
            Step::Begin(place, polls) => {
                let expected = Arc::clone(&self.expected);
                self.futures.push(if let Some(place) = place {
                    let span = self.begin(*place);
                    // The labels are those of the thread that polls. Here there are none.
                    if !span.own.labels.is_empty() {
                        return mem::forget(span);
                    }
                    let own = span.own.clone();
                    Box::pin(Ticking { expected, own, left: *polls }.in_span(span))
                } else {
                    let ticking = Ticking { expected, own: self.in_force(), left: *polls };
                    Box::pin(ticking.with_context(Context::current()))
                });
            }
            Step::Poll(which) if !self.futures.is_empty() && self.frames.is_empty() => {
                let at = which.index(self.futures.len());
                let mut cx = task::Context::from_waker(Waker::noop());
                if self.futures[at].as_mut().poll(&mut cx).is_ready() {
                    drop(self.futures.swap_remove(at));
                }
            }
            Step::DropFuture(which) if !self.futures.is_empty() && self.frames.is_empty() => {
                drop(self.futures.swap_remove(which.index(self.futures.len())));
            }
            Step::Send(which) if !self.futures.is_empty() => {
                let future = self.futures.swap_remove(which.index(self.futures.len()));
                if let Err(mpsc::SendError(future)) = self.other.send(future) {
                    self.futures.push(future); // the other thread has ended
                }
            }
            _ => {}
        }
    }
}

/// The context of a caller of another process, which has sampled its trace if the number is odd.
fn caller(number: u64) -> (Context, InForce) {
    let (trace, span) = ([number as u8; 16], SpanId::from_u64(number).unwrap());
    let is_sampled = number % 2 == 1;
    let flags = TraceFlags::RANDOM.with_sampled(is_sampled);
    let context = TraceContext::new(TraceId::from_bytes(trace).unwrap(), span, flags);
    let in_force = InForce { span: Some((number, None, trace)), is_sampled, ..InForce::default() };
    (context.into(), in_force)
}

fn check(programs: [Vec<Step>; 2]) {
    let sink = MemorySink::new();
    let session = Session::builder().sink(sink.clone()).provider("Model").start().unwrap();
    let expected = Arc::new(Expected::default());
    let contexts = Arc::new(Mutex::new([1, 2].map(caller).to_vec()));
    let [first, second] = [mpsc::channel(), mpsc::channel()];
    let ends = [(second.0, first.1), (first.0, second.1)];
    thread::scope(|scope| {
        for (program, (other, own)) in programs.into_iter().zip(ends) {
            let (expected, contexts) = (Arc::clone(&expected), Arc::clone(&contexts));
            scope.spawn(move || {
                let (guards, frames, futures) = (Vec::new(), Vec::new(), Vec::new());
                let frame_numbers = 0;
                let mut thread = Thread {
                    expected,
                    contexts,
                    guards,
                    frames,
                    frame_numbers,
                    futures,
                    other,
                    own,
                };
                program.iter().for_each(|step| thread.run(step));
                while let Some((guard, number)) = thread.guards.pop() {
                    thread.end(guard, number);
                }
                // What is forgotten may still be in force.
                let _none = Context::none().enter();
                drop(thread);
            });
        }
    });
    let stats = session.finish().unwrap();
    let events = expected.events.lock();
    assert_eq!((stats.written, stats.attempted), (events.len() as u64, stats.written));
    let sampled_out = expected.sampled_out.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!([stats.sampled_out.spans, stats.sampled_out.events], sampled_out);
    let seen = read(&sink.bytes());
    assert_eq!(seen.len(), events.len());
    for event in seen {
        let (name, in_force) = &events[&event.value()];
        assert_eq!(event.name, *name);
        assert_eq!(sorted(&event.labels), in_force.as_read(), "{name} {}", event.value());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: all_or(200, 50), ..ProptestConfig::default() })]

    #[test]
    fn every_event_has_the_labels_of_the_model(
        first in vec(step(), 0..80),
        second in vec(step(), 0..40),
    ) {
        let _alone = one_at_a_time();
        check([first, second]);
    }
}
