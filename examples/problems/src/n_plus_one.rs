//! A list, and then a query for each of its rows.

use std::time::Duration;

use nettrace_writer::traced;
use tokio::time::sleep;

use crate::shop::{answer, clients};

pub(crate) async fn run(time: Duration) {
    clients(4, time, |id| async move {
        answer("/orders", id, list_orders()).await;
    })
    .await;
}

#[traced(provider = "Shop")]
async fn list_orders() {
    for order in query_orders().await {
        query_customer(order).await;
    }
}

#[traced(provider = "Shop")]
async fn query_orders() -> std::ops::Range<u64> {
    sleep(Duration::from_millis(2)).await;
    0..60
}

#[traced(provider = "Shop", fields = [order])]
async fn query_customer(order: u64) {
    sleep(Duration::from_millis(1)).await;
}
