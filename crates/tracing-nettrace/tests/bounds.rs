//! Types beyond a bound are counted, and take nothing from others. One test, because the bounds are
//! those of the process.

mod support;

use nettrace_reader::Options as ReadOptions;
use nettrace_writer::{OnFull, ProviderFilter, Session, sink::MemorySink};
use tracing::{info, info_span};
use tracing_nettrace::Options;

use crate::support::{Way, named, read};

fn start() -> (MemorySink, Session) {
    let memory = MemorySink::new();
    let builder = Session::builder().sink(memory.clone()).on_full(OnFull::Block);
    (memory, builder.start().unwrap())
}

/// How many events a trace says are missing.
fn missing(bytes: &[u8]) -> u64 {
    let mut reader = ReadOptions::default().open(bytes).unwrap();
    while reader.next_event().unwrap().is_some() {}
    reader.totals().lost
}

/// An event for each combination of optional fields, from one callsite, within a span.
fn combinations(fields: u32) {
    for bits in 0_u32..1 << fields {
        let has = |at: u32| (bits >> at & 1 == 1).then_some(at);
        let span = info_span!("optional", a = has(0), b = has(1), c = has(2), d = has(3));
        span.in_scope(|| {
            let (e, f, g, h) = (has(4), has(5), has(6), has(7));
            let (i, j, k, l) = (has(8), has(9), has(10), has(11));
            info!(a = has(0), b = has(1), c = has(2), d = has(3), e, f, g, h, i, j, k, l, "x");
        });
    }
}

#[test]
fn what_exceeds_a_bound_is_counted_and_takes_nothing_from_others() {
    let _alone = testkit::process::one_at_a_time();
    Options::new().logger().install().unwrap();
    let dispatch = Way::Subscriber.dispatch(Options::new());
    let _default = tracing::dispatcher::set_default(&dispatch);

    // All combinations of eight optional fields are recorded.
    let (memory, session) = start();
    combinations(8);
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (3 * 256, 3 * 256));
    let events = read(&memory.bytes());
    let all: std::collections::BTreeSet<_> =
        events.iter().filter(|event| event.has("message")).map(|event| event.shown()).collect();
    assert_eq!(all.len(), 256, "with the values that each has");
    assert_eq!(named(&events, "optionalStart").len(), 256);

    // Of twelve fields, as many as a callsite may have.
    let (memory, session) = start();
    combinations(12);
    let stats = session.finish().unwrap();
    let recorded = 1_024;
    assert_eq!(stats.attempted, 3 * 4_096);
    assert_eq!(stats.written, 2 * 4_096 + recorded);
    assert_eq!((stats.dropped(), stats.drops.refused), (4_096 - recorded, 4_096 - recorded));
    assert_eq!(missing(&memory.bytes()), 4_096 - recorded);
    assert_eq!(named(&read(&memory.bytes()), "optionalStop").len(), 4_096);

    // Targets that come from outside, of which one session wants a few.
    let (memory, session) = start();
    let few = MemorySink::new();
    let filters = ProviderFilter::parse_list("user-29990,user-29991").unwrap();
    let of_few = Session::builder().sink(few).providers(filters).start().unwrap();
    for number in 0..30_000 {
        log::info!(target: &format!("user-{number}"), "x");
    }
    let (stats, of_few) = (session.finish().unwrap(), of_few.finish().unwrap());
    assert_eq!((stats.attempted, stats.written + stats.dropped()), (30_000, 30_000));
    assert!((6_000..=6_144).contains(&stats.written), "{stats:?}");
    assert_eq!(missing(&memory.bytes()), stats.dropped());
    assert_eq!((of_few.attempted, of_few.written, of_few.drops.refused), (2, 0, 2));
    assert!(tracing_nettrace::stats().events_refused >= stats.dropped());

    // What the program's source has is recorded as ever.
    let (memory, session) = start();
    let warnings: Vec<_> = session.warnings().iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|text| text.contains("`log`") && text.contains("`user-")));
    assert!(warnings.iter().any(|text| text.contains("`tracing`") && text.contains("bounds.rs")));
    info_span!("afterwards", n = 1).in_scope(|| info!(text = "new", "a new callsite"));
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written), (3, 3));
    let events = read(&memory.bytes());
    assert_eq!(named(&events, "afterwardsStart")[0].field("n"), "1");
}
