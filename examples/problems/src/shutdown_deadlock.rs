//! The end waits for a worker, and the worker for the end.

use std::time::Duration;

use nettrace_writer::{Emit as _, TraceEvent, traced};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::JoinHandle,
    time::sleep,
};

use crate::shop::{answer, clients};

/// Nothing is in the queue.
#[derive(TraceEvent)]
#[trace_event(provider = "Shop", message = "waiting for mail: senders that are left: {senders}")]
struct Waiting {
    senders: usize,
}

/// The process is to end, and has not.
#[derive(TraceEvent)]
#[trace_event(provider = "Shop", message = "asked again to shut down")]
struct AskedAgain {}

pub(crate) async fn run(time: Duration) {
    let (mails, queue) = channel(64);
    let mailer = tokio::spawn(mailer(queue));
    let ours = mails.clone();
    clients(2, time / 2, move |id| {
        let mails = ours.clone();
        async move { answer("/order", id, order(id, &mails)).await }
    })
    .await;
    tokio::spawn(shut_down(mailer));
    // As if it were in a static: there is one sender more than those who think of it.
    std::mem::forget(mails);
    sleep(time / 2).await;
    AskedAgain {}.emit();
}

#[traced(provider = "Shop", fields = [id])]
async fn order(id: u64, mails: &Sender<u64>) {
    sleep(Duration::from_millis(5)).await;
    let _ = mails.send(id).await;
}

#[traced(provider = "Shop")]
async fn mailer(mut queue: Receiver<u64>) {
    loop {
        if queue.is_empty() {
            Waiting { senders: queue.sender_strong_count() }.emit();
        }
        let Some(mail) = queue.recv().await else { return };
        send_mail(mail).await;
    }
}

#[traced(provider = "Shop", fields = [order])]
async fn send_mail(order: u64) {
    sleep(Duration::from_millis(1)).await;
}

#[traced(provider = "Shop")]
async fn shut_down(mailer: JoinHandle<()>) {
    close_database().await;
    await_mailer(mailer).await;
}

#[traced(provider = "Shop")]
async fn close_database() {
    sleep(Duration::from_millis(1)).await;
}

#[traced(provider = "Shop")]
async fn await_mailer(mailer: JoinHandle<()>) {
    let _ = mailer.await;
}
