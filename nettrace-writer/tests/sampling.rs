//! The trees of spans that are recorded, events recorded in spite of sampling, and the counts.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    cell::Cell,
    fmt,
    future::poll_fn,
    pin::pin,
    task::{self, Poll, Waker},
    thread,
};

use nettrace_event::trace_context::{TraceContext, TraceFlags};
use nettrace_reader::Label as Read;
use nettrace_writer::{
    Context, Emit, EnteredSpan, FutureExt, Label, Origin, Parent, Sampling, Session, Span,
    SpanEvents, Stats, TraceEvent, TraceSpan,
    bridge::{KeptIds, SpanIds, Within},
    enter_labels,
    sink::MemorySink,
    traced,
};
use testkit::process::one_at_a_time;

use crate::trace_support::{check, memory, read};

#[derive(TraceSpan)]
#[trace_event(provider = "Sampling", later = [status: u32])]
struct Job {
    number: u64,
}

#[derive(TraceSpan)]
#[trace_event(provider = "Sampling", sample = self.sampling)]
struct Told {
    #[trace_event(skip)]
    sampling: Sampling,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sampling")]
struct Tick {
    number: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sampling", level = Error)]
struct Failed {
    number: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Sampling-Other")]
struct Other {
    number: u64,
}

const NEVER: Sampling = Sampling::never();

fn job(number: u64) -> Job {
    Job { number }
}

fn root(number: u64, sampling: Sampling) -> EnteredSpan<<Job as TraceSpan>::Events> {
    job(number).enter_sampled(Parent::None, Some(sampling))
}

fn ids(span: &Span<impl SpanEvents>) -> TraceContext {
    span.context().trace_context().unwrap()
}

/// The names of the events and the session's counts, which agree with the trace.
fn recorded(f: impl FnOnce()) -> (Vec<String>, Stats) {
    let (sink, session) = memory("Sampling");
    let session = session.start().unwrap();
    f();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    (read(&sink.bytes()).into_iter().map(|event| event.name).collect(), stats)
}

fn counts(stats: &Stats) -> [u64; 4] {
    let out = stats.sampled_out;
    [stats.attempted, stats.written, out.spans, out.events]
}

/// Polls a future that is always about to go on.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = task::Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

#[traced(provider = "Sampling", follows_from = cause)]
fn follower(cause: &Context) {}

#[traced(provider = "Sampling", follows_from = cause, sample = NEVER)]
fn left_out_follower(cause: &Context) {}

async fn yield_now() {
    let mut is_first = true;
    poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

#[traced(provider = "Sampling", sample = NEVER)]
fn left_out(number: u64) {
    Tick { number }.emit();
    inner(number);
}

#[traced(provider = "Sampling", fields = [number])]
fn inner(number: u64) {
    Tick { number }.emit();
}

#[traced(provider = "Sampling", sample = if number % 2 == 0 { Sampling::always() } else { NEVER })]
async fn every_other(number: u64) -> Result<(), fmt::Error> {
    yield_now().await;
    inner(number);
    inner_async(number).await
}

#[traced(provider = "Sampling", polls, err)]
async fn inner_async(number: u64) -> Result<(), fmt::Error> {
    yield_now().await;
    Tick { number }.emit();
    Err(fmt::Error)
}

#[test]
fn a_root_decides_for_what_is_within_it() {
    let _alone = one_at_a_time();
    let (names, stats) = recorded(|| {
        left_out(1);
        inner(2); // a root of its own
    });
    assert_eq!(names, ["inner/Start", "Tick", "inner/Stop"].map(of_call));
    assert_eq!(counts(&stats), [3, 3, 2, 2]);

    let (names, stats) = recorded(|| {
        (0..4).for_each(|number| {
            let _ = block_on(every_other(number));
        })
    });
    // Start and Stop of three spans, two ticks, and two resumes and suspends.
    assert_eq!(names.len(), 2 * (3 * 2 + 2 + 2 * 2), "{names:?}");
    assert_eq!(counts(&stats), [24, 24, 2 * 3, 2 * 2]);
}

#[test]
fn fields_of_a_span_that_is_left_out_are_not_made() {
    fn made(how_many: &Cell<u32>) -> u32 {
        how_many.set(how_many.get() + 1);
        how_many.get()
    }

    #[traced(provider = "Sampling", fields = [number: u32 = made(how_many)])]
    fn pair(how_many: &Cell<u32>) {}

    #[traced(provider = "Sampling", mode = single, fields = [number: u32 = made(how_many)])]
    fn single(how_many: &Cell<u32>) {}

    #[traced(provider = "Sampling", mode = single, fields = [number: u32 = made(how_many)])]
    async fn future(how_many: &Cell<u32>) {}

    let _alone = one_at_a_time();
    let how_many = Cell::new(0);
    let all = || {
        pair(&how_many);
        single(&how_many);
        block_on(future(&how_many));
    };
    let (names, stats) = recorded(|| {
        let _root = root(1, NEVER);
        all();
    });
    assert_eq!((names.len(), how_many.get()), (0, 0));
    // The spans are counted all the same.
    assert_eq!(counts(&stats), [0, 0, 4, 0]);
    let (names, _) = recorded(all);
    assert_eq!((names.len(), how_many.get()), (4, 3));
}

/// The name of an event of a traced function, without the opcode.
fn of_call(name: &str) -> String {
    name.replace('/', "")
}

#[test]
fn a_ratio_records_as_many_and_agrees_with_the_trace_id() {
    let _alone = one_at_a_time();
    const ROOTS: u64 = 4_000;
    let half = Sampling::ratio(0.5);
    let (sink, session) = memory("Sampling");
    let session = session.start().unwrap();
    for number in 0..ROOTS {
        let span = job(number).enter_sampled(Parent::None, Some(half));
        let id = Context::current().trace_id().unwrap().to_bytes();
        // The top bit of the last 56.
        assert_eq!(span.is_recorded(), id[9] & 0x80 != 0, "{id:x?}");
        Tick { number }.emit();
    }
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let [attempted, written, spans, events] = counts(&stats);
    assert_eq!((attempted, spans), (written, events));
    assert_eq!(written / 3 + spans, ROOTS);
    assert!(spans.abs_diff(ROOTS / 2) < ROOTS / 16, "{spans}");
}

#[test]
fn the_decision_travels_with_contexts_futures_and_threads() {
    let _alone = one_at_a_time();
    let (names, stats) = recorded(|| {
        let out = job(0).start_sampled(Parent::None, Some(NEVER));
        assert!(!out.is_recorded() && out.context().is_sampled_out());
        let context = out.context();
        assert!(!Context::current().is_sampled_out());
        let child = job(1).start_in(&context);
        thread::spawn(move || {
            let child = child.enter();
            Tick { number: 2 }.emit();
            drop(child);
            inner(3); // a root
        })
        .join()
        .unwrap();
        block_on(
            async {
                yield_now().await;
                Tick { number: 4 }.emit();
                inner(5);
            }
            .in_span(out),
        );
        let labelled = {
            let _scope = context.enter();
            let _labels = enter_labels(&[Label::Int("a", 1)]).unwrap();
            Tick { number: 6 }.emit();
            let span = job(7).enter();
            assert!(!span.is_recorded());
            Context::current()
        };
        Tick { number: 8 }.emit();
        block_on(async { Tick { number: 9 }.emit() }.with_context(labelled));
    });
    assert_eq!(names, ["innerStart", "Tick", "innerStop", "Tick"]);
    // Out: the jobs 0, 1 and 7 and `inner(5)`; the ticks 2, 4, that of `inner`, 6 and 9.
    assert_eq!(counts(&stats), [4, 4, 4, 5]);
}

#[test]
fn each_context_decides_for_itself() {
    let _alone = one_at_a_time();
    let (names, stats) = recorded(|| {
        let kept = job(0).start_sampled(Parent::None, Some(Sampling::always()));
        let outer = root(1, NEVER);
        {
            let _scope = kept.context().enter();
            Tick { number: 2 }.emit();
            // It has a parent, so nothing is left to decide.
            assert!(job(3).enter_sampled(Parent::Current, Some(NEVER)).is_recorded());
            {
                let _out = root(4, NEVER);
                Tick { number: 5 }.emit();
            }
            Tick { number: 6 }.emit();
        }
        Tick { number: 7 }.emit();
        // It has a parent too.
        let child = job(8).enter_sampled(Parent::Current, Some(Sampling::always()));
        assert!(!child.is_recorded());
        drop(child);
        {
            let _none = Context::none().enter();
            Tick { number: 9 }.emit();
        }
        // Another trace, whose root decides.
        let next = job(10).enter_sampled(Parent::FollowsFrom(&kept.context()), Some(NEVER));
        assert!(!next.is_recorded());
        drop((next, outer));
        Tick { number: 11 }.emit();
    });
    let ticks = names.iter().filter(|name| *name == "Tick").count();
    assert_eq!((ticks, names.len()), (4, 4 + 2 * 2));
    assert_eq!(counts(&stats), [8, 8, 4, 2]);
}

#[test]
fn the_flag_of_traceparent_comes_in_and_goes_out() {
    let _alone = one_at_a_time();
    let _session = Session::builder().sink(MemorySink::new()).provider("Sampling").start().unwrap();
    let caller = |flags| {
        let header = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        TraceContext::from_traceparent(&header).unwrap()
    };
    let follows = Sampling::caller().or(NEVER);
    let all = Some(Sampling::always());
    for (flags, sampling, is_recorded, passed_on) in [
        ("00", Some(follows), false, "00"),
        ("01", Some(follows), true, "01"),
        ("03", Some(follows), true, "03"),
        ("02", Some(follows), false, "02"),
        ("00", all, true, "01"),
        ("01", Some(NEVER), false, "00"),
        // Nothing is decided here.
        ("00", None, true, "00"),
        ("01", None, true, "01"),
    ] {
        let caller = caller(flags);
        let parent = Context::from(caller.clone());
        assert!(!parent.is_sampled_out());
        let span = job(1).start_sampled(Parent::Of(&parent), sampling);
        let in_force = {
            let _scope = parent.enter();
            job(1).start_sampled(Parent::Current, sampling)
        };
        for span in [&span, &in_force] {
            assert_eq!(span.is_recorded(), is_recorded, "{flags} {sampling:?}");
            let sent = ids(span);
            assert_eq!(sent.trace_id(), caller.trace_id());
            assert_eq!(&sent.to_traceparent()[53..], passed_on, "{flags} {sampling:?}");
            // Without a span of its own, it passes on the caller's.
            assert_eq!(sent.span_id() == caller.span_id(), !is_recorded);
            let child = job(2).start_in(&span.context());
            assert_eq!(child.is_recorded(), is_recorded);
            assert_eq!(&ids(&child).to_traceparent()[53..], passed_on);
        }
    }
    let without_caller = job(1).start_sampled(Parent::None, Some(follows));
    assert_eq!(ids(&without_caller).flags(), TraceFlags::RANDOM);
    let told = Told { sampling: NEVER }.start();
    assert!(!told.is_recorded());
    let told = Told { sampling: NEVER }.start_sampled(Parent::None, all);
    assert!(told.is_recorded(), "the argument counts in place of the key");
}

#[test]
fn errors_are_recorded_with_the_ids_in_force() {
    let _alone = one_at_a_time();
    let (sink, session) = memory("Sampling");
    let session = session.start().unwrap();
    let outer = root(1, NEVER);
    let ids = Context::current().trace_context().unwrap();
    Tick { number: 2 }.emit();
    Failed { number: 3 }.emit();
    Failed { number: 4 }.emit_with(&Origin::new().stack(&[16, 32]));
    // The buffer that an error went to must not take what is left out.
    Tick { number: 5 }.emit();
    Tick { number: 6 }.emit_with(&Origin::new().stack(&[16, 32]));
    let labels = enter_labels(&[Label::Int("a", 1)]).unwrap();
    Failed { number: 7 }.emit();
    Tick { number: 8 }.emit();
    drop((labels, outer));
    Tick { number: 9 }.emit();
    Failed { number: 10 }.emit();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    assert_eq!(counts(&stats), [5, 5, 1, 4]);
    let seen = read(&sink.bytes());
    let seen: Vec<_> = seen.iter().map(|event| (event.value(), event)).collect();
    assert_eq!(seen.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 4, 7, 9, 10]);
    for (number, event) in seen {
        let has = |label: Read| event.labels.contains(&label);
        let is_inside = number < 9;
        assert_eq!(has(Read::TraceId(ids.trace_id().to_bytes())), is_inside, "{number}");
        assert_eq!(has(Read::SpanId(ids.span_id().to_u64())), is_inside, "{number}");
        assert_eq!(has(Read::Int("a".into(), 1)), number == 7);
        assert_eq!(event.stack.len(), if number == 4 { 2 } else { 0 });
    }
}

#[test]
fn a_span_of_level_error_is_left_out_with_its_tree() {
    #[traced(provider = "Sampling", level = Error, sample = NEVER)]
    fn severe() {
        Tick { number: 1 }.emit();
    }
    let _alone = one_at_a_time();
    let (names, stats) = recorded(severe);
    assert_eq!((names.len(), counts(&stats)), (0, [0, 0, 1, 1]));
}

#[test]
fn each_session_counts_what_it_listens_to() {
    let _alone = one_at_a_time();
    let before = root(0, NEVER); // nobody listens: nothing is decided
    let (sink, both) = memory("Sampling");
    let both = both.provider("Sampling-Other").start().unwrap();
    Tick { number: 1 }.emit();
    drop(before);
    let outer = root(2, NEVER);
    Tick { number: 3 }.emit();
    Other { number: 4 }.emit();
    // A session that begins within the tree.
    let (other_sink, other) = memory("Sampling-Other");
    let other = other.start().unwrap();
    Tick { number: 5 }.emit();
    Other { number: 6 }.emit();
    thread::spawn(|| Other { number: 7 }.emit()).join().unwrap(); // in no tree
    let context = Context::current();
    thread::spawn(move || {
        let _scope = context.enter();
        Other { number: 8 }.emit(); // on a thread without a buffer
    })
    .join()
    .unwrap();
    assert_eq!(counts(&both.stats()), [2, 0, 1, 5]);
    let stats = both.finish().unwrap();
    check(&sink.bytes(), &stats);
    assert_eq!(counts(&stats), [2, 2, 1, 5]);
    // The other goes on within the tree, and a third one takes the first one's place.
    let (third_sink, third) = memory("Sampling");
    let third = third.start().unwrap();
    Tick { number: 9 }.emit();
    Other { number: 10 }.emit();
    drop(outer);
    Tick { number: 11 }.emit();
    Tick { number: 12 }.emit();
    let other = (other.finish().unwrap(), other_sink);
    let third = (third.finish().unwrap(), third_sink);
    assert_eq!(counts(&other.0), [1, 1, 0, 3]);
    assert_eq!(counts(&third.0), [2, 2, 0, 1]);
    for (stats, sink) in [other, third] {
        check(&sink.bytes(), &stats);
    }
}

#[test]
fn spans_of_another_library_are_left_out_with_the_tree() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Sampling", level = Error)]
    enum Foreign {
        #[trace_event(opcode = Start)]
        Start,
        #[trace_event(opcode = Stop)]
        Stop,
    }
    let _alone = one_at_a_time();
    let (names, stats) = recorded(|| {
        let outer = root(0, NEVER);
        let ids = SpanIds::new(Within::Current);
        ids.emit(&Foreign::Start);
        ids.emit(&Tick { number: 1 });
        assert!(ids.is_sampled_out());
        assert_eq!(Some(ids.span_id()), Context::current().span_id());
        drop(outer);
        assert!(ids.context().is_sampled_out());
        let kept = KeptIds::new();
        kept.keep(&ids);
        thread::spawn(move || {
            let entry = kept.enter().unwrap();
            let child = SpanIds::new(Within::Current);
            child.emit(&Tick { number: 2 });
            Foreign::Stop.emit();
            inner(3);
            entry.leave();
            assert!(child.is_sampled_out());
        })
        .join()
        .unwrap();
        let child = SpanIds::new(Within::Span(&ids));
        child.emit(&Tick { number: 4 });
        assert!(child.is_sampled_out());
        // One that a caller of another process has begun is open.
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        let caller = Context::from(TraceContext::from_traceparent(header).unwrap());
        let _scope = caller.enter();
        let kept = SpanIds::new(Within::Current);
        let entry = kept.enter();
        assert!(!kept.is_sampled_out());
        assert!(job(5).enter_sampled(Parent::Current, Some(NEVER)).is_recorded());
        entry.leave();
    });
    assert_eq!(names, ["JobStart", "JobStop"]);
    assert_eq!(counts(&stats), [2, 2, 3, 4]);
}

#[test]
fn what_is_emitted_in_the_middle_of_an_error_is_counted() {
    struct Telling;
    impl fmt::Display for Telling {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            Tick { number: 1 }.emit();
            f.write_str("told")
        }
    }
    #[derive(TraceEvent)]
    #[trace_event(provider = "Sampling", level = Critical)]
    struct Loud {
        #[trace_event(encoding = display)]
        text: Telling,
    }
    let _alone = one_at_a_time();
    let (names, stats) = recorded(|| {
        let _outer = root(0, NEVER);
        Loud { text: Telling }.emit();
    });
    assert_eq!((names, stats.drops.total()), (vec!["Loud".to_owned()], 0));
    let [attempted, written, spans, events] = counts(&stats);
    assert_eq!([attempted, written, spans], [1, 1, 1]);
    assert!(events >= 1, "as often as the text is made");
}

/// It begins a trace, for which its cause decides nothing.
#[test]
fn a_span_that_follows_from_one_that_is_left_out_is_recorded() {
    let _alone = one_at_a_time();
    let (sink, session) = memory("Sampling");
    let session = session.start().unwrap();
    let out = root(1, NEVER);
    let cause = Context::current();
    follower(&cause);
    left_out_follower(&cause);
    drop(out);
    let kept = root(2, Sampling::always());
    left_out_follower(&Context::current());
    drop(kept);
    let stats = session.finish().unwrap();
    let events = read(&sink.bytes());
    let names: Vec<_> = events.iter().map(|event| &*event.name).collect();
    assert_eq!(names, ["followerStart", "followerStop", "JobStart", "JobStop"]);
    assert_eq!(counts(&stats), [4, 4, 3, 0]);
    // Its label names a span that is in no trace.
    let cause = events[0].labels.iter().find_map(|label| match label {
        Read::RelatedActivityId(id) => Some(Read::ActivityId(*id)),
        _ => None,
    });
    let cause = cause.expect("a cause");
    assert!(!events.iter().any(|event| event.labels.contains(&cause)));
}

#[test]
fn threads_that_end_leave_their_counts() {
    let _alone = one_at_a_time();
    const THREADS: u64 = 8;
    const EACH: u64 = 1_000;
    let (_, stats) = recorded(|| {
        thread::scope(|scope| {
            for number in 0..THREADS {
                scope.spawn(move || {
                    // Every other thread has a buffer.
                    if number % 2 == 0 {
                        Tick { number }.emit();
                    }
                    for number in 0..EACH {
                        let _out = root(number, NEVER);
                        Tick { number }.emit();
                    }
                });
            }
        });
    });
    assert_eq!(counts(&stats), [THREADS / 2, THREADS / 2, THREADS * EACH, THREADS * EACH]);
}
