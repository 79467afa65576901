//! What is allocated: nothing, once a thread and a callsite are warm.

mod support;

use nettrace_writer::{Session, sink::MemorySink};
use testkit::{
    allocations::{self, Counting},
    process::one_at_a_time,
};
use tracing::{info, info_span};
use tracing_nettrace::Options;

use crate::support::Way;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn work(n: u64) {
    info!(n, m = n + 1, "two numbers");
    let span = info_span!("span", n, text = "some text", later = tracing::field::Empty);
    span.record("later", n);
    let clone = span.clone();
    span.in_scope(|| {
        info!(debug = ?(n, "x"), "{n} of {}", 17);
        info_span!(parent: &clone, "inner").in_scope(|| ());
        info_span!(parent: None, "alone").in_scope(|| ());
    });
    drop(clone);
}

/// A session with room for everything, however slow the machine is.
fn start() -> Session {
    let builder = Session::builder().sink(MemorySink::new()).provider("costs");
    builder.budget(512 << 20).start().unwrap()
}

#[test]
fn nothing_is_allocated_once_warm() {
    let _alone = one_at_a_time();
    assert_eq!(allocations::of(|| drop(std::hint::black_box(Box::new(1)))), 1, "the count counts");
    for way in Way::BOTH {
        let session = start();
        tracing::dispatcher::with_default(&way.dispatch(Options::new().polls(true)), || {
            (0..2_000).for_each(work);
            let count = allocations::of(|| (0..1_000).for_each(work));
            assert_eq!(count, 0, "{way:?}");
        });
        assert_eq!(session.finish().unwrap().dropped(), 0, "{way:?}");
        // Nobody listens.
        tracing::dispatcher::with_default(&way.dispatch(Options::new()), || {
            work(0);
            assert_eq!(allocations::of(|| (0..1_000).for_each(work)), 0, "{way:?}");
        });
    }
}

/// Spans that come and go for ever take no more memory than those that are open at once.
#[test]
fn rows_are_used_again() {
    let _alone = one_at_a_time();
    for way in Way::BOTH {
        let session = start();
        tracing::dispatcher::with_default(&way.dispatch(Options::new()), || {
            // More than the first level of the table has.
            let open = || (0..1_000).map(|n| info_span!("open", n)).collect::<Vec<_>>();
            (0..50).for_each(|_| drop(open()));
            let count = allocations::of(|| {
                for _ in 0..200 {
                    // They end in another order.
                    let mut spans = open();
                    while !spans.is_empty() {
                        spans.swap_remove(spans.len() * 7 / 11);
                    }
                }
            });
            // The vectors. Now and then a span may be the first with no room in a level.
            assert!(count <= 200 + 4, "{way:?}: {count}");
        });
        assert_eq!(session.finish().unwrap().dropped(), 0);
        assert_eq!(tracing_nettrace::stats().spans_refused, 0);
    }
}
