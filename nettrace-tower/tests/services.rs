//! Services over loopback.
#![allow(clippy::disallowed_methods, reason = "the seam is for the library, not for its tests")]

mod support;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    routing::get,
};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::{client::legacy, rt::TokioExecutor};
use nettrace_tower::{ClientLayer, ServerLayer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Barrier, mpsc},
};
use tower::{Layer as _, ServiceExt as _};

use crate::support::{mark, named, only, record, request};

/// Serves on a port of its own.
async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let make = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, make).await });
    address
}

type Connector = legacy::connect::HttpConnector;
type HttpClient = nettrace_tower::Client<legacy::Client<Connector, Body>>;

fn client() -> HttpClient {
    let client = legacy::Client::builder(TokioExecutor::new()).build_http();
    ClientLayer::new().layer(client)
}

#[test]
fn a_trace_leads_through_two_services() {
    let back = async |headers: HeaderMap, Path(id): Path<u32>| {
        mark(headers["tracestate"].to_str().unwrap());
        if id == 7 { (StatusCode::OK, "seven") } else { (StatusCode::NOT_FOUND, "no") }
    };
    let front = async |State(back): State<SocketAddr>, Path(id): Path<u32>| {
        let ask = Request::get(format!("http://{back}/item/{id}")).body(Body::empty()).unwrap();
        let response = client().oneshot(ask).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    };
    for (id, outcome, status) in [(7, "ok", "200"), (8, "err", "404")] {
        let (answer, events) = record(2, async move {
            let back = Router::new().route("/item/{id}", get(back)).layer(ServerLayer::new());
            let back = serve(back).await;
            let app = Router::new().route("/order/{id}", get(front)).with_state(back);
            let address = serve(app.layer(ServerLayer::new())).await;
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!(
                "GET /order/{id} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                 traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\
                 tracestate: rojo=1\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            (answer, stream.local_addr().unwrap(), back)
        });
        let (answer, peer, back) = answer;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let (client, client_stop) = request(&events, "Client");
        client.assert_fields(&[("authority", &back.to_string()), ("route", "")]);
        client_stop.assert_fields(&[("outcome", outcome), ("status", status)]);
        let servers = named(&events, "ServerRequestStart");
        let [front, back] = servers[..] else { panic!("{events:#?}") };
        assert!(front.field("peer").contains(&peer.port().to_string()), "{front:?}, {peer}");
        assert_eq!((front.field("route"), back.field("route")), ("/order/{id}", "/item/{id}"));
        assert_eq!(front.parent, Some(0x00f0_67aa_0ba9_02b7));
        assert_eq!((client.parent, back.parent), (front.span, client.span));
        let traces = [front, client, back].map(|start| start.trace.unwrap().to_string());
        assert_eq!(traces, ["4bf92f3577b34da6a3ce929d0e0e4736"; 3]);
        let inside = only(&events, "Mark");
        assert_eq!((inside.field("text"), inside.span), ("rojo=1", back.span));
    }
}

#[test]
fn a_client_that_hangs_up_cancels() {
    // Ends when the body is dropped.
    struct Gone(mpsc::UnboundedSender<()>);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (sender, mut gone) = mpsc::unbounded_channel();
    let endless = move || {
        let gone = Gone(sender.clone());
        let stream = futures_util::stream::unfold(gone, async |gone| {
            tokio::task::yield_now().await;
            Some((Ok::<_, std::convert::Infallible>(Bytes::from_static(&[0; 8_192])), gone))
        });
        async { Body::from_stream(stream) }
    };
    let (_, events) = record(2, async {
        let app = Router::new().route("/", get(endless)).layer(ServerLayer::new());
        let address = serve(app).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stream.read_exact(&mut [0; 100_000]).await.unwrap();
        drop(stream);
        gone.recv().await.unwrap();
    });
    let (_, stop) = request(&events, "Server");
    stop.assert_fields(&[("outcome", "cancelled"), ("status", "200")]);
    assert!(stop.field("response_bytes").parse::<u64>().unwrap() >= 100_000);
}

#[test]
fn ten_thousand_requests_at_once_keep_apart() {
    const COUNT: u64 = 10_000;
    let all = Arc::new(Barrier::new(COUNT as usize));
    let handler = async |State(all): State<Arc<Barrier>>, Path(number): Path<u64>| {
        let number = number.to_string();
        mark(&number);
        all.wait().await; // all requests are in progress
        mark(&number);
        tokio::task::yield_now().await;
        mark(&number);
        number
    };
    let app = Router::new().route("/{number}", get(handler)).with_state(all);
    let app = app.layer(ServerLayer::new());
    let (_, events) = record(4, async {
        let ask = |number: u64| {
            let caller = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{number:016x}-01");
            let request = Request::get(format!("/{number}")).header("traceparent", caller);
            let answer = app.clone().oneshot(request.body(Body::empty()).unwrap());
            async { answer.await.unwrap().into_body().collect().await.unwrap().to_bytes() }
        };
        let asked: Vec<_> = (1..=COUNT).map(|number| (number, tokio::spawn(ask(number)))).collect();
        for (number, asked) in asked {
            assert_eq!(asked.await.unwrap(), number.to_string());
        }
    });
    let starts = named(&events, "ServerRequestStart");
    let numbers: BTreeMap<_, _> = starts.iter().map(|it| (it.span.unwrap(), it.parent)).collect();
    assert_eq!(numbers.len() as u64, COUNT);
    let marks = named(&events, "Mark");
    assert_eq!(marks.len() as u64, 3 * COUNT);
    for mark in marks {
        let number = mark.field("text").parse().ok();
        assert_eq!(numbers[&mark.span.unwrap()], number, "{mark:?}");
    }
    let stops = named(&events, "ServerRequestStop");
    assert_eq!(stops.len() as u64, COUNT);
    assert!(stops.iter().all(|stop| stop.field("outcome") == "ok"));
}
