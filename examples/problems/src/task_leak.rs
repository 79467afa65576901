//! Each request begins a task that never ends.

use std::time::Duration;

use nettrace_writer::{Context, FutureExt as _, traced};
use tokio::{sync::watch, time::sleep};

use crate::shop::{answer, clients};

pub(crate) async fn run(time: Duration) {
    let (changes, prices) = watch::channel(0_u64);
    tokio::spawn(publish(changes));
    clients(4, time, move |id| {
        let prices = prices.clone();
        async move { answer("/product", id, product(id, prices)).await }
    })
    .await;
}

async fn publish(prices: watch::Sender<u64>) {
    loop {
        sleep(Duration::from_secs(1)).await;
        prices.send_modify(|price| *price += 1);
    }
}

#[traced(provider = "Shop", fields = [id])]
async fn product(id: u64, prices: watch::Receiver<u64>) {
    // Its end is not awaited, and nothing tells it that the customer has left.
    tokio::spawn(watch_price(id, prices).with_context(Context::current()));
    sleep(Duration::from_millis(25)).await;
}

#[traced(provider = "Shop", fields = [product])]
async fn watch_price(product: u64, mut prices: watch::Receiver<u64>) {
    while prices.changed().await.is_ok() {}
}
