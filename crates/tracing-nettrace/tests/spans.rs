//! Spans: what a reader sees of them, and which is whose parent.
#![allow(clippy::disallowed_methods, reason = "the seam is for the library, not for its tests")]

mod support;

use std::thread;

use nettrace_writer::{Label, TraceEvent, enter_labels, traced};
use testkit::process::one_at_a_time;
use tracing::{Instrument as _, Span, field::Empty, info, info_span, instrument};
use tracing_nettrace::Options;

use crate::support::{Way, both, message, named, only, record};

#[test]
fn a_span_has_a_start_and_a_stop_with_its_ids() {
    let work = || {
        let span = info_span!("checkout", cart = 17, user = Empty, total = Empty);
        span.record("user", "ann");
        for _ in 0..2 {
            span.in_scope(|| thread::sleep(std::time::Duration::from_millis(2)));
        }
        span.in_scope(|| info!("within"));
        thread::sleep(std::time::Duration::from_millis(2));
        span.record("total", 99_u64);
        drop(span);
        info!("outside");
    };
    both(&Options::new(), work, |way, events| {
        let start = only(events, "checkoutStart");
        let stop = only(events, "checkoutStop");
        assert_eq!((start.metadata.opcode, stop.metadata.opcode), (Some(1), Some(2)), "{way:?}");
        assert_eq!(start.shown(), "cart=17");
        assert!(start.span.is_some() && start.parent.is_none());
        for event in [stop, message(events, "within")] {
            assert_eq!((event.span, event.trace), (start.span, start.trace), "{way:?}");
        }
        let records: Vec<_> = named(events, "checkoutRecord")
            .iter()
            .map(|event| (event.shown(), event.span))
            .collect();
        let user = ("user=ann".to_owned(), start.span);
        assert_eq!(records, [user, ("total=99".to_owned(), start.span)]);
        assert_eq!((stop.field("outcome"), stop.field("polls")), ("ok", "3"));
        let [duration, busy, idle] = ["duration", "busy", "idle"].map(|name| stop.number(name));
        assert_eq!(duration, busy + idle, "{way:?}");
        assert!(busy >= 4_000_000 && idle >= 2_000_000, "{way:?}: {busy} {idle}");
        assert_eq!(message(events, "outside").span, None);
    });
}

#[test]
fn parents_are_those_that_tracing_knows() {
    let work = || {
        let outer = info_span!("outer");
        let other = info_span!("other");
        let _outer = outer.enter();
        let inner = info_span!("inner");
        info_span!(parent: &other, "explicit").in_scope(|| info!("in explicit"));
        info_span!(parent: None, "alone").in_scope(|| info!("in alone"));
        info!(parent: &other, "of other");
        info!(parent: None, "of none");
        inner.in_scope(|| {
            let _guard = Span::current().entered();
            info!("in inner");
        });
    };
    both(&Options::new(), work, |way, events| {
        let id = |name: &str| only(events, &format!("{name}Start")).span;
        let parent = |name: &str| only(events, &format!("{name}Start")).parent;
        assert_eq!(parent("outer"), None, "{way:?}");
        assert_eq!(parent("inner"), id("outer"));
        assert_eq!(parent("explicit"), id("other"));
        assert_eq!(parent("alone"), None);
        let trace = |name: &str| only(events, &format!("{name}Start")).trace;
        assert_eq!(trace("inner"), trace("outer"));
        assert_ne!(trace("alone"), trace("outer"));
        for (text, name) in
            [("in explicit", "explicit"), ("in alone", "alone"), ("in inner", "inner")]
        {
            assert_eq!(message(events, text).span, id(name), "{way:?} {text}");
        }
        assert_eq!(message(events, "of other").span, id("other"));
        assert_eq!(message(events, "of none").span, None);
    });
}

#[derive(TraceEvent)]
#[trace_event(provider = "Spans-Tests")]
struct Mark {
    number: u64,
}

#[traced(provider = "Spans-Tests")]
fn ours(number: u64) {
    use nettrace_writer::Emit as _;

    Mark { number }.emit();
    info_span!("theirs_within", number).in_scope(|| {
        Mark { number: number + 1 }.emit();
        if number < 10 {
            ours(number + 10);
        }
    });
    info!(number, "after");
}

#[test]
fn spans_of_both_kinds_are_parents_of_each_other() {
    let work = || info_span!("theirs").in_scope(|| ours(1));
    both(&Options::new(), work, |way, events| {
        let theirs = only(events, "theirsStart");
        let ours = named(events, "oursStart");
        let within = named(events, "theirs_withinStart");
        assert_eq!((ours.len(), within.len()), (2, 2), "{way:?}");
        assert_eq!(ours[0].parent, theirs.span, "{way:?}");
        assert_eq!(within[0].parent, ours[0].span);
        assert_eq!(ours[1].parent, within[0].span);
        assert_eq!(within[1].parent, ours[1].span);
        assert!(events.iter().all(|event| event.trace == theirs.trace));
        let marks: Vec<_> = named(events, "Mark").iter().map(|mark| mark.span).collect();
        assert_eq!(marks, [ours[0].span, within[0].span, ours[1].span, within[1].span]);
        let after: Vec<_> = events.iter().filter(|event| event.has("message")).collect();
        assert_eq!((after[0].span, after[1].span), (ours[1].span, ours[0].span), "{way:?}");
    });
}

#[test]
fn labels_of_the_thread_stay_in_force() {
    let work = || {
        let _labels = enter_labels(&[Label::Str("route", "/cart")]).unwrap();
        info_span!("labelled").in_scope(|| info!("within"));
    };
    both(&Options::new(), work, |way, events| {
        assert!(events.iter().all(|event| event.labels["route"] == "/cart"), "{way:?}");
        assert_eq!(message(events, "within").span, only(events, "labelledStart").span);
    });
}

/// Spans that are left in the order in which they were entered.
#[test]
fn spans_may_be_left_in_any_order() {
    let work = || {
        let (first, second) = (info_span!("first"), info_span!("second"));
        let a = first.enter();
        let b = second.enter();
        drop(a);
        info!("in second");
        drop(b);
        info!("in none");
        drop((first, second));
    };
    both(&Options::new(), work, |way, events| {
        let second = only(events, "secondStart");
        assert_eq!(second.parent, None, "{way:?}: made outside of the first");
        assert_eq!(message(events, "in second").span, second.span, "{way:?}");
        assert_eq!(message(events, "in none").span, None, "{way:?}");
        assert_eq!((only(events, "firstStop").field("polls"), events.len()), ("1", 6));
    });
}

#[test]
fn handles_go_to_other_threads() {
    let work = || {
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let span = info_span!("shared");
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let (span, dispatch) = (span.clone(), dispatch.clone());
                thread::spawn(move || {
                    tracing::dispatcher::with_default(&dispatch, || {
                        span.in_scope(|| info!(number, "on a thread"));
                        info_span!(parent: &span, "child").in_scope(|| ());
                    });
                    drop(span);
                })
            })
            .collect();
        drop(span);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    both(&Options::new(), work, |way, events| {
        let start = only(events, "sharedStart");
        assert_eq!(only(events, "sharedStop").field("polls"), "4", "{way:?}");
        let inside: Vec<_> = events.iter().filter(|event| event.has("number")).collect();
        assert_eq!(inside.len(), 4);
        assert!(inside.iter().all(|event| event.span == start.span), "{way:?}");
        let children = named(events, "childStart");
        assert_eq!(children.len(), 4);
        assert!(children.iter().all(|child| child.parent == start.span), "{way:?}");
    });
}

#[instrument(fields(later = Empty), err, ret)]
async fn pay(cents: u64) -> Result<u64, String> {
    Span::current().record("later", "x");
    async { info!("paying") }.instrument(info_span!("inner")).await;
    if cents == 0 { Err("nothing".into()) } else { Ok(cents) }
}

#[test]
fn instrumented_futures() {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    let work = || {
        let mut cx = Context::from_waker(Waker::noop());
        for cents in [0, 5] {
            assert!(matches!(pin!(pay(cents)).poll(&mut cx), Poll::Ready(_)));
        }
    };
    both(&Options::new().polls(true), work, |way, events| {
        let starts = named(events, "payStart");
        assert_eq!(starts.len(), 2, "{way:?}");
        assert_eq!(starts[1].shown(), "cents=5");
        let inner = named(events, "innerStart");
        assert_eq!(inner[0].parent, starts[0].span);
        let returned: Vec<_> = events.iter().filter(|event| event.has("return")).collect();
        assert_eq!((returned[0].field("return"), returned[0].span), ("5", starts[1].span));
        let failed: Vec<_> = events.iter().filter(|event| event.has("error")).collect();
        assert_eq!((failed[0].field("error"), failed[0].metadata.level), ("nothing", 2));
        assert_eq!(named(events, "payRecord").len(), 2);
        // Each is entered once more to be dropped.
        let resumes = named(events, "payResume");
        let suspends = named(events, "paySuspend");
        assert_eq!(resumes.len(), suspends.len());
        assert_eq!(resumes[0].metadata.opcode, Some(7));
        assert_eq!(suspends[0].metadata.opcode, Some(8));
        assert!(
            resumes
                .iter()
                .chain(&suspends)
                .all(|it| { it.span == starts[0].span || it.span == starts[1].span })
        );
    });
}

#[test]
fn a_span_that_unwinds_has_panicked() {
    let work = || {
        let panicked = std::panic::catch_unwind(|| {
            let _span = info_span!("unwinds").entered();
            panic!("on purpose");
        });
        assert!(panicked.is_err());
    };
    both(&Options::new(), work, |way, events| {
        assert_eq!(only(events, "unwindsStop").field("outcome"), "panicked", "{way:?}");
    });
}

/// Spans that are open when the session ends, and those that end after it.
#[test]
fn a_span_may_outlive_the_session() {
    for way in Way::BOTH {
        let dispatch = way.dispatch(Options::new());
        let mut span = None;
        let (events, _) = record(
            way,
            Options::new(),
            |session| session,
            || {
                tracing::dispatcher::with_default(&dispatch, || span = Some(info_span!("long")));
            },
        );
        assert_eq!((events.len(), events[0].name()), (1, "longStart"), "{way:?}");
        let _alone = one_at_a_time();
        tracing::dispatcher::with_default(&dispatch, || {
            span.as_ref().unwrap().in_scope(|| info!("nobody listens"));
            drop(span);
        });
    }
}

/// The reference reader computes the same tree.
#[test]
fn the_reference_computes_the_tree_of_spans() {
    let folder = tempfile::tempdir().unwrap();
    for way in Way::BOTH {
        let path = folder.path().join(format!("{way:?}.nettrace"));
        let alone = one_at_a_time();
        let session = nettrace_writer::Session::builder().file(&path).start().unwrap();
        tracing::dispatcher::with_default(&way.dispatch(Options::new()), || {
            info_span!("a").in_scope(|| {
                (0..50)
                    .for_each(|n| info_span!("b", n).in_scope(|| info_span!("c").in_scope(|| ())));
            });
        });
        assert_eq!(session.finish().unwrap().written, 2 * 101);
        drop(alone);
        let Some(found) = testkit::activities::of(&path) else { return };
        assert_eq!(found.complete_tree().len(), 101, "{way:?}");
        let parents = |task: &str| {
            let of_task = found.stopped.iter().filter(|it| it.task == task);
            let parents = of_task.map(|it| it.parent.as_deref().unwrap_or("-"));
            parents.map(|name| name[..1].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(parents("a"), ["-"], "{way:?}");
        assert_eq!((parents("b"), parents("c")), (vec!["a".into(); 50], vec!["b".into(); 50]));
    }
}

/// What a future that is ready at once returns.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

/// Whoever writes `#[instrument(err)]` finds the calls that failed.
#[test]
fn a_span_whose_call_returned_an_error_ends_so() {
    #[instrument(err)]
    fn parse(text: &str) -> Result<u32, std::num::ParseIntError> {
        Ok(text.parse::<u32>()? + 1)
    }

    #[instrument(ret, err(Debug, level = "warn"))]
    async fn parse_later(text: &str) -> Result<u32, std::num::ParseIntError> {
        parse(text)
    }

    /// Its own error is another one.
    #[instrument]
    fn recovers(text: &str) -> u32 {
        let number = parse(text);
        if let Err(error) = &number {
            tracing::error!(%error);
        }
        number.unwrap_or_default()
    }

    #[instrument(err)]
    fn panics() -> Result<u32, std::num::ParseIntError> {
        parse("x").map(|number| assert_eq!(number, 0)).unwrap();
        Ok(1)
    }

    let work = || {
        parse("1").unwrap();
        parse("x").unwrap_err();
        block_on(parse_later("2")).unwrap();
        block_on(parse_later("y")).unwrap_err();
        assert_eq!(recovers("z"), 0);
        std::panic::catch_unwind(panics).unwrap_err();
        // A row that was of a span that failed is one like any other.
        parse("3").unwrap();
    };
    both(&Options::new(), work, |way, events| {
        let stops = events.iter().filter_map(|event| {
            Some(format!("{} {}", event.name().strip_suffix("Stop")?, event.field("outcome")))
        });
        assert_eq!(
            stops.collect::<Vec<_>>(),
            [
                "parse ok",
                "parse err",
                "parse ok",
                "parse_later ok",
                "parse err",
                "parse_later err",
                "parse err",
                "recovers ok",
                "parse err",
                "panics panicked",
                "parse ok",
            ],
            "{way:?}"
        );
    });
}

#[test]
fn a_span_without_a_name_has_that_of_its_target() {
    let work = || info_span!("").in_scope(|| info!("within"));
    both(&Options::new(), work, |way, events| {
        let start = only(events, &format!("{}Start", module_path!()));
        let stop = only(events, &format!("{}Stop", module_path!()));
        assert_eq!((start.span, message(events, "within").span), (stop.span, stop.span), "{way:?}");
    });
}
