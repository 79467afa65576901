//! A lock is held while a card is charged.

use std::{sync::Arc, time::Duration};

use nettrace_writer::traced;
use tokio::{sync::Mutex, time::sleep};

use crate::shop::{answer, clients};

pub(crate) async fn run(time: Duration) {
    let stock = Arc::new(Mutex::new(u64::MAX));
    clients(16, time, move |id| {
        let stock = Arc::clone(&stock);
        async move { answer("/order", id, order(&stock)).await }
    })
    .await;
}

#[traced(provider = "Shop")]
async fn order(stock: &Mutex<u64>) {
    check_cart().await;
    reserve(stock).await;
}

#[traced(provider = "Shop")]
async fn check_cart() {
    sleep(Duration::from_millis(1)).await;
}

#[traced(provider = "Shop")]
async fn reserve(stock: &Mutex<u64>) {
    let mut left = stock.lock().await;
    *left -= 1;
    charge_card().await;
}

#[traced(provider = "Shop")]
async fn charge_card() {
    sleep(Duration::from_millis(20)).await;
}
