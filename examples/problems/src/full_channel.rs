//! What takes orders from a channel is slower than those who put them in.

use std::time::Duration;

use nettrace_writer::{Context, FutureExt as _, traced};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::sleep,
};

use crate::shop::{answer, clients};

/// An order, and where it comes from.
type Order = (u64, Context);

pub(crate) async fn run(time: Duration) {
    let (orders, taken) = channel(8);
    tokio::spawn(store_all(taken));
    clients(16, time, move |id| {
        let orders = orders.clone();
        async move { answer("/order", id, enqueue(id, &orders)).await }
    })
    .await;
}

#[traced(provider = "Shop", fields = [id])]
async fn enqueue(id: u64, orders: &Sender<Order>) {
    // While the channel is full, this waits.
    let _ = orders.send((id, Context::current())).await;
}

async fn store_all(mut orders: Receiver<Order>) {
    while let Some((id, context)) = orders.recv().await {
        store_order(id).with_context(context).await;
    }
}

#[traced(provider = "Shop", fields = [id])]
async fn store_order(id: u64) {
    sleep(Duration::from_millis(10)).await;
}
