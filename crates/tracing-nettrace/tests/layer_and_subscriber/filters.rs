//! Filters of `tracing-subscriber` around our layer.

use std::cell::Cell;

use tracing::{
    Dispatch, Level, Metadata, debug, debug_span, dispatcher::with_default, info, info_span,
    level_filters::LevelFilter, subscriber::Interest,
};
use tracing_subscriber::{
    filter::{dynamic_filter_fn, filter_fn},
    layer::{Context, Filter, Layer, SubscriberExt as _},
    registry, reload,
};

use crate::support::record;

thread_local! {
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
}

/// A filter that never says always or never.
struct Sometimes;

impl<S> Filter<S> for Sometimes {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        IS_OPEN.get()
    }

    fn callsite_enabled(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
}

#[test]
fn interest_sometimes() {
    // As a filter of our layer, as a dynamic filter, and as a layer for all.
    struct ForAll;
    impl<S: tracing::Subscriber> Layer<S> for ForAll {
        fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
            Interest::sometimes()
        }
        fn enabled(&self, _: &Metadata<'_>, _: Context<'_, S>) -> bool {
            IS_OPEN.get()
        }
    }
    let dynamic = dynamic_filter_fn(|_, _| IS_OPEN.get());
    for dispatch in [
        Dispatch::new(registry().with(tracing_nettrace::layer().with_filter(Sometimes))),
        Dispatch::new(registry().with(tracing_nettrace::layer().with_filter(dynamic))),
        Dispatch::new(registry().with(tracing_nettrace::layer()).with(ForAll)),
    ] {
        let ((), recorded) = record(|| {
            with_default(&dispatch, || {
                for number in 0..20_u64 {
                    IS_OPEN.set(number % 3 == 0);
                    info_span!("sometimes", number).in_scope(|| info!(number));
                }
            });
        });
        let numbers: Vec<_> = recorded.plain().map(|event| event.field("number")).collect();
        let expected = ["u64 0", "u64 3", "u64 6", "u64 9", "u64 12", "u64 15", "u64 18"];
        assert_eq!(numbers, expected);
        assert_eq!(recorded.spans.len(), expected.len());
        for event in recorded.plain() {
            assert_eq!(
                recorded.spans[&event.span.unwrap()].fields["number"],
                event.field("number")
            );
        }
    }
}

/// A span that our layer does not see is not there: what is inside has the next one as its parent.
#[test]
fn filters_of_one_layer() {
    struct Other;
    impl<S: tracing::Subscriber> Layer<S> for Other {}

    let no_debug = |metadata: &Metadata<'_>| *metadata.level() <= Level::INFO;
    let ours = tracing_nettrace::layer().with_filter(filter_fn(no_debug));
    let dispatch = Dispatch::new(registry().with(Other.with_filter(LevelFilter::TRACE)).with(ours));
    let ((), recorded) = record(|| {
        with_default(&dispatch, || {
            let _outer = info_span!("outer").entered();
            let _hidden = debug_span!("hidden").entered();
            info!(at = "hidden");
            debug!(at = "hidden, too");
            let inner = info_span!("inner");
            let also_hidden = debug_span!(parent: &inner, "also_hidden");
            also_hidden.in_scope(|| info!(at = "also hidden"));
            info_span!(parent: &also_hidden, "below").in_scope(|| info!(at = "below"));
            inner.in_scope(|| info!(at = "inner"));
        });
    });
    assert_eq!(recorded.plain().count(), 4, "{:#?}", recorded.events);
    let scope = |at| recorded.scope(recorded.only("at", at));
    assert_eq!(scope("hidden"), ["outer"]);
    // The next one that the thread has entered, as for `fmt`.
    assert_eq!(scope("also hidden"), ["outer"]);
    assert_eq!(scope("below"), ["below", "inner", "outer"]);
    assert_eq!(scope("inner"), ["inner", "outer"]);
    assert_eq!(recorded.spans.len(), 3);
}

#[test]
fn filters_that_are_reloaded() {
    let (filter, handle) = reload::Layer::new(LevelFilter::INFO);
    let ours = tracing_nettrace::layer().with_filter(filter);
    let dispatch = Dispatch::new(registry().with(ours));
    let ((), recorded) = record(|| {
        with_default(&dispatch, || {
            let emit = |at: &str| {
                info!(at);
                debug!(at, is_debug = true);
            };
            emit("info");
            let outer = info_span!("outer").entered();
            handle.reload(LevelFilter::OFF).unwrap();
            emit("off");
            // Begins while nothing is recorded. It ends while something is.
            let unseen = info_span!("unseen").entered();
            handle.reload(LevelFilter::DEBUG).unwrap();
            info_span!("seen").in_scope(|| emit("debug"));
            drop(unseen);
            drop(outer);
            emit("after");
        });
    });
    let found: Vec<_> = recorded
        .plain()
        .map(|event| {
            let is_debug = event.fields.contains_key("is_debug");
            (event.field("at"), is_debug, recorded.scope(event))
        })
        .collect();
    let expected = [
        ("info", false, vec![]),
        ("debug", false, vec!["seen", "outer"]),
        ("debug", true, vec!["seen", "outer"]),
        ("after", false, vec![]),
        ("after", true, vec![]),
    ];
    assert_eq!(found, expected);
    assert_eq!(recorded.spans.len(), 2);
    assert!(recorded.spans.values().all(|span| span.stopped_on.is_some()));
}

/// Our layer itself is taken out. Spans that it has begun have no end then.
#[test]
fn a_layer_that_is_taken_out() {
    let (layer, handle) = reload::Layer::new(Some(tracing_nettrace::layer()));
    let dispatch = Dispatch::new(registry().with(layer));
    let ((), recorded) = record(|| {
        with_default(&dispatch, || {
            let outer = info_span!("outer").entered();
            info!(at = "inside");
            handle.reload(None).unwrap();
            info!(at = "after");
            drop(outer);
        });
    });
    let found: Vec<_> = recorded.plain().map(|event| event.field("at")).collect();
    assert_eq!(found, ["inside"]);
    assert_eq!(recorded.scope(recorded.only("at", "inside")), ["outer"]);
    assert!(recorded.spans.values().all(|span| span.stopped_on.is_none()));
}
