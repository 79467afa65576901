//! Spans in programs that treat them badly: guards that are forgotten, runtimes that end too early
//! or stand in one another, and futures that outlive their session.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod span_support;

use std::{
    collections::{HashMap, HashSet},
    future, mem,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{self, Waker},
    thread,
};

use nettrace_reader::{Label, Reader, verify};
use nettrace_writer::{
    Context, FutureExt, Label as Labelled, OnFull, Session, enter_labels, sink::MemorySink, traced,
};
use testkit::{
    allocations::{self, Counting},
    reference::judged,
};
use tokio::{
    runtime::Builder,
    task::{spawn, spawn_blocking, yield_now},
};

use crate::span_support::{Seen, inside, pending, seen};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[traced(provider = "Calls")]
fn work(f: impl FnOnce()) {
    f();
}

/// Forgets scopes of every kind.
fn forget(context: &Context) {
    mem::forget(enter_labels(&[Labelled::Int("forgotten", 1)]));
    mem::forget(context.enter());
    inside(1);
}

#[test]
fn scopes_that_polls_forget_again_and_again_take_no_more_memory() {
    let events = seen(|| {
        work(|| {
            let context = Context::current();
            let forgetful = future::poll_fn(|_| {
                for _ in 0..50 {
                    forget(&context);
                }
                task::Poll::<()>::Pending
            });
            let mut forgetful = pin!(forgetful.with_context(context.clone()));
            let mut round = || {
                let mut cx = task::Context::from_waker(Waker::noop());
                assert!(forgetful.as_mut().poll(&mut cx).is_pending());
            };
            round();
            // The poll ended, and they with it. So there is room for the next ones.
            assert_eq!(allocations::of(|| (0..20).for_each(|_| round())), 0);
            inside(2);
        });
        inside(3);
    });
    let spans: HashSet<_> = events[..events.len() - 1].iter().map(|event| event.span).collect();
    assert_eq!(spans.len(), 1, "all are in the one span");
    assert_eq!(events.len(), 21 * 50 + 4);
    let [.., inside, stop, after] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&*inside.text, &*stop.name, after.span), ("Inside(number=2)", "workStop", None));
}

/// The number of Starts, and the outcomes of Stops.
fn ends(events: &[Seen]) -> (usize, HashMap<&str, usize>) {
    let mut outcomes = HashMap::new();
    for event in events.iter().filter(|event| event.opcode == 2) {
        let (_, rest) = event.text.split_once("outcome=").expect(&event.text);
        *outcomes.entry(rest.split([',', ')']).next().unwrap()).or_insert(0) += 1;
    }
    (events.iter().filter(|event| event.opcode == 1).count(), outcomes)
}

#[traced(provider = "Calls")]
async fn never(begun: Arc<AtomicU64>) {
    begun.fetch_add(1, Ordering::Relaxed);
    inner().await;
}

#[traced(provider = "Calls")]
async fn inner() {
    future::pending().await
}

#[test]
fn a_runtime_that_is_shut_down_cancels_what_is_pending() {
    const TASKS: usize = 50;
    for threads in [0, 4] {
        let events = seen(|| {
            let mut builder = match threads {
                0 => Builder::new_current_thread(),
                _ => Builder::new_multi_thread(),
            };
            let runtime = builder.worker_threads(threads.max(1)).build().unwrap();
            runtime.block_on(async {
                let begun = Arc::new(AtomicU64::new(0));
                (0..TASKS).for_each(|_| drop(spawn(never(begun.clone()))));
                while begun.load(Ordering::Relaxed) < TASKS as u64 {
                    yield_now().await;
                }
            });
            drop(runtime);
        });
        let (starts, outcomes) = ends(&events);
        assert_eq!((starts, outcomes), (2 * TASKS, HashMap::from([("cancelled", 2 * TASKS)])));
        let spans: HashMap<_, _> =
            events.iter().map(|event| (event.activity, event.span)).collect();
        for event in events.iter().filter(|event| event.name.starts_with("inner")) {
            assert!(spans.contains_key(&event.activity), "{event:?}");
        }
    }
}

/// A task blocks its thread on a runtime of its own, whose task does so, too.
#[traced(provider = "Calls", fields = [depth])]
async fn nested(depth: u32) {
    yield_now().await;
    if depth > 0 {
        let context = Context::current();
        let blocking = spawn_blocking(move || {
            let _scope = context.enter();
            let runtime = Builder::new_current_thread().build().unwrap();
            runtime.block_on(nested(depth - 1));
            inside(depth);
        });
        blocking.await.unwrap();
    }
    inside(0);
}

#[test]
fn runtimes_within_runtimes_have_one_tree() {
    const DEPTH: u32 = 5;
    let events = seen(|| {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async { spawn(nested(DEPTH)).await.unwrap() });
    });
    let starts: Vec<_> = events.iter().filter(|event| event.opcode == 1).collect();
    assert_eq!(starts.len(), DEPTH as usize + 1);
    assert_eq!(starts[0].related, None);
    for pair in starts.windows(2) {
        assert_eq!((pair[1].related, pair[1].trace), (pair[0].activity, pair[0].trace));
    }
    for (start, depth) in starts.iter().zip((0..=DEPTH).rev()) {
        let own: Vec<_> = events.iter().filter(|event| event.span == start.span).collect();
        let texts: Vec<_> = own.iter().map(|event| &*event.text).collect();
        let blocked = format!("Inside(number={depth})");
        let start = format!("nestedStart(depth={depth})");
        let mut expected = vec![&*start, "Inside(number=0)"];
        if depth > 0 {
            expected.insert(1, &blocked);
        }
        assert_eq!(texts[..texts.len() - 1], expected);
        assert!(texts[texts.len() - 1].starts_with("nestedStop(outcome=ok"), "{texts:?}");
    }
}

#[traced(provider = "Calls")]
async fn long(turns: u32) {
    inside(10);
    pending(turns).await;
    inside(11);
}

#[test]
fn a_future_may_outlive_its_session() {
    let mut context = task::Context::from_waker(Waker::noop());
    let mut calls: Vec<_> = (0..3).map(|_| Box::pin(long(2))).collect();
    let mut polled = |call: &mut _| future_is_ready(call, &mut context);
    let first = seen(|| {
        for call in &mut calls {
            assert!(!polled(call));
        }
    });
    let (starts, outcomes) = ends(&first);
    assert_eq!((starts, outcomes.len()), (3, 0));
    // One is dropped, and one goes on, while nobody listens.
    span_support::unheard(|| {
        drop(calls.pop());
        assert!(!polled(&mut calls[1]));
    });
    // The others end in another session. It has a Stop of them with their ids, and no Start.
    let second = seen(|| {
        assert!(!polled(&mut calls[0]));
        for call in &mut calls {
            assert!(polled(call));
        }
    });
    let (starts, outcomes) = ends(&second);
    assert_eq!((starts, outcomes), (0, HashMap::from([("ok", 2)])));
    let known: HashSet<_> = first.iter().map(|event| (event.span, event.trace)).collect();
    assert!(second.iter().all(|event| known.contains(&(event.span, event.trace))), "{second:?}");
    assert_eq!(second.len(), 4, "{second:?}");
}

fn future_is_ready<F: Future + Unpin>(future: &mut F, context: &mut task::Context<'_>) -> bool {
    std::pin::Pin::new(future).poll(context).is_ready()
}

#[traced(provider = "Spans-Sessions", fields = [number])]
fn outer_call(number: u64, wait: impl FnOnce()) {
    inner_call(number);
    wait();
}

#[traced(provider = "Spans-Sessions", fields = [number])]
fn inner_call(number: u64) {
    std::hint::black_box(number);
}

#[traced(provider = "Spans-Sessions", fields = [number])]
async fn polled_call(number: u64) {
    yield_now().await;
    inner_call(number);
}

/// What a trace says of a span: how many Starts and Stops it has.
type Ends = HashMap<u64, (u32, u32)>;

fn spans_of(bytes: &[u8]) -> Ends {
    let mut reader = Reader::new(bytes).unwrap();
    let mut spans = Ends::new();
    while let Some(event) = reader.next_event().unwrap() {
        let labels = event.labels();
        let span = labels.iter().find_map(|label| match label {
            Label::SpanId(id) => Some(*id),
            _ => None,
        });
        let ends = spans.entry(span.expect("a span")).or_default();
        match event.opcode() {
            1 => ends.0 += 1,
            2 => ends.1 += 1,
            other => panic!("opcode {other}"),
        }
    }
    spans
}

#[test]
fn sessions_begin_and_end_while_spans_run() {
    const SESSIONS: usize = 300;
    const THREADS: u64 = 2;
    let is_over = Arc::new(AtomicBool::new(false));
    // Some calls of the first thread go on until they are released: how many began so far, and how
    // many may end.
    let (held, released) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut threads = Vec::new();
    for thread in 0..THREADS {
        let (is_over, held, released) = (is_over.clone(), held.clone(), released.clone());
        threads.push(thread::spawn(move || {
            let runtime = Builder::new_current_thread().build().unwrap();
            for number in (0..).map(|at| at * THREADS + thread) {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                outer_call(number, || {
                    if number % 32 != 0 {
                        return;
                    }
                    let own = held.fetch_add(1, Ordering::SeqCst) + 1;
                    while released.load(Ordering::SeqCst) < own && !is_over.load(Ordering::Relaxed)
                    {
                        thread::yield_now();
                    }
                });
                if number % 8 < THREADS {
                    runtime.block_on(polled_call(number).with_context(Context::none()));
                }
                // There is a processor for those that start and end sessions.
                thread::yield_now();
            }
        }));
    }
    let (mut whole, mut cut) = (0, 0);
    for at in 0..SESSIONS {
        let sink = MemorySink::new();
        let session = Session::builder().sink(sink.clone()).provider("Spans-Sessions");
        let session = session.on_full(OnFull::Block).budget(1 << 20).prefault(0).start().unwrap();
        if at % 50 == 0 {
            // The first of these calls may have begun before the session, the second did not. It
            // goes on when the session ends.
            let before = held.load(Ordering::SeqCst);
            for number in before..before + 2 {
                released.store(number, Ordering::SeqCst);
                while held.load(Ordering::SeqCst) == number {
                    thread::yield_now();
                }
            }
        }
        let stats = session.finish().unwrap();
        released.store(held.load(Ordering::SeqCst), Ordering::SeqCst);
        assert_eq!((stats.attempted, stats.dropped()), (stats.written, 0), "{stats:?}");
        let bytes = sink.bytes();
        let report = verify(&bytes[..]).unwrap();
        assert!(report.is_sound() && report.lost == 0, "{report:?}");
        assert_eq!(report.events, stats.written);
        if at % 100 == 0 {
            if let Some(verdict) = judged(&bytes) {
                verdict.assert_holds(report.events, 0);
            }
        }
        let spans = spans_of(&bytes);
        assert!(spans.values().all(|(starts, stops)| *starts <= 1 && *stops <= 1), "{spans:?}");
        let halves = spans.values().filter(|(starts, stops)| starts != stops).count();
        // Those that ran when the session began, and when it ended.
        assert!(halves <= THREADS as usize * 2 * 2, "{halves} of {} spans", spans.len());
        (whole, cut) = (whole + spans.len() - halves, cut + halves);
    }
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{whole} spans are whole, {cut} were cut by the begin or the end of a session");
    assert!(whole > SESSIONS / 2 && cut >= SESSIONS / 50, "{whole} and {cut}");
}
