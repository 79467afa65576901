//! Many threads, and spans that go from one to another.

use std::{
    collections::BTreeMap,
    sync::{Barrier, mpsc},
    thread,
};

use tracing::{Span, dispatcher::with_default, info, info_span};

use crate::support::{BOTH, Recorded, Way, record};

fn named(number: usize) -> thread::Builder {
    thread::Builder::new().name(format!("t{number}"))
}

/// Each thread makes spans, and gives each to the next thread, which ends it.
#[test]
fn sixty_four_threads() {
    const THREADS: usize = 64;
    const SPANS: u64 = 50;
    for way in BOTH {
        let dispatch = way.dispatch();
        let ((), recorded) = record(|| {
            let (mut senders, mut receivers) = (Vec::new(), Vec::new());
            for _ in 0..THREADS {
                let (send, receive) = mpsc::channel::<(u64, Span)>();
                senders.push(send);
                receivers.push(receive);
            }
            senders.rotate_left(1);
            let start = Barrier::new(THREADS);
            thread::scope(|scope| {
                for (number, (send, receive)) in senders.into_iter().zip(receivers).enumerate() {
                    let (dispatch, start) = (&dispatch, &start);
                    let work = move || {
                        with_default(dispatch, || {
                            start.wait();
                            for span in 0..SPANS {
                                let id = number as u64 * SPANS + span;
                                let outer = info_span!("outer", id);
                                outer.in_scope(|| {
                                    info_span!("inner", id).in_scope(|| info!(id, at = "home"));
                                });
                                // A clone is with each of the two threads at once.
                                send.send((id, outer.clone())).unwrap();
                                let (other, received) = receive.recv().unwrap();
                                received.in_scope(|| info!(id = other, at = "away"));
                                drop(outer);
                                drop(received);
                            }
                        });
                    };
                    named(number).spawn_scoped(scope, work).unwrap();
                }
            });
        });
        assert_trees(way, &recorded, THREADS as u64 * SPANS);
    }
}

fn assert_trees(way: Way, recorded: &Recorded, count: u64) {
    let mut outer = BTreeMap::new();
    for (id, span) in &recorded.spans {
        if span.name == "outer" {
            assert_eq!(span.parent, None);
            assert!(outer.insert(span.fields["id"].clone(), *id).is_none(), "{span:?}");
        }
        assert!(span.stopped_on.is_some(), "{span:?}");
    }
    assert_eq!(outer.len() as u64, count, "{way:?}");
    assert_eq!(recorded.spans.len() as u64, 2 * count);
    for span in recorded.spans.values().filter(|span| span.name == "inner") {
        assert_eq!(span.parent, Some(outer[&span.fields["id"]]));
    }
    let (mut home, mut away) = (0, 0);
    for event in recorded.plain() {
        let span = &recorded.spans[&event.span.unwrap()];
        assert_eq!(span.fields["id"], event.field("id"));
        if event.field("at") == "home" {
            assert_eq!(span.name, "inner");
            assert_eq!(span.started_on, event.thread);
            home += 1;
        } else {
            assert_eq!(span.name, "outer");
            assert_ne!(span.started_on, event.thread);
            away += 1;
        }
    }
    assert_eq!((home, away), (count, count));
}

/// The only subscriber of the process is in force on one thread, and a session begins on another.
#[test]
fn a_session_that_begins_elsewhere() {
    for round in 0..3_u64 {
        for way in BOTH {
            let dispatch = way.dispatch();
            let ((), recorded) = record(|| with_default(&dispatch, || info!(round, "seen")));
            assert_eq!(recorded.plain().count(), 1, "{way:?} in round {round}");
        }
    }
}

/// As in tests that run side by side: each thread has a subscriber of its own.
#[test]
fn a_subscriber_on_each_thread() {
    const THREADS: usize = 8;
    for way in BOTH {
        let ((), recorded) = record(|| {
            thread::scope(|scope| {
                for number in 0..THREADS {
                    let work = move || {
                        for round in 0..20_u64 {
                            // Made and given up again and again, while others do the same.
                            with_default(&way.dispatch(), || {
                                let thread = number as u64;
                                let _span = info_span!("of_thread", thread, round).entered();
                                info_span!("below").in_scope(|| info!(thread, round));
                            });
                            // Nobody listens here.
                            info!(thread = "none");
                        }
                    };
                    named(number).spawn_scoped(scope, work).unwrap();
                }
            });
        });
        assert_eq!(recorded.plain().count(), THREADS * 20, "{way:?}");
        assert_eq!(recorded.spans.len(), THREADS * 20 * 2);
        for event in recorded.plain() {
            let below = &recorded.spans[&event.span.unwrap()];
            let above = &recorded.spans[&below.parent.unwrap()];
            assert_eq!((&*below.name, &*above.name), ("below", "of_thread"));
            assert_eq!(above.fields["thread"], event.field("thread"));
            assert_eq!(above.fields["round"], event.field("round"));
            assert_eq!(event.thread, format!("t{}", &event.field("thread")[4..]));
            assert_eq!(
                (&above.started_on, above.stopped_on.as_ref()),
                (&event.thread, Some(&event.thread))
            );
        }
    }
}
