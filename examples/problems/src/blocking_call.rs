//! A function computes for long on a thread of the runtime.

use std::{thread, time::Duration};

use nettrace_writer::traced;
use tokio::time::sleep;

use crate::shop::{answer, clients};

pub(crate) async fn run(time: Duration) {
    clients(8, time, |id| async move {
        match id % 8 {
            0 => answer("/invoice", id, invoice()).await,
            _ => answer("/cart", id, cart()).await,
        }
    })
    .await;
}

#[traced(provider = "Shop")]
async fn cart() {
    sleep(Duration::from_millis(2)).await;
}

#[traced(provider = "Shop")]
async fn invoice() {
    cart().await;
    render_pdf(40).await;
}

#[traced(provider = "Shop", fields = [pages])]
async fn render_pdf(pages: u32) {
    // A library that knows nothing of futures.
    thread::sleep(Duration::from_millis(pages.into()));
}
