//! Spans of async functions on a runtime of four threads: what the reference computes of them.
#![allow(clippy::disallowed_methods, reason = "the seam is for the library, not for its tests")]

mod span_support;

use std::{collections::BTreeMap, fs, future, panic, path::Path, sync::Arc};

use nettrace_reader::{Reader, Value};
use nettrace_writer::{Context, FutureExt, Session, sink::FileSink, traced};
use tokio::task::{spawn, spawn_blocking, yield_now};

use crate::span_support::judged::{Known, compare, path};

const REQUESTS: u32 = 200;
const DEPTH: u32 = 40;

/// What all calls know.
#[derive(Clone, Default)]
struct Shared(Arc<Known>);

/// The path of the span in force.
type Here = Option<String>;

fn here() -> Here {
    path(&Context::current())
}

impl Shared {
    /// Says that the span in force was called in `caller`.
    fn called(&self, caller: Here) {
        assert!(self.0.lock().insert((here().expect("a span"), caller)), "an id was given twice");
    }
}

#[traced(provider = "Spans-Tokio", fields = [number])]
async fn request(number: u32, shared: &Shared, caller: Here) -> Result<(), String> {
    shared.called(caller);
    let spawned = spawn(Box::pin(leaf(3, shared.clone(), here())).with_context(Context::current()));
    let (own, own_shared) = (Context::current(), shared.clone());
    let blocking = spawn_blocking(move || {
        let _scope = own.enter();
        blocking(&own_shared, here());
        drop(compute(5, &own_shared, here()));
    });
    tokio::join!(leaf(1, shared.clone(), here()), leaf(2, shared.clone(), here()));
    tokio::select! {
        biased;
        () = loser(shared, here()) => unreachable!("it is never ready"),
        () = leaf(4, shared.clone(), here()) => {}
    }
    let in_force = here();
    let panicking = spawn(panicking(shared.clone(), here()).with_context(Context::current()));
    assert!(panicking.await.unwrap_err().is_panic());
    recurse(DEPTH, shared, here()).await;
    spawned.await.unwrap();
    blocking.await.unwrap();
    assert_eq!(here(), in_force);
    if number % 10 == 0 { Err("on purpose".to_owned()) } else { Ok(()) }
}

#[traced(provider = "Spans-Tokio", fields = [turns])]
async fn leaf(turns: u32, shared: Shared, caller: Here) {
    let own = here();
    shared.called(caller);
    for _ in 0..turns {
        yield_now().await;
        assert_eq!(here(), own);
    }
}

#[traced(provider = "Spans-Tokio", polls)]
async fn loser(shared: &Shared, caller: Here) {
    shared.called(caller);
    leaf(1, shared.clone(), here()).await;
    future::pending().await
}

#[traced(provider = "Spans-Tokio")]
async fn panicking(shared: Shared, caller: Here) {
    shared.called(caller);
    yield_now().await;
    panic::resume_unwind(Box::new("on purpose"));
}

#[traced(provider = "Spans-Tokio", fields = [depth])]
async fn recurse(depth: u32, shared: &Shared, caller: Here) {
    shared.called(caller);
    if depth > 1 {
        Box::pin(recurse(depth - 1, shared, here())).await;
    } else {
        yield_now().await;
    }
}

#[traced(provider = "Spans-Tokio")]
fn blocking(shared: &Shared, caller: Here) {
    shared.called(caller);
}

#[traced(provider = "Spans-Tokio", ret, err)]
fn compute(depth: u32, shared: &Shared, caller: Here) -> Result<u32, String> {
    shared.called(caller);
    if depth == 0 {
        return Err("too deep".to_owned());
    }
    Ok(compute(depth - 1, shared, here())? + 1)
}

/// The reference takes spans of two traces for one another's, so that all are in one.
#[traced(provider = "Spans-Tokio")]
async fn serve(shared: Shared) {
    shared.called(None);
    let requests: Vec<_> = (0..REQUESTS)
        .map(|number| {
            let (shared, caller) = (shared.clone(), here());
            let request = async move { request(number, &shared, caller).await };
            spawn(request.with_context(Context::current()))
        })
        .collect();
    for (number, request) in (0..).zip(requests) {
        assert_eq!(request.await.unwrap().is_err(), number % 10 == 0);
    }
}

/// How many Stops of each name have each outcome; and how many Starts, Resumes and Suspends.
fn counts(trace: &Path) -> BTreeMap<String, u32> {
    let mut reader = Reader::new(fs::File::open(trace).unwrap()).unwrap();
    let mut counts = BTreeMap::new();
    while let Some(event) = reader.next_event().unwrap() {
        let name = event.metadata().name.clone();
        let outcome = event.fields().map(Result::unwrap).find(|(name, _)| *name == "outcome");
        let what = match outcome {
            Some((_, Value::Text(outcome))) => format!("{name} {outcome}"),
            _ => name,
        };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

#[test]
fn the_reference_computes_the_calls_of_a_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokio.nettrace");
    let session = Session::builder().sink(FileSink::new(&file)).provider("Spans-Tokio");
    let session = session.start().unwrap();
    let shared = Shared::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async { spawn(serve(shared.clone())).await.unwrap() });
    drop(runtime);
    let stats = session.finish().unwrap();
    assert_eq!(stats.attempted, stats.written);

    let counts = counts(&file);
    let expected = [
        ("blockingStart", 1),
        ("blockingStop ok", 1),
        ("computeStart", 6),
        ("computeStop err", 6),
        ("leafStart", 5),
        ("leafStop ok", 5),
        ("loserStart", 1),
        ("loserStop cancelled", 1),
        ("panickingStart", 1),
        ("panickingStop panicked", 1),
        ("recurseStart", DEPTH),
        ("recurseStop ok", DEPTH),
        ("requestStart", 1),
    ];
    for (what, each) in expected {
        assert_eq!(counts.get(what), Some(&(each * REQUESTS)), "{what}: {counts:?}");
    }
    assert_eq!(counts["requestStop err"], REQUESTS / 10);
    assert_eq!(counts["requestStop ok"], REQUESTS - REQUESTS / 10);
    assert_eq!(counts["loserResume"], counts["loserSuspend"]);
    compare(&file, &shared.0);
}
