//! Spans: what is in the trace, and what the reference computes from it.
#![allow(clippy::disallowed_methods, reason = "the seam is for the library, not for its tests")]

mod span_support;

use std::thread;

use nettrace_writer::{Context, EnteredSpan, Parent, Session, TraceSpan, sink::FileSink};
use testkit::process::one_at_a_time;

use crate::span_support::judged::{Known, compare, path};

#[derive(TraceSpan)]
#[trace_event(provider = "Spans")]
struct Work {
    number: u64,
}

/// A span, which `known` gets.
fn work(number: u64, known: &Known) -> EnteredSpan<<Work as TraceSpan>::Events> {
    let parent = path(&Context::current());
    let span = Work { number }.enter();
    known.lock().insert((path(&Context::current()).expect("a span"), parent));
    span
}

#[test]
fn the_reference_computes_the_tree_of_spans() {
    let _alone = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spans.nettrace");
    let session = Session::builder().sink(FileSink::new(&path)).provider("Spans");
    let session = session.start().unwrap();
    let known = Known::default();
    {
        let _first = work(1, &known);
        drop(work(2, &known));
        let _third = work(3, &known);
        let context = Context::current();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _scope = context.enter();
                    (0..100).for_each(|number| drop(work(number, &known)));
                    let _spans: Vec<_> = (0..40).map(|number| work(number, &known)).collect();
                });
            }
        });
    }
    session.finish().unwrap();
    compare(&path, &known);
}

/// Of two traces that run on one thread, PerfView would show one in the other. It shows both in the
/// span that they follow from.
#[test]
fn the_reference_shows_what_follows_from_a_span_within_it() {
    let _alone = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("follows.nettrace");
    let session = Session::builder().sink(FileSink::new(&file)).provider("Spans");
    let session = session.start().unwrap();
    let known = Known::default();
    {
        let server = work(0, &known);
        let context = Context::current();
        let requests: Vec<_> = (1..10)
            .map(|number| {
                let request = Work { number }.start_with(Parent::FollowsFrom(&context));
                assert_ne!(request.context().trace_id(), context.trace_id());
                let path_of_request = path(&request.context()).expect("a span");
                known.lock().insert((path_of_request, path(&context)));
                request
            })
            .collect();
        drop(requests);
        drop(server);
    }
    session.finish().unwrap();
    compare(&file, &known);
}
