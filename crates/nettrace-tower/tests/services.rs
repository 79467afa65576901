//! Services over loopback.
#![allow(clippy::disallowed_methods, reason = "the seam is for the library, not for its tests")]

mod support;

use std::{collections::BTreeMap, convert::Infallible, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    routing::{get, post},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt as _;
use hyper_util::{client::legacy, rt::TokioExecutor};
use nettrace_tower::{ClientLayer, ServerLayer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Barrier, mpsc},
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{Seen, mark, named, only, record, request};

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
            let layer = ServerLayer::new().trust_callers();
            let back = serve(Router::new().route("/item/{id}", get(back)).layer(layer)).await;
            let app = Router::new().route("/order/{id}", get(front)).with_state(back);
            let address = serve(app.layer(layer)).await;
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

/// Says when it is dropped.
#[derive(Clone)]
struct Gone(mpsc::UnboundedSender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A response without an end.
fn endless(gone: Gone) -> Body {
    let stream = futures_util::stream::unfold(gone, async |gone| {
        tokio::task::yield_now().await;
        Some((Ok::<_, Infallible>(Bytes::from_static(&[0; 8_192])), gone))
    });
    Body::from_stream(stream)
}

#[test]
fn a_client_that_hangs_up_cancels() {
    let (sender, mut gone) = mpsc::unbounded_channel();
    let handler = async move || endless(Gone(sender.clone()));
    let (_, events) = record(2, async {
        let app = Router::new().route("/", get(handler)).layer(ServerLayer::new());
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

/// The streams of one connection, which a client of HTTP/2 resets in different states.
#[test]
fn streams_that_are_reset_end_their_spans() {
    const ROUNDS: usize = 50;
    let (sender, mut gone) = mpsc::unbounded_channel();
    let (begins, mut begun) = mpsc::unbounded_channel();
    let guard = move || Gone(sender.clone());
    let (download, of_wait, of_upload) = (guard.clone(), guard.clone(), guard);
    let waits = begins.clone();
    let wait = async move || {
        let _gone = of_wait();
        waits.send(()).unwrap();
        std::future::pending::<()>().await;
    };
    let upload = async move |mut body: Body| {
        let _gone = of_upload();
        assert!(body.frame().await.unwrap().is_ok());
        begins.send(()).unwrap();
        // Fails when the stream is reset, unless the server drops this before.
        body.collect().await.map(drop).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    };
    let app = Router::new()
        .route("/download", get(async move || endless(download())))
        .route("/wait", get(wait))
        .route("/upload", post(upload))
        .layer(ServerLayer::new().trust_callers());
    let (_, events) = record(2, async {
        let address = serve(app).await;
        let client = legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let client = ClientLayer::new().layer(client);
        let ask = |method: Method, path: &str, body: Body| {
            let request = Request::builder().method(method).uri(format!("http://{address}/{path}"));
            tokio::spawn(client.clone().oneshot(request.body(body).unwrap()))
        };
        for _ in 0..ROUNDS {
            // In the middle of the response.
            let asked = ask(Method::GET, "download", Body::empty());
            let mut response = asked.await.unwrap().unwrap();
            assert_eq!(response.version(), Version::HTTP_2);
            response.body_mut().frame().await.unwrap().unwrap();
            drop(response);
            gone.recv().await.unwrap();

            // Before there is a response.
            let asked = ask(Method::GET, "wait", Body::empty());
            begun.recv().await.unwrap();
            asked.abort();
            assert!(asked.await.unwrap_err().is_cancelled());
            gone.recv().await.unwrap();

            // In the middle of the request's body.
            let (frames, receiver) = mpsc::unbounded_channel::<Result<_, &str>>();
            let body = futures_util::stream::unfold(receiver, async |mut receiver| {
                receiver.recv().await.map(|frame| (frame, receiver))
            });
            let asked = ask(Method::POST, "upload", Body::from_stream(body));
            frames.send(Ok(Bytes::from_static(b"some"))).unwrap();
            begun.recv().await.unwrap();
            frames.send(Err("no more")).unwrap();
            assert!(asked.await.unwrap().is_err());
            gone.recv().await.unwrap();
        }
    });
    assert_eq!(events.len(), 4 * 3 * ROUNDS);
    let of = |side: &str, end: &str| named(&events, &format!("{side}Request{end}"));
    let ended = |side: &str, method: &str, status: &str, outcome: &str| {
        let stops: BTreeMap<_, _> = of(side, "Stop").into_iter().map(|it| (it.span, it)).collect();
        let starts = of(side, "Start").into_iter().filter(|start| start.field("method") == method);
        let stops = starts.map(|start| stops[&start.span]);
        let is_it = |it: &&Seen| it.field("status") == status && it.field("outcome") == outcome;
        stops.filter(is_it).count()
    };
    for side in ["Server", "Client"] {
        assert_eq!((of(side, "Start").len(), of(side, "Stop").len()), (3 * ROUNDS, 3 * ROUNDS));
        assert_eq!(ended(side, "GET", "0", "cancelled"), ROUNDS, "{side}");
    }
    assert_eq!(ended("Server", "GET", "200", "cancelled"), ROUNDS);
    assert_eq!(ended("Client", "GET", "200", "ok"), ROUNDS, "it has its answer");
    // The server sees that the stream was reset, or the handler that the body fails.
    let uploads = ended("Server", "POST", "0", "cancelled") + ended("Server", "POST", "500", "err");
    assert_eq!(uploads, ROUNDS);
    assert_eq!(ended("Client", "POST", "0", "err"), ROUNDS);
    let clients: BTreeMap<_, _> =
        of("Client", "Start").iter().map(|it| (it.span, it.trace)).collect();
    for start in of("Server", "Start") {
        assert_eq!(clients[&start.parent], start.trace);
    }
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
    let app = app.layer(ServerLayer::new().trust_callers());
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

/// Sends a request to a service, as bytes. Returns the status of the answer, 0 if there is none.
async fn send(address: SocketAddr, head: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut answer, mut sent) = (Vec::new(), stream.write_all(head).await);
    if sent.is_ok() {
        sent = stream.read_to_end(&mut answer).await.map(drop);
    }
    // A server that refuses a head may hang up before all of it has been sent.
    let status = || std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok();
    if sent.is_err() { 0 } else { status().unwrap_or(0) }
}

/// The most bytes of a recorded route and authority.
const LONGEST: usize = 512;

#[test]
fn what_a_client_sends_is_recorded_within_bounds() {
    const END: &str = "host: x\r\nconnection: close\r\n";
    let path = "🦀".repeat(10_000);
    let caller = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    let state = format!("{caller}tracestate: a={}\r\n", "x".repeat(100_000));
    let states = format!("{caller}{}", "tracestate: a=1\r\n".repeat(90));
    let headers: String = (0..5_000).map(|n| format!("x-{n}: 1\r\n")).collect();
    let mut heads: Vec<Vec<u8>> = [30_000, 33_000, 1_000_000]
        .into_iter()
        .map(|length| format!("{} / HTTP/1.1\r\n{END}\r\n", "M".repeat(length)).into())
        .collect();
    heads.extend(
        [
            format!("GET /{} HTTP/1.1\r\n{END}\r\n", "p".repeat(60_000)),
            format!("GET /{} HTTP/1.1\r\n{END}\r\n", "p".repeat(1_000_000)),
            format!("GET /{path} HTTP/1.1\r\n{END}\r\n"),
            format!("GET / HTTP/1.1\r\n{END}{state}\r\n"),
            format!("GET / HTTP/1.1\r\n{END}{states}\r\n"),
            format!("GET / HTTP/1.1\r\n{END}{headers}\r\n"),
            format!("GET / HTTP/1.1\r\n{END}user-agent: {}\r\n\r\n", "u".repeat(300_000)),
        ]
        .map(String::into_bytes),
    );
    // What is no UTF-8.
    let mut opaque = |before: &str, after: &str| {
        heads.push([before.as_bytes(), b"\xff\xfe\x80", after.as_bytes()].concat());
    };
    opaque("GET /", &format!(" HTTP/1.1\r\n{END}\r\n"));
    opaque(&format!("GET / HTTP/1.1\r\n{END}traceparent: "), "\r\n\r\n");
    opaque(&format!("GET / HTTP/1.1\r\n{END}{caller}tracestate: a="), "\r\n\r\n");
    let (statuses, events) = record(2, async {
        let layer = ServerLayer::new().trust_callers().route(|it| Some(it.uri.path()));
        let app = Router::new().fallback(async || "answer").layer(layer);
        let address = serve(app).await;
        let mut statuses = Vec::new();
        for head in heads {
            statuses.push(send(address, &head).await);
        }
        statuses
    });
    // The server refuses a head of a megabyte, so that the layer does not see it.
    assert_eq!(statuses[..2], [200; 2]);
    assert_ne!(statuses[2], 200);
    let answered = statuses.iter().filter(|status| **status == 200).count();
    assert!(answered >= 6, "{statuses:?}");
    let starts = named(&events, "ServerRequestStart");
    let stops = named(&events, "ServerRequestStop");
    assert_eq!((starts.len(), events.len()), (answered, 2 * answered), "{statuses:?}");
    for (start, stop) in starts.iter().zip(&stops) {
        assert_eq!((start.span, start.trace), (stop.span, stop.trace));
        assert!(start.field("method").len() <= 32, "{start:?}");
        assert!(start.field("route").len() <= LONGEST, "{start:?}");
    }
    assert_eq!(starts[0].field("method"), format!("{}…", "M".repeat(29)));
    assert_eq!(starts[2].field("route"), format!("/{}…", "p".repeat(508)));
    let cut = |start: &&&Seen| start.field("route").ends_with("🦀…");
    assert!(starts.iter().filter(cut).count() <= 1, "inside of no character");
}

/// Without a server that would refuse them first.
#[test]
fn a_layer_takes_requests_of_any_size() {
    let answer = service_fn(async |_: Request<Body>| {
        let answer = Response::builder().header("grpc-status", "9".repeat(1_000_000));
        Ok::<_, Infallible>(answer.body(Body::empty()).unwrap())
    });
    let method = |length: usize| Method::from_bytes("M".repeat(length).as_bytes()).unwrap();
    let host = |length: usize| format!("http://{}/", "h".repeat(length));
    let mut many = Request::get("/").body(Body::empty()).unwrap();
    for number in 0..20_000 {
        let name = HeaderName::try_from(format!("x-{number}")).unwrap();
        many.headers_mut().insert(name, HeaderValue::from_bytes(b"\xff").unwrap());
    }
    let mut grpc = Request::post(format!("/{}", "p".repeat(60_000))).body(Body::empty()).unwrap();
    *grpc.version_mut() = Version::HTTP_2;
    grpc.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let mut requests = vec![many, grpc];
    for length in [30_000, 33_000, 1_000_000] {
        let request = Request::builder().method(method(length)).header("host", "h".repeat(length));
        requests.push(request.body(Body::empty()).unwrap());
    }
    requests.push(Request::get(host(60_000)).body(Body::empty()).unwrap());
    let count = requests.len();
    let (_, events) = record(1, async {
        let client = ClientLayer::new().layer(ServerLayer::new().layer(answer));
        for request in requests {
            let answer = client.oneshot(request).await.unwrap();
            answer.into_body().collect().await.unwrap();
        }
    });
    assert_eq!(events.len(), 4 * count);
    for side in ["Server", "Client"] {
        let starts = named(&events, &format!("{side}RequestStart"));
        let stops = named(&events, &format!("{side}RequestStop"));
        assert_eq!((starts.len(), stops.len()), (count, count));
        for text in starts.iter().flat_map(|start| start.fields.values()) {
            assert!(text.len() <= LONGEST, "{text}");
        }
        assert!(starts[1].field("route").ends_with("p…"), "the method of gRPC");
        assert!(stops.iter().all(|stop| stop.field("grpc_status") == "2"), "it is no number");
    }
    let of_client = named(&events, "ClientRequestStart");
    for start in &of_client[2..] {
        assert_eq!(start.field("authority"), format!("{}…", "h".repeat(509)));
    }
}
