//! What all shops have: requests, and clients that send them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nettrace_writer::{FutureExt as _, Outcome, TraceSpan};
use tokio::{task::JoinSet, time::Instant};

/// A request, from its arrival to its answer.
#[derive(TraceSpan)]
#[trace_event(
    provider = "Shop",
    key_values = [("nettrace.dimension", "route")],
    later = [status: u16]
)]
struct Request<'a> {
    route: &'a str,
    id: u64,
}

/// Another service refuses.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) &'static str);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Answers a request: `work` is in a span.
pub(crate) async fn answer(route: &str, id: u64, work: impl Future<Output = ()>) {
    let work = async {
        work.await;
        Ok(())
    };
    try_answer(route, id, work).await;
}

/// As [`answer`], for work that can fail.
pub(crate) async fn try_answer(
    route: &str,
    id: u64,
    work: impl Future<Output = Result<(), Refused>>,
) {
    let span = Request { route, id }.start();
    let work = work.in_span_with(span, |span, result| {
        span.record_status(if result.is_ok() { 200 } else { 503 });
        if result.is_ok() { Outcome::Ok } else { Outcome::Err }
    });
    // The status is the answer.
    let _ = work.await;
}

/// So many clients that send one request after the other until the time is over. Each request has
/// a number. Returns when all are answered, or so long after.
pub(crate) async fn clients<F>(
    count: usize,
    time: Duration,
    request: impl Fn(u64) -> F + Clone + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let end = Instant::now() + time;
    let ids = Arc::new(AtomicU64::new(1));
    let mut all = JoinSet::new();
    for _ in 0..count {
        let (ids, request) = (Arc::clone(&ids), request.clone());
        all.spawn(async move {
            while Instant::now() < end {
                request(ids.fetch_add(1, Ordering::Relaxed)).await;
            }
        });
    }
    // A request that is never answered stays under way.
    let _ = tokio::time::timeout_at(end + time, async { while all.join_next().await.is_some() {} })
        .await;
    all.detach_all();
}
