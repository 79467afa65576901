//! Threads, tasks, other tests and sessions.

use std::{sync::Barrier, thread, time::Duration};

use nettrace_reader::Reader;
use nettrace_writer::{
    Context, Emit, FutureExt as _, Label, Session, TraceEvent, TraceSpan, assert_event,
    assert_no_event, assert_span, enter_labels,
    event::SESSION_BITS,
    pattern,
    sink::MemorySink,
    testing::{self, Capture},
};
use testkit::process::alone;
use tokio::{
    runtime::Builder,
    task::{spawn, spawn_blocking},
};

use crate::{Request, Sold, check_out, texts::told};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn others_are_not_captured_and_lose_nothing() {
    let both = Barrier::new(2);
    thread::scope(|scope| {
        for own in [1, 2] {
            let both = &both;
            scope.spawn(move || {
                both.wait();
                let events = testing::capture();
                both.wait();
                (0..100).for_each(|_| Sold { cents: own }.emit());
                both.wait();
                assert_eq!(events.of::<Sold>().len(), 100);
                assert_eq!(events.find(&pattern!(event Sold { cents: own })).len(), 100);
            });
        }
        // A thread without a context.
        scope.spawn(|| (0..100).for_each(|_| Sold { cents: 3 }.emit()));
    });
}

#[test]
fn the_context_carries_it_to_threads_tasks_and_blocking_calls() {
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let events = testing::capture();
    runtime.block_on(async {
        let request = Request { route: "/" }.start();
        let work = |number| async move {
            tokio::task::yield_now().await;
            Sold { cents: number }.emit();
            let context = Context::current();
            let blocking = move || {
                let _scope = context.enter();
                Sold { cents: number + 100 }.emit();
            };
            spawn_blocking(blocking).await.unwrap();
        };
        let context = request.context();
        let tasks: Vec<_> =
            (0..20).map(|it| spawn(work(it).with_context(context.clone()))).collect();
        // A task that is given nothing.
        spawn(async { Sold { cents: 999 }.emit() }).await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        spawn(async { Sold { cents: 500 }.emit() }.in_span(Request { route: "task" }.start()))
            .await
            .unwrap();
    });
    // A pool that has threads before the capture begins.
    let (send, jobs) = std::sync::mpsc::channel::<(u64, Context)>();
    let pool = thread::spawn(move || {
        for (cents, context) in jobs {
            let _scope = context.enter();
            Sold { cents }.emit();
        }
        Sold { cents: 998 }.emit();
    });
    send.send((600, Context::current())).unwrap();
    drop(send);
    pool.join().unwrap();

    let mut sold: Vec<u64> = events.of::<Sold>().iter().map(|it| it.get("cents")).collect();
    sold.sort();
    let expected: Vec<_> = (0..20).chain(100..120).chain([500, 600]).collect();
    assert_eq!(sold, expected);
    let request = assert_span!(events, Request { route: "/", .. });
    assert_eq!(request.events().count(), 40);
    assert_eq!(events.sorted_snapshot().lines().count(), 44);
}

#[test]
fn what_comes_on_another_thread_is_waited_for() {
    let events = testing::capture();
    let context = Context::current();
    let thread = thread::spawn(move || {
        let _scope = context.enter();
        (0..100).for_each(|cents| Sold { cents }.emit());
    });
    events.wait_for(|events| events.of::<Sold>().len() == 100, LIMIT);
    thread.join().unwrap();
    events.clear();
    Sold { cents: 7 }.emit();
    let text = told(|| events.wait_for(|events| events.events().len() == 2, Duration::ZERO));
    assert_eq!(
        text,
        "what the test waits for has not come in 0ns (meanwhile this thread was blocked; if tasks \
         need it to go on, write `until(…).await`)\ncaptured: 1 event\n    Testing-Shop/Sold { \
         cents: 7 }"
    );
}

#[test]
fn a_task_is_waited_for_on_a_runtime_with_one_thread() {
    // Without a timer.
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let events = testing::capture();
        let work = async {
            for cents in 0..100 {
                Sold { cents }.emit();
                tokio::task::yield_now().await;
            }
        };
        let task = spawn(work.with_context(Context::current()));
        events.until(|events| events.of::<Sold>().len() >= 50, LIMIT).await;
        events.until(|events| events.of::<Sold>().len() == 100, LIMIT).await;
        events.until(|events| !events.events().is_empty(), Duration::ZERO).await;
        task.await.unwrap();

        // One that is dropped before it is over leaves the others alone.
        let mut asked = 0;
        let never = events.until(
            |_| {
                asked += 1;
                false
            },
            LIMIT,
        );
        tokio::select! {
            biased;
            () = never => unreachable!(),
            () = tokio::task::yield_now() => {}
        }
        assert!(asked >= 1);

        // From another thread.
        let context = Context::current();
        let thread = thread::spawn(move || {
            let _scope = context.enter();
            Sold { cents: 100 }.emit();
        });
        events.until(|events| events.of::<Sold>().len() == 101, LIMIT).await;
        thread.join().unwrap();
    });
}

#[test]
fn what_does_not_come_to_a_task_is_told() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let events = testing::capture();
    let limit = Duration::from_millis(10);
    let line = line!() + 1;
    let text = told(|| runtime.block_on(events.until(|_| false, limit)));
    let place = format!("{}:{line}:", file!());
    assert!(text.starts_with(&format!("what the test waits for at {place}")), "{text}");
    assert!(text.ends_with(" has not come in 10ms\ncaptured: nothing"), "{text}");
}

/// The rows of a trace: names, and which span each is in, by the order of spans.
fn rows(bytes: &[u8]) -> Vec<(String, Option<usize>, bool)> {
    let mut reader = Reader::new(bytes).unwrap();
    let (mut rows, mut spans) = (Vec::new(), Vec::new());
    while let Some(event) = reader.next_event().unwrap() {
        let labels = event.labels();
        let span = labels.iter().find_map(|label| match label {
            nettrace_reader::Label::SpanId(id) => Some(*id),
            _ => None,
        });
        let has_parent = labels
            .iter()
            .any(|label| matches!(label, nettrace_reader::Label::RelatedActivityId(_)));
        let span = span.map(|id| {
            spans.iter().position(|it| *it == id).unwrap_or_else(|| {
                spans.push(id);
                spans.len() - 1
            })
        });
        rows.push((event.metadata().name.to_string(), span, has_parent));
    }
    rows
}

#[test]
fn a_session_beside_it_records_what_it_would_record_without() {
    if !alone("others::a_session_beside_it_records_what_it_would_record_without") {
        return;
    }
    let work = || {
        Sold { cents: 1 }.emit();
        let _ = check_out(7);
        let labels = enter_labels(&[Label::Str("a", "b")]).unwrap();
        drop(Request { route: "/" }.enter());
        drop(labels);
        Sold { cents: 2 }.emit();
    };
    let record = |begin: fn() -> Option<Capture>| {
        let memory = MemorySink::new();
        let session = Session::builder().sink(memory.clone()).provider("Testing-Shop");
        let session = session.start().unwrap();
        work();
        let capture = begin();
        work();
        drop(capture);
        work();
        let stats = session.finish().unwrap();
        assert_eq!((stats.written, stats.dropped()), (3 * 9, 0));
        rows(&memory.bytes())
    };
    let without = record(|| None);
    assert_eq!(without.len(), 3 * 9);
    assert_eq!(record(|| Some(testing::capture())), without);
    // One that the capture began before, in whose slot another session was.
    let before = testing::capture();
    assert_eq!(record(|| None), without);
    assert_eq!(before.events().len(), 3 * 9);
}

#[cfg(feature = "metrics")]
#[test]
fn what_is_for_one_session_alone_is_not_captured() {
    use nettrace_writer::metrics::Reporter;

    let session = Session::builder().sink(MemorySink::new()).start().unwrap();
    let events = testing::capture();
    // The last interval is reported on this thread.
    Reporter::every(Duration::from_secs(1_000)).meter("Testing-None").start(&session).finish();
    assert_no_event!(events);
    assert!(session.finish().unwrap().written > 0);
}

#[test]
fn a_thousand_captures_at_once() {
    const MANY: usize = 1_000;
    let all = Barrier::new(MANY);
    thread::scope(|scope| {
        for number in 0..MANY as u64 {
            let all = &all;
            let test = move || {
                let events = testing::capture();
                all.wait();
                let _ = check_out(number);
                all.wait();
                assert_span!(events, "check_out" { cart: number, .. });
                assert_event!(events, Sold { cents: number * 100 });
                assert_eq!(events.events().len(), 5, "{events}");
            };
            thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, test).unwrap();
        }
    });
}

#[test]
fn nothing_is_left_when_the_last_one_ends() {
    if !alone("others::nothing_is_left_when_the_last_one_ends") {
        return;
    }
    let word = || Sold::event_types()[0].enabled();
    for _ in 0..3 {
        let start = || Session::builder().sink(MemorySink::new()).start();
        let events = testing::capture();
        Sold { cents: 1 }.emit();
        assert_ne!(word(), 0);
        let sessions: Vec<_> = (1..SESSION_BITS).map(|_| start().unwrap()).collect();
        assert!(start().is_err(), "all captures together have a place");
        let second = testing::capture();
        Sold { cents: 2 }.emit();
        assert_eq!((events.events().len(), second.events().len()), (2, 1));
        drop(sessions);
        drop((second, events));
        assert_eq!(word(), 0);
        assert!(Context::current().span_id().is_none());
        let sessions: Vec<_> = (0..SESSION_BITS).map(|_| start().unwrap()).collect();
        let text = told(|| drop(testing::capture()));
        assert!(text.starts_with("cannot capture events: "), "{text}");
        drop(sessions);
    }
}
