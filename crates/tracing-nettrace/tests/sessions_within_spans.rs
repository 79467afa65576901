//! Sessions that begin in the middle of a span, and spans that follow from others.

mod support;

use nettrace_writer::{OnFull, ProviderFilter, Session, sink::MemorySink};
use testkit::process::one_at_a_time;
use tracing::{Level, debug_span, info, info_span};
use tracing_nettrace::Options;

use crate::support::{Seen, Way, both, named, only, read};

struct Recording(Session, MemorySink);

impl Recording {
    fn start(filter: &str) -> Self {
        let memory = MemorySink::new();
        let filters = ProviderFilter::parse_list(filter).unwrap();
        let builder = Session::builder().sink(memory.clone()).providers(filters);
        Self(builder.on_full(OnFull::Block).start().unwrap(), memory)
    }

    fn finish(self) -> Vec<Seen> {
        assert_eq!(self.0.finish().unwrap().dropped(), 0);
        read(&self.1.bytes())
    }
}

fn names(events: &[Seen]) -> Vec<&str> {
    events.iter().map(Seen::name).collect()
}

fn is_late(event: &Seen) -> bool {
    event.key("nettrace.span") == Some("late")
}

#[test]
fn a_start_is_told_late_once() {
    let _alone = one_at_a_time();
    for way in Way::BOTH {
        tracing::dispatcher::with_default(&way.dispatch(Options::new()), || {
            let first = Recording::start("sessions_within_spans");
            let outer = info_span!("outer", n = 1).entered();
            let inner = info_span!("inner").entered();
            let other = info_span!(parent: None, "other");
            let second = Recording::start("sessions_within_spans");
            info!(name: "told", "within");
            info!(name: "told", "again");
            drop(inner);
            other.in_scope(|| ());
            other.in_scope(|| ());
            drop((other, outer));

            let all = first.finish();
            assert!(!all.iter().any(is_late), "{way:?}: {all:#?}");
            let late = second.finish();
            assert_eq!(
                names(&late),
                [
                    "outerStart",
                    "innerStart",
                    "told",
                    "told",
                    "innerStop",
                    "otherStart",
                    "otherStop",
                    "outerStop"
                ],
                "{way:?}"
            );
            for name in ["outerStart", "innerStart", "otherStart"] {
                let (early, late) = (only(&all, name), only(&late, name));
                assert!(is_late(late), "{way:?} {name}");
                assert_eq!(
                    (late.span, late.trace, late.parent),
                    (early.span, early.trace, early.parent)
                );
                assert_eq!(
                    (late.metadata.opcode, late.shown()),
                    (Some(1), format!("age={}", late.number("age")))
                );
                let stop = only(&all, &name.replace("Start", "Stop"));
                assert!(late.number("age") <= stop.number("duration"), "{way:?} {name}");
            }
        });
    }
}

/// The session's slot is that of one that was told and has ended.
#[test]
fn a_session_in_a_used_slot_is_told() {
    let _alone = one_at_a_time();
    for way in Way::BOTH {
        tracing::dispatcher::with_default(&way.dispatch(Options::new()), || {
            let first = Recording::start("sessions_within_spans");
            let span = info_span!("long");
            drop(first.finish());
            let second = Recording::start("sessions_within_spans");
            drop(span);
            assert_eq!(names(&second.finish()), ["longStart", "longStop"], "{way:?}");
        });
    }
}

#[test]
fn a_session_with_new_filters_is_told() {
    let _alone = one_at_a_time();
    for way in Way::BOTH {
        tracing::dispatcher::with_default(&way.dispatch(Options::new()), || {
            let first = Recording::start("sessions_within_spans");
            let second = Recording::start("elsewhere");
            let span = info_span!("long");
            second.0.set_providers(["sessions_within_spans"]).unwrap();
            drop(span);
            assert_eq!(names(&second.finish()), ["longStart", "longStop"], "{way:?}");
            assert_eq!(names(&first.finish()), ["longStart", "longStop"], "{way:?}");
        });
    }
}

#[test]
fn spans_are_kept_if_asked_for() {
    let _alone = one_at_a_time();
    for way in Way::BOTH {
        let options = Options::new().keep_spans(Level::INFO);
        tracing::dispatcher::with_default(&way.dispatch(options), || {
            let outer = info_span!("kept", n = 1).entered();
            let lower = debug_span!("too low").entered();
            let inner = info_span!("inside").entered();
            info!("nobody listens");
            let session = Recording::start("sessions_within_spans");
            drop((inner, lower, outer));
            let events = session.finish();
            assert_eq!(names(&events), ["insideStart", "insideStop", "keptStart", "keptStop"]);
            let (kept, inside) = (only(&events, "keptStart"), only(&events, "insideStart"));
            assert!(is_late(kept) && is_late(inside), "{way:?}");
            assert_eq!((inside.parent, kept.parent), (kept.span, None), "{way:?}");
        });
    }
}

#[test]
fn a_span_follows_from_another() {
    let work = || {
        let (cause, effect) = (info_span!("cause"), info_span!("effect"));
        effect.follows_from(&cause);
        effect.follows_from(tracing::Id::from_u64(1 << 40));
    };
    both(&Options::new(), work, |way, events| {
        let (cause, effect) = (only(events, "causeStart"), only(events, "effectStart"));
        let follows = named(events, "effectFollows");
        assert_eq!((follows.len(), follows[0].span), (1, effect.span), "{way:?}");
        assert_eq!(follows[0].field("span"), format!("{:016x}", cause.span.unwrap()));
        let trace: String = cause.trace.unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(follows[0].field("trace"), trace, "{way:?}");
    });
}
