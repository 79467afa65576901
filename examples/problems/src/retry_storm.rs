//! Calls to an overloaded service are repeated at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use nettrace_writer::{Emit as _, TraceEvent, traced};
use tokio::time::sleep;

use crate::shop::{Refused, clients, try_answer};

/// How often a call is made.
const ATTEMPTS: u32 = 8;

/// How many calls the other service can take at once.
const CAPACITY: u32 = 8;

/// A call is made again.
#[derive(TraceEvent)]
#[trace_event(
    provider = "Shop",
    level = Warning,
    message = "attempt {attempt} at the price failed, trying again"
)]
struct Again {
    attempt: u32,
}

pub(crate) async fn run(time: Duration) {
    let calls = Arc::new(AtomicU32::new(0));
    clients(32, time, move |id| {
        let calls = Arc::clone(&calls);
        async move { try_answer("/price", id, price(&calls)).await }
    })
    .await;
}

#[traced(provider = "Shop", err)]
async fn price(calls: &AtomicU32) -> Result<(), Refused> {
    for attempt in 1..ATTEMPTS {
        if ask_pricing(calls, attempt).await.is_ok() {
            return Ok(());
        }
        Again { attempt }.emit();
    }
    ask_pricing(calls, ATTEMPTS).await
}

#[traced(provider = "Shop", fields = [attempt], err)]
async fn ask_pricing(calls: &AtomicU32, attempt: u32) -> Result<(), Refused> {
    let others = calls.fetch_add(1, Ordering::Relaxed);
    sleep(Duration::from_millis(5)).await;
    calls.fetch_sub(1, Ordering::Relaxed);
    if others < CAPACITY { Ok(()) } else { Err(Refused("the pricing service is overloaded")) }
}
