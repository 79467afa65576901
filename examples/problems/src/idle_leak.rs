//! Connections of clients that are gone stay open.

use std::time::Duration;

use nettrace_writer::{FutureExt as _, TraceSpan, traced};
use tokio::{
    sync::mpsc::{Receiver, channel},
    time::sleep,
};

use crate::shop::{answer, clients};

/// A connection of a client.
#[derive(TraceSpan)]
#[trace_event(provider = "Shop")]
struct Connection {
    client: u64,
}

pub(crate) async fn run(time: Duration) {
    clients(2, time, |client| async move {
        let (requests, ours) = channel(1);
        tokio::spawn(connection(ours).in_span(Connection { client }.start()));
        for id in [client * 10, client * 10 + 1] {
            let _ = requests.send(id).await;
            sleep(Duration::from_millis(20)).await;
        }
        // One client in four does not say that it leaves.
        if client % 4 == 0 {
            std::mem::forget(requests);
        }
    })
    .await;
}

async fn connection(mut requests: Receiver<u64>) {
    while let Some(id) = requests.recv().await {
        answer("/cart", id, cart()).await;
    }
}

#[traced(provider = "Shop")]
async fn cart() {
    sleep(Duration::from_millis(2)).await;
}
