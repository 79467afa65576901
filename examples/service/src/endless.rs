//! Requests that have no end, and are given up by their clients.
//!
//! A client waits until its request is being answered. Otherwise it could give up before the
//! service has begun, and there would be nothing to cancel.

use std::{collections::BTreeMap, future::pending};

use axum::{Extension, extract::Path};
use nettrace_writer::traced;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::known::Call;

/// The requests of which one side is here and waits for the other.
static WAITING: Mutex<BTreeMap<u64, Side>> = Mutex::new(BTreeMap::new());

enum Side {
    Client(oneshot::Sender<()>),
    Service,
}

/// Waits until a request is being answered.
pub(crate) async fn has_begun(number: u64) {
    let (sender, begun) = oneshot::channel();
    if meets(number, Side::Client(sender)).is_none() {
        let _ = begun.await;
    }
}

/// Answers a request, for ever.
#[traced(provider = "Example-Service", fields = [number: u64 = number.0])]
#[tracing::instrument(skip_all, fields(number = number.0))]
#[cfg_attr(nettrace_peers, fastrace::trace(properties = { "number": "{number:?}" }))]
pub(crate) async fn endless(Extension(caller): Extension<Call>, number: Path<u64>) -> String {
    Call::begin("endless", caller);
    if let Some(Side::Client(waits)) = meets(number.0, Side::Service) {
        let _ = waits.send(());
    }
    pending().await
}

/// The other side of a request, if it was here first. Otherwise this side waits for it.
fn meets(number: u64, side: Side) -> Option<Side> {
    let mut waiting = WAITING.lock();
    let other = waiting.remove(&number);
    if other.is_none() {
        waiting.insert(number, side);
    }
    other
}
