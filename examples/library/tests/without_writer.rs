//! An application that uses the library and no writer.

use std::{
    pin::pin,
    task::{self, Poll, Waker},
};

use library::{Pool, PoolEvent};
use nettrace_event::{TraceEvent, registry};
use nettrace_span::trace_context::TraceContext;
use nettrace_span::{Context, Label, enter_labels, traced};

#[test]
fn events_cost_nothing_and_nothing_breaks() {
    assert!(PoolEvent::is_any_enabled(), "the first events have yet to come");
    for _ in 0..3 {
        let mut pool = Pool::new("db-1");
        let connection = pool.acquire();
        pool.give_back(connection);
        let connection = pool.acquire();
        pool.give_back(connection);
        pool.close();
        assert!(PoolEvent::event_types().iter().all(|ty| ty.enabled() == 0));
        assert!(!PoolEvent::is_any_enabled());
    }
    assert_eq!(registry::types().count(), 0);
}

/// What is in force in a call.
#[traced(provider = "Example-Unheard", fields = [value: u64 = made()])]
fn sees() -> Context {
    Context::current()
}

/// A field of a span that begins.
fn made() -> u64 {
    panic!("no span begins")
}

#[test]
fn no_span_begins_and_contexts_go_on() {
    let connection = Pool::new("db-1").acquire();
    for _ in 0..3 {
        assert_eq!(connection.query("select").unwrap(), 6);
        assert!(connection.query("").is_err());
    }
    let labels = enter_labels(&[Label::Str("of", "nobody")]);
    assert!(labels.is_ok());

    // A context that somebody has sent is carried on.
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let caller = Context::from(TraceContext::from_traceparent(header).unwrap());
    let mut answer = pin!(connection.query_within(&caller).unwrap());
    let mut cx = task::Context::from_waker(Waker::noop());
    assert_eq!(answer.as_mut().poll(&mut cx), Poll::Ready(2));
    let _scope = caller.enter();
    assert_eq!(sees().trace_context().unwrap().to_traceparent().as_str(), header);
    assert_eq!(registry::types().count(), 0);
}
