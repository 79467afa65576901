//! The requests with which the service loads itself.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use http_body_util::BodyExt as _;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::task::JoinSet;
use tracing::{Instrument as _, info_span};

use crate::store::ITEMS;

/// How many requests are in progress at once.
const AT_ONCE: u64 = 16;

type Client = legacy::Client<HttpConnector, Body>;

/// How many requests were answered in which way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    /// With a status below 400.
    pub(crate) ok: u64,
    /// With another status.
    pub(crate) failed: u64,
}

/// Sends `load` requests, one in two by HTTP/2.
pub(crate) async fn run(address: SocketAddr, load: u64) -> Result<Answers, legacy::Error> {
    let clients = [false, true].map(|is_2| {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        legacy::Client::builder(TokioExecutor::new()).http2_only(is_2).build(connector)
    });
    let next = Arc::new(AtomicU64::new(0));
    let mut senders = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (clients, next) = (clients.clone(), next.clone());
        senders.spawn(async move {
            let mut answers = Answers::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= load {
                    return Ok::<_, legacy::Error>(answers);
                }
                let client = &clients[number as usize % 2];
                let span = info_span!("call", number);
                match send(client, address, number).instrument(span).await? {
                    status if status.is_success() => answers.ok += 1,
                    _ => answers.failed += 1,
                }
            }
        });
    }
    let mut all = Answers::default();
    for answers in senders.join_all().await {
        let answers = answers?;
        all.ok += answers.ok;
        all.failed += answers.failed;
    }
    Ok(all)
}

/// Sends a request and reads the answer to its end.
async fn send(
    client: &Client,
    address: SocketAddr,
    number: u64,
) -> Result<StatusCode, legacy::Error> {
    let id = number as i64 % ITEMS;
    let request = match number % 100 {
        53 => Request::get(format!("http://{address}/broken")),
        31 | 71 => Request::get(format!("http://{address}/item/{}", ITEMS + id)),
        9 | 40 => Request::get(format!("http://{address}/report/5")),
        rest if rest % 3 == 0 => Request::post(format!("http://{address}/order/{id}")),
        _ => Request::get(format!("http://{address}/item/{id}")),
    };
    let response = client.request(request.body(Body::empty()).expect("a valid request")).await?;
    let status = response.status();
    // A body that ends too early shows in the status alone: the service is this program.
    let _ = response.into_body().collect().await;
    Ok(status)
}
