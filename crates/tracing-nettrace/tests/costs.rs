//! Allocations: nothing, once a thread and a callsite are warm.

mod support;

use nettrace_reader::verify;
use nettrace_writer::{OnFull, Session, sink::MemorySink};
use testkit::{
    allocations::{self, Counting},
    effort::left_out,
    process::one_at_a_time,
};
use tracing::{info, info_span};
use tracing_core::Dispatch;
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
    if left_out() {
        return;
    }
    let _alone = one_at_a_time();
    // Another test of this program has some refused.
    let refused = tracing_nettrace::stats().spans_refused;
    for way in Way::BOTH {
        let session = start();
        tracing::dispatcher::with_default(&way.dispatch(Options::new()), || {
            // More than the first level of the table has.
            let open = || (0..1_000).map(|n| info_span!("open", n)).collect::<Vec<_>>();
            (0..50).for_each(|_| drop(open()));
            let before = allocations::held();
            for _ in 0..200 {
                // They end in another order.
                let mut spans = open();
                while !spans.is_empty() {
                    spans.swap_remove(spans.len() * 7 / 11);
                }
            }
            let held = allocations::held() - before;
            // An empty map may keep a node.
            assert!(held < 64 << 10, "{way:?}: {held}");
        });
        assert_eq!(session.finish().unwrap().dropped(), 0);
        assert_eq!(tracing_nettrace::stats().spans_refused, refused);
    }
}

/// Bytes that so many open spans hold: while they are open, and after they have ended.
fn held_by(count: usize, dispatch: Dispatch) -> (i64, i64) {
    let mut spans = Vec::with_capacity(count);
    tracing::dispatcher::with_default(&dispatch, || {
        let before = allocations::held();
        spans.extend((0..count).map(|n| info_span!("open", n)));
        let open = allocations::held() - before;
        // They end in another order.
        while !spans.is_empty() {
            spans.swap_remove(spans.len() * 7 / 11);
        }
        (open, allocations::held() - before)
    })
}

/// What the registry takes for its own part of a span is not counted.
#[test]
fn open_spans_take_few_bytes_and_give_them_back() {
    const COUNT: usize = 100_000;
    let _alone = one_at_a_time();
    for way in Way::BOTH {
        let builder = Session::builder().file("/dev/null").on_full(OnFull::Block);
        let session = builder.provider("costs").start().unwrap();
        let others = match way {
            Way::Layer => held_by(COUNT, Dispatch::new(tracing_subscriber::registry())),
            Way::Subscriber => (0, 0),
        };
        let held = held_by(COUNT, way.dispatch(Options::new()));
        let (open, ended) = (held.0 - others.0, held.1 - others.1);
        println!("{way:?}: {} bytes a span, {ended} bytes stay", open / COUNT as i64);
        assert!(open / (COUNT as i64) < 216, "{way:?}: {open} bytes of {COUNT} spans");
        assert!(ended < 256 << 10, "{way:?}: {ended} bytes stay");
        assert_eq!(session.finish().unwrap().written, 2 * COUNT as u64);
    }
}

#[test]
fn spans_beyond_the_bound_are_refused_and_counted() {
    const COUNT: u64 = 2_000;
    let _alone = one_at_a_time();
    for way in Way::BOTH {
        let memory = MemorySink::new();
        let builder = Session::builder().sink(memory.clone()).on_full(OnFull::Block);
        let session = builder.provider("costs").start().unwrap();
        let before = tracing_nettrace::stats();
        let options = Options::new().span_memory((64 << 10) + 100 * 216);
        tracing::dispatcher::with_default(&way.dispatch(options), || {
            for _ in 0..2 {
                let open: Vec<_> = (0..COUNT).map(|n| info_span!("open", n)).collect();
                for span in &open {
                    span.in_scope(|| info!("inside"));
                }
            }
        });
        let (stats, now) = (session.finish().unwrap(), tracing_nettrace::stats());
        let refused = now.spans_refused - before.spans_refused;
        // The second time there is room for as many as the first time, or nearly: which of the
        // first rows a span finds depends on its id.
        let kept = 2 * COUNT - refused;
        assert!((200..=2 * 356).contains(&kept), "{way:?}: {kept}");
        assert_eq!(now.events_refused - before.events_refused, 2 * refused, "{way:?}");
        assert_eq!(stats.attempted, 3 * 2 * COUNT, "{way:?}");
        assert_eq!((stats.dropped(), stats.drops.too_large), (2 * refused, 2 * refused));
        let bytes = memory.bytes();
        let events = support::read(&bytes);
        let count = |name| support::named(&events, name).len() as u64;
        assert_eq!((count("openStart"), count("openStop")), (kept, kept), "{way:?}");
        // What happens in a span that was refused is in no span.
        let inside: Vec<_> = events.iter().filter(|event| event.has("message")).collect();
        assert_eq!(inside.len() as u64, 2 * COUNT, "{way:?}");
        assert_eq!(inside.iter().filter(|event| event.span.is_some()).count() as u64, kept);
        let report = verify(&bytes[..]).unwrap();
        assert!(report.is_sound(), "{way:?}: {:?}", report.violations);
        assert_eq!(report.lost, 2 * refused, "{way:?}: the trace tells of each");
    }
}
