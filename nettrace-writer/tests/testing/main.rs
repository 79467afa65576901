//! Captures of tests: see `nettrace_writer::testing`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests start threads")]

#[cfg(target_os = "linux")]
mod forked;
mod others;
mod redacted;
mod secrets;
mod texts;
mod values;

use std::thread;

use nettrace_event::trace_context::TraceContext;
use nettrace_writer::{
    Context, Emit, Label, Parent, Sampling, Session, TraceEvent, TraceSpan, assert_event,
    assert_no_event, assert_span, enter_labels, pattern,
    sink::MemorySink,
    testing::{self, Value, that},
    traced,
};

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Shop")]
struct Answered<'a> {
    url: &'a str,
    status: u16,
    micros: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Shop")]
struct Sold {
    cents: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Jobs")]
enum Job {
    Started { id: u32 },
    Restarted { id: u32, attempt: u8 },
    Ended,
}

#[derive(TraceSpan)]
#[trace_event(provider = "Testing-Shop", later = [status: u16])]
struct Request<'a> {
    route: &'a str,
}

#[traced(provider = "Testing-Shop", fields = [cart], err)]
fn check_out(cart: u64) -> Result<u64, std::fmt::Error> {
    Sold { cents: cart * 100 }.emit();
    pay(cart);
    if cart > 7 { Err(std::fmt::Error) } else { Ok(cart) }
}

#[traced(provider = "Testing-Shop", mode = single, fields = [cart])]
fn pay(cart: u64) {
    Sold { cents: cart }.emit();
}

#[test]
fn an_event_is_found_by_its_fields() {
    let events = testing::capture();
    assert_no_event!(events);
    Answered { url: "/cart", status: 404, micros: 7 }.emit();
    Answered { url: "/cart", status: 200, micros: 180 }.emit();
    let found = assert_event!(events, Answered { status: 200, url: "/cart", .. });
    assert_eq!(found.get::<u64>("micros"), 180);
    assert_eq!(found.get::<String>("url"), "/cart");
    assert_eq!((found.name(), found.provider()), ("Answered", "Testing-Shop"));
    assert_event!(events, Answered { url: "/cart", status: 400..500, micros: 0..=7 });
    assert_event!(events, "Answered" { status: 200, "micros": that(|it| *it != Value::None), .. });
    assert_event!(events, "Testing-Shop/Answered");
    assert_event!(events, Answered);
    assert_no_event!(events, Answered { status: 500.., .. });
    assert_no_event!(events, "Testing-Jobs/Answered");
    assert_no_event!(events, Sold);
    assert_eq!(events.of::<Answered<'_>>().len(), 2);
    assert_eq!(events.find(&pattern!(event Answered { status: 404, .. })).len(), 1);
    events.clear();
    assert_no_event!(events);
}

#[test]
fn variants_are_events() {
    let events = testing::capture();
    Job::Restarted { id: 4, attempt: 1 }.emit();
    assert_no_event!(events, Job::Started { id: 4 });
    Job::Started { id: 4 }.emit();
    Job::Ended.emit();
    assert_event!(events, Job::Started { id: 4 });
    assert_event!(events, Job::Restarted { attempt: 1, .. });
    assert_event!(events, Job::Ended);
    assert_eq!(events.of::<Job>().len(), 3);
    // A variant that another path names.
    use Job::Restarted;
    assert_no_event!(events, Restarted { id: 5, .. });
}

#[test]
fn spans_are_trees() {
    let events = testing::capture();
    let mut request = Request { route: "/cart" }.enter();
    let _ = (check_out(3), check_out(8));
    request.record_status(500);
    let labels = enter_labels(&[Label::Str("customer", "c1"), Label::Int("attempt", -2)]).unwrap();
    Job::Ended.emit();
    drop(labels);
    Job::Started { id: 1 }.emit();
    assert_eq!(events.spans()[0].outcome(), None, "it is open");
    drop(request);
    let expected = "\
Request { route: \"/cart\", status: 500 } -> ok
  check_out { cart: 3, err: None } -> ok
    Sold { cents: 300 }
    pay { cart: 3 } -> ok
      Sold { cents: 3 }
  check_out { cart: 8, err: \"an error occurred when formatting an argument\" } -> err
    Sold { cents: 800 }
    pay { cart: 8 } -> ok
      Sold { cents: 8 }
  JobEnded with { customer: \"c1\", attempt: -2 }
  JobStarted { id: 1 }
";
    assert_eq!(events.snapshot(), expected);
    let [request] = &events.spans()[..] else { panic!("one tree: {events}") };
    assert_eq!((request.get::<u16>("status"), request.outcome()), (500, Some("ok")));
    assert_eq!(request.children().count(), 2);
    assert_eq!(
        request.events().map(|it| it.name()).collect::<Vec<_>>(),
        ["JobEnded", "JobStarted"]
    );
    assert_eq!(request.events().next().unwrap().label("attempt"), Some(&Value::Int(-2)));

    assert_span!(events, Request { route: "/cart", "status": 500, .. });
    assert_span!(events, "check_out" { cart: 8, outcome: "err", .. });
    let within = pattern!(span "pay" { cart: 3, .. }).within("check_out");
    assert_eq!(events.find_spans(&within).len(), 1);
    assert_eq!(events.find_spans(&pattern!(span "check_out").within("pay")).len(), 0);
    assert_eq!(events.find(&pattern!(event Sold { cents: 3 }).within("check_out")).len(), 1);
    assert_eq!(events.find(&pattern!(event Sold { cents: 300 }).within("pay")).len(), 0);
}

/// The roots of what is captured may begin in any way.
#[test]
fn a_span_that_begins_a_trace_belongs_to_the_capture() {
    let events = testing::capture();
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let caller = Context::from(TraceContext::from_traceparent(header).unwrap());
    drop(Request { route: "none" }.start_with(Parent::None));
    drop(Request { route: "follows" }.start_with(Parent::FollowsFrom(&caller)));
    drop(Request { route: "caller" }.start_in(&caller));
    {
        let _scope = Context::none().enter();
        drop(Request { route: "in none" }.enter());
    }
    let span = Request { route: "sent" }.start_with(Parent::None);
    let context = span.context();
    thread::spawn(move || {
        drop(Request { route: "elsewhere" }.start_in(&context));
        let _labels = context.with_labels(&[Label::Str("a", "b")]).unwrap().enter();
        Sold { cents: 1 }.emit();
    })
    .join()
    .unwrap();
    drop(span);
    let expected = "\
Request { route: \"none\", status: None } -> ok
Request { route: \"follows\", status: None } -> ok
Request { route: \"caller\", status: None } -> ok
Request { route: \"in none\", status: None } -> ok
Request { route: \"sent\", status: None } -> ok
  Request { route: \"elsewhere\", status: None } -> ok
  Sold { cents: 1 } with { a: \"b\" }
";
    assert_eq!(events.snapshot(), expected);
}

/// It belongs to no capture, and the thread that enters it to one.
#[test]
fn a_span_that_began_before_hides_nothing() {
    let session = Session::builder().sink(MemorySink::new()).start().unwrap();
    let (span, context) = (Request { route: "before" }.start(), Context::current());
    assert!(span.is_recorded());
    let events = testing::capture();
    let span = span.enter();
    Sold { cents: 1 }.emit();
    let _labels = enter_labels(&[Label::Int("a", 1)]).unwrap();
    Sold { cents: 2 }.emit();
    let scope = context.enter();
    Sold { cents: 3 }.emit();
    drop((scope, span));
    let expected = "\
Request { status: None } -> ok
  Sold { cents: 1 }
  Sold { cents: 2 } with { a: 1 }
Sold { cents: 3 }
";
    assert_eq!(events.snapshot(), expected);
    session.finish().unwrap();
}

#[derive(TraceSpan)]
#[trace_event(provider = "Testing-Shop", sample = Sampling::never())]
struct Rare;

#[test]
fn a_root_is_recorded_whatever_its_sampling_says() {
    // Somebody listens, so that the span decides.
    let session = Session::builder().sink(MemorySink::new()).start().unwrap();
    let outside = Rare.enter();
    assert!(!outside.is_recorded());
    let events = testing::capture();
    Sold { cents: 1 }.emit();
    assert_no_event!(events);
    drop((events, outside));

    let events = testing::capture();
    let rare = Rare.enter();
    assert!(rare.is_recorded());
    Sold { cents: 2 }.emit();
    drop(rare);
    assert_eq!(events.snapshot(), "Rare -> ok\n  Sold { cents: 2 }\n");
    session.finish().unwrap();
}

#[test]
fn captures_may_end_in_any_order() {
    let outer = testing::capture();
    let middle = testing::capture();
    let inner = testing::capture();
    Sold { cents: 1 }.emit();
    drop(middle);
    Sold { cents: 2 }.emit();
    assert_eq!((inner.events().len(), outer.events().len()), (2, 2));
    drop(outer);
    Sold { cents: 3 }.emit();
    assert_eq!(inner.events().len(), 3);
    drop(inner);
    Sold { cents: 4 }.emit();
    let next = testing::capture();
    Sold { cents: 5 }.emit();
    assert_eq!(next.events().len(), 1);
}

#[test]
fn a_capture_within_a_capture_takes_nothing_from_it() {
    let outer = testing::capture();
    Sold { cents: 1 }.emit();
    let inner = testing::capture();
    Sold { cents: 2 }.emit();
    assert_eq!((inner.events().len(), outer.events().len()), (1, 2));
    drop(inner);
    Sold { cents: 3 }.emit();
    assert_eq!(outer.events().len(), 3);
}
