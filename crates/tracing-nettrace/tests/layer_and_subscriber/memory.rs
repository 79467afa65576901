//! Many spans take no more memory than few.

use std::{fs, sync::mpsc, thread};

use nettrace_writer::{OnFull, Session};
use tracing::{Dispatch, Span, dispatcher::with_default, info, info_span};

use crate::support::{BOTH, alone};

/// Bytes of memory that the process has.
fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Makes spans in several ways: nested, with clones, and ended on another thread.
fn spans(dispatch: &Dispatch, count: u64) {
    let (send, receive) = mpsc::sync_channel::<Span>(64);
    thread::scope(|scope| {
        scope.spawn(|| with_default(dispatch, || receive.into_iter().for_each(drop)));
        with_default(dispatch, || {
            for number in (0..count).step_by(4) {
                let outer = info_span!("outer", number, text = "some text");
                let entered = outer.clone().entered();
                let inner = info_span!("inner", number);
                inner.in_scope(|| info!(number));
                drop(entered);
                info_span!(parent: &outer, "below", number);
                drop(outer);
                send.send(info_span!("sent", number)).unwrap();
            }
            drop(send);
        });
    });
}

fn memory_stays(count: u64) {
    for way in BOTH {
        let _alone = alone();
        let session = Session::builder().file("/dev/null").on_full(OnFull::Block).start().unwrap();
        let dispatch = way.dispatch();
        spans(&dispatch, count / 10);
        // Without the pages of the budget, of which more are in use when the flusher is late.
        let others = || Some(resident()?.saturating_sub(session.stats().memory_touched));
        let before = others();
        spans(&dispatch, count);
        let after = others();
        let stats = session.finish().unwrap();
        assert_eq!(stats.dropped(), 0);
        assert!(stats.written > 2 * count);
        if let (Some(before), Some(after)) = (before, after) {
            let growth = after.saturating_sub(before);
            assert!(growth < 12 << 20, "{way:?}: from {before} to {after} for {count} spans");
            println!("{way:?}: {growth} bytes more for {count} spans");
        }
    }
}

#[test]
fn a_hundred_thousand_spans() {
    memory_stays(100_000);
}

#[test]
#[ignore = "takes a minute with optimisation"]
fn ten_million_spans() {
    memory_stays(10_000_000);
}
