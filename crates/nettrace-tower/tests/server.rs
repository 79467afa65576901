//! The trace of a server's requests.
#![allow(clippy::disallowed_methods, reason = "the seam is for the library, not for its tests")]

mod support;

use std::{
    convert::Infallible,
    future::{pending, poll_fn},
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    task::{Context as TaskContext, Poll},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::Path,
    response::IntoResponse,
    routing::{get, post},
};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Version, request::Parts};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use nettrace_tower::ServerLayer;
use nettrace_writer::{Context, Sampling};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{Seen, mark, named, only, position, record, request};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn get_of(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

/// The frames, one a poll.
fn stream(frames: Vec<Result<Frame<Bytes>, &'static str>>) -> Pin<Box<Frames>> {
    Box::pin(StreamBody::new(Steps(frames.into_iter())))
}

type Frames = StreamBody<Steps>;

/// A stream that is pending once before each item.
struct Steps(std::vec::IntoIter<Result<Frame<Bytes>, &'static str>>);

impl Drop for Steps {
    fn drop(&mut self) {
        mark("body dropped");
    }
}

impl Steps {
    fn next(&mut self) -> Option<Result<Frame<Bytes>, &'static str>> {
        mark("in the body");
        self.0.next()
    }
}

impl futures_core::Stream for Steps {
    type Item = Result<Frame<Bytes>, &'static str>;

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(self.get_mut().next())
    }
}

fn data(length: usize) -> Result<Frame<Bytes>, &'static str> {
    Ok(Frame::data(Bytes::from(vec![b'x'; length])))
}

#[test]
fn a_request_has_its_pattern_its_status_and_its_sizes() {
    let cart = async |Path(user): Path<u64>| {
        mark("in the handler");
        format!("cart {user}")
    };
    let app = Router::new().route("/cart/{user}", post(cart)).layer(ServerLayer::new());
    let (response, events) = record(1, async {
        let request = Request::post("/cart/17").body(Body::from("12345")).unwrap();
        let response = app.oneshot(request).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    });
    assert_eq!(response, "cart 17");
    let (start, stop) = request(&events, "Server");
    start.assert_fields(&[("method", "POST"), ("route", "/cart/{user}"), ("peer", "")]);
    stop.assert_fields(&[
        ("outcome", "ok"),
        ("status", "200"),
        ("request_bytes", "5"),
        ("response_bytes", "7"),
    ]);
    assert_eq!(start.parent, None);
    let inside = only(&events, "Mark");
    assert_eq!((inside.trace, inside.span), (start.trace, start.span));
}

#[test]
fn a_request_that_is_sampled_out_leaves_nothing_and_says_so_to_others() {
    let sent = |sampling: Option<Sampling>, header: Option<&str>| {
        let app = service_fn(async |_: Request<Body>| {
            mark("in the handler");
            let mut headers = HeaderMap::new();
            nettrace_tower::inject(&Context::current(), &mut headers);
            let body = stream(vec![data(3)]);
            let mut response = Response::new(body);
            *response.headers_mut() = headers;
            Ok::<_, Infallible>(response)
        });
        let mut ask = get_of("/");
        if let Some(header) = header {
            ask.headers_mut().insert("traceparent", header.parse().unwrap());
        }
        let trusting = ServerLayer::new().trust_callers();
        let layer = sampling.map_or(trusting, |sampling| trusting.sampling(sampling));
        let (sent, events) = record(1, async {
            let response = layer.layer(app).oneshot(ask).await.unwrap();
            let sent = response.headers()["traceparent"].to_str().unwrap().to_owned();
            response.into_body().collect().await.unwrap();
            sent
        });
        (sent, events)
    };
    let not_sampled = CALLER.replace("-01", "-00");
    let follows = Sampling::caller().or(Sampling::never());
    for (sampling, header) in [
        (Some(Sampling::never()), None),
        (Some(Sampling::never()), Some(CALLER)),
        (Some(follows), Some(&*not_sampled)),
        (Some(follows), None),
        // A trusted caller decides, as in OpenTelemetry.
        (None, Some(&*not_sampled)),
    ] {
        let (sent, events) = sent(sampling, header);
        assert!(events.is_empty(), "{header:?}: {events:#?}");
        match header {
            Some(_) => assert_eq!(sent, not_sampled),
            None => assert!(sent.ends_with("-02"), "{sent}"),
        }
    }
    let always = Some(Sampling::always());
    for (sampling, header) in [(Some(follows), CALLER), (always, &*not_sampled), (None, CALLER)] {
        let (sent, events) = sent(sampling, Some(header));
        let (start, _) = request(&events, "Server");
        // All but the last, which is when the body is dropped, after the end.
        assert!(events[..events.len() - 1].iter().all(|event| event.span == start.span));
        assert!(named(&events, "Mark").len() >= 4, "{events:#?}");
        assert!(sent.starts_with(&CALLER[..36]) && sent.ends_with("-01"), "{sent}");
        assert_ne!(sent, CALLER);
    }
}

#[test]
fn a_path_that_no_pattern_matches_is_not_recorded() {
    let app = Router::new().route("/cart", get(async || "")).layer(ServerLayer::new());
    let (_, events) = record(1, app.oneshot(get_of("/secret/4711")));
    let (start, stop) = request(&events, "Server");
    start.assert_fields(&[("route", "")]);
    stop.assert_fields(&[("status", "404"), ("outcome", "ok")]);
}

#[test]
fn a_client_that_claims_to_speak_grpc_does_not_hide_the_pattern() {
    let app = Router::new()
        .route("/cart/{user}", get(async || ""))
        .route("/package.Service/{*rest}", get(async || ""))
        .layer(ServerLayer::new());
    for (path, route) in
        [("/cart/4711", "/cart/{user}"), ("/package.Service/Method", "/package.Service/Method")]
    {
        let mut ask = get_of(path);
        *ask.version_mut() = Version::HTTP_2;
        ask.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        let (_, events) = record(1, app.clone().oneshot(ask));
        request(&events, "Server").0.assert_fields(&[("route", route)]);
    }
}

#[test]
fn what_axum_matches_without_a_pattern_has_no_route() {
    let inner = Router::new().route("/item", get(async || "inner"));
    let app = Router::new()
        .nest_service("/nested", inner)
        .fallback(async || "fallback")
        .layer(ServerLayer::new());
    for path in ["/nested/item", "/elsewhere"] {
        let app = app.clone();
        let ask = async { app.oneshot(get_of(path)).await.unwrap().status() };
        let (status, events) = record(1, ask);
        assert_eq!(status, 200);
        request(&events, "Server").0.assert_fields(&[("route", "")]);
    }
}

#[test]
fn whoever_asks_for_the_path_gets_it() {
    let inner =
        service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
    let layer = ServerLayer::new()
        .route(|request| Some(request.uri.path()))
        .peer(|request| request.headers.get("x-peer")?.to_str().ok()?.parse().ok());
    let mut ask = get_of("/package.Service/Method");
    ask.headers_mut().insert("x-peer", "192.0.2.7:80".parse().unwrap());
    let (_, events) = record(1, layer.layer(inner).oneshot(ask));
    let (start, _) = request(&events, "Server");
    start.assert_fields(&[("route", "/package.Service/Method")]);
    assert!(start.field("peer").contains("192"), "{start:?}");
}

/// Sends a request with these headers. Returns its Start, and the headers that its handler would
/// send on.
fn with_headers(layer: ServerLayer, headers: &[(&'static str, &str)]) -> (Seen, HeaderMap) {
    let inner = service_fn(async |_: Request<Body>| {
        let mut response = Response::new(Body::empty());
        nettrace_tower::inject(&Context::current(), response.headers_mut());
        Ok::<_, Infallible>(response)
    });
    let mut ask = get_of("/");
    for (name, value) in headers {
        ask.headers_mut().append(*name, value.parse().unwrap());
    }
    let (response, events) = record(1, layer.layer(inner).oneshot(ask));
    (request(&events, "Server").0.clone(), response.unwrap().headers().clone())
}

#[test]
fn a_caller_is_the_parent_and_its_state_goes_on() {
    let headers =
        [("traceparent", CALLER), ("tracestate", "rojo=1"), ("tracestate", "congo=t61 , x=2")];
    let layer = ServerLayer::new().trust_callers();
    let (start, sent) = with_headers(layer, &headers);
    assert_eq!(start.trace.unwrap().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(start.parent, Some(0x00f0_67aa_0ba9_02b7));
    assert_eq!(sent["tracestate"], "rojo=1,congo=t61,x=2");
    let trace = start.trace.unwrap();
    assert_eq!(sent["traceparent"], format!("00-{trace}-{:016x}-01", start.span.unwrap()));

    // A state that breaks a rule is left out, and the rest is valid.
    let headers = [("traceparent", CALLER), ("tracestate", "no member")];
    let (start, sent) = with_headers(layer, &headers);
    assert!(start.parent.is_some() && !sent.contains_key("tracestate"));
}

#[test]
fn a_malformed_caller_begins_a_trace() {
    let malformed = [
        "",
        "00",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ];
    for header in malformed {
        let headers = [("traceparent", header), ("tracestate", "rojo=1")];
        let (start, sent) = with_headers(ServerLayer::new().trust_callers(), &headers);
        assert_eq!(start.parent, None, "{header}");
        assert!(!sent.contains_key("tracestate"), "{header}");
    }
    let twice = [("traceparent", CALLER), ("traceparent", CALLER)];
    assert_eq!(with_headers(ServerLayer::new().trust_callers(), &twice).0.parent, None);
}

#[test]
fn a_caller_counts_if_it_is_trusted() {
    let headers = [("traceparent", CALLER), ("tracestate", "ot=rv:ffffffffffffff")];
    let some = |name| ServerLayer::new().trust_callers_if(name);
    let [yes, no]: [fn(&Parts) -> bool; 2] =
        [|it| it.headers.contains_key("tracestate"), |it| it.uri.path() != "/"];
    for (layer, is_trusted) in [
        (ServerLayer::new(), false),
        (ServerLayer::default(), false),
        (some(no), false),
        (some(yes), true),
        (ServerLayer::new().trust_callers(), true),
    ] {
        let (start, sent) = with_headers(layer, &headers);
        assert_eq!(start.parent.is_some(), is_trusted, "{layer:?}");
        // Others learn nothing from a caller that is not trusted.
        assert_eq!(sent.contains_key("tracestate"), is_trusted, "{layer:?}");
        let sent = sent["traceparent"].to_str().unwrap();
        assert_eq!(sent[..36] == CALLER[..36], is_trusted, "{layer:?}: {sent}");
    }
}

/// How many of these requests are recorded.
fn recorded(layer: ServerLayer, callers: impl Iterator<Item = String>) -> usize {
    let inner = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
    let service = layer.layer(service_fn(inner));
    let (_, events) = record(1, async {
        for caller in callers {
            let mut ask = get_of("/");
            ask.headers_mut().insert("traceparent", caller.parse().unwrap());
            let state = "ot=rv:ffffffffffffff".parse().unwrap();
            ask.headers_mut().insert("tracestate", state);
            service.oneshot(ask).await.unwrap();
        }
    });
    named(&events, "ServerRequestStart").len()
}

#[test]
fn outsiders_do_not_choose_what_is_recorded() {
    const COUNT: u64 = 2_000;
    let ask = |flags: &'static str| {
        (1..=COUNT).map(move |n| format!("00-{n:016x}ffffffffffffffff-{n:016x}-{flags}"))
    };
    let with = |sampling| ServerLayer::new().sampling(sampling);
    let follows = Sampling::caller().or(Sampling::ratio(0.01));
    for sampling in [follows, Sampling::ratio(0.01), follows.at_most(1_000)] {
        // 20 are expected. The ids of a process are another choice each time.
        let count = recorded(with(sampling), ask("01"));
        assert!(count < 100, "{count} of {COUNT} with {sampling:?}");
    }
    assert_eq!(recorded(with(Sampling::caller()), ask("00")), COUNT as usize, "nobody hides");
    // A service behind the edge follows its callers, within a bound.
    let trusting = with(follows).trust_callers();
    assert_eq!(recorded(trusting, ask("01")), COUNT as usize);
    assert_eq!(recorded(trusting, ask("00")), 0);
    let began = Instant::now();
    let count = recorded(trusting.sampling(follows.at_most(10)), ask("01")) as u64;
    let seconds = began.elapsed().as_secs() + 2; // the first and the last are not whole
    assert!((10..=10 * seconds).contains(&count), "{count} of {COUNT} in {seconds} s");
}

/// Answers with a body, and does with the response what `then` says.
fn answer<B, F>(
    status: StatusCode,
    body: impl Fn() -> B + Clone,
    then: impl FnOnce(Response<nettrace_tower::TracedBody<B>>) -> F,
) -> Vec<Seen>
where
    B: http_body::Body + 'static,
    F: Future<Output = ()>,
{
    let inner = service_fn(async |_: Request<Body>| {
        let mut response = Response::new(body());
        *response.status_mut() = status;
        Ok::<_, Infallible>(response)
    });
    let service = ServerLayer::new().layer(inner);
    let (_, events) = record(1, async {
        let response = service.oneshot(get_of("/")).await.unwrap();
        mark("head");
        then(response).await;
        mark("end");
    });
    events
}

#[test]
fn the_span_ends_with_the_body() {
    let frames = || stream(vec![data(1_000), data(1_000), data(500)]);
    let events = answer(StatusCode::OK, frames, async |response| {
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 2_500);
    });
    let (start, stop) = request(&events, "Server");
    // The response, three frames, and the end.
    stop.assert_fields(&[("outcome", "ok"), ("response_bytes", "2500"), ("polls", "5")]);
    let head = position(&events, "Mark", "head");
    let stopped = position(&events, "ServerRequestStop", "");
    assert!(head < stopped && stopped < position(&events, "Mark", "end"), "{events:#?}");
    let inside: Vec<_> = named(&events, "Mark")
        .into_iter()
        .filter(|mark| mark.field("text") == "in the body")
        .collect();
    assert_eq!(inside.len(), 4);
    assert!(inside.iter().all(|mark| mark.span == start.span), "{events:#?}");
    // Between the polls it is not in force.
    assert_eq!(events[head].span, None);
}

#[test]
fn a_body_that_is_complete_is_not_asked_again() {
    // The body says after its only frame that this was all.
    let events = answer(
        StatusCode::OK,
        || Full::new(Bytes::from("all")),
        async |response| {
            let mut body = pin!(response.into_body());
            assert_eq!(body.size_hint().exact(), Some(3));
            body.frame().await.unwrap().unwrap();
            assert!(body.is_end_stream());
            mark("complete");
        },
    );
    request(&events, "Server").1.assert_fields(&[("outcome", "ok"), ("response_bytes", "3")]);
    let complete = position(&events, "Mark", "complete");
    assert!(position(&events, "ServerRequestStop", "") < complete, "{events:#?}");

    // The head says how long the body is, and the server asks for no more.
    let inner = service_fn(async |_: Request<Body>| {
        let body = stream(vec![data(4), data(4)]);
        Response::builder().header("content-length", "8").body(body)
    });
    let (_, events) = record(1, async {
        let response = ServerLayer::new().layer(inner).oneshot(get_of("/")).await.unwrap();
        let mut body = response.into_body();
        for _ in 0..2 {
            body.frame().await.unwrap().unwrap();
        }
    });
    request(&events, "Server").1.assert_fields(&[("outcome", "ok"), ("response_bytes", "8")]);
}

#[test]
fn a_response_without_a_body_ends_with_its_head() {
    for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304), ("CONNECT", 200)] {
        let inner = service_fn(async |_: Request<Body>| {
            Response::builder().status(status).body(stream(vec![data(10)]))
        });
        let ask = Request::builder().method(method).body(Body::empty()).unwrap();
        let (_, events) = record(1, async {
            let response = ServerLayer::new().layer(inner).oneshot(ask).await.unwrap();
            mark("head");
            drop(response);
        });
        let (_, stop) = request(&events, "Server");
        stop.assert_fields(&[("outcome", "ok"), ("status", &status.to_string())]);
        let head = position(&events, "Mark", "head");
        assert!(position(&events, "ServerRequestStop", "") < head, "{method} {status}");
    }
}

#[test]
fn a_client_that_goes_away_cancels() {
    let frames = || stream(vec![data(1_000), data(1_000)]);
    let events = answer(StatusCode::OK, frames, async |response| {
        let mut body = pin!(response.into_body());
        body.frame().await.unwrap().unwrap();
    });
    let (start, stop) = request(&events, "Server");
    stop.assert_fields(&[("outcome", "cancelled"), ("status", "200"), ("response_bytes", "1000")]);
    assert_eq!(events[position(&events, "Mark", "body dropped")].span, start.span);

    /// Emits when a future that holds it is dropped.
    struct Marks;
    impl Drop for Marks {
        fn drop(&mut self) {
            mark("dropped");
        }
    }
    let inner = service_fn(async |_: Request<Body>| {
        let _marks = Marks;
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let (_, events) = record(1, async {
        let mut future = Box::pin(ServerLayer::new().layer(inner).oneshot(get_of("/")));
        assert!(poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await);
        drop(future);
    });
    let (start, stop) = request(&events, "Server");
    stop.assert_fields(&[("outcome", "cancelled"), ("status", "0"), ("polls", "1")]);
    assert_eq!(only(&events, "Mark").span, start.span);
    assert_eq!(events.last().unwrap().name, "ServerRequestStop");
}

#[test]
fn a_panic_is_told() {
    const SHORTLY: Duration = Duration::from_millis(2);
    let inner = service_fn(async |_: Request<Body>| {
        if Context::current().span_id().is_some() {
            std::thread::sleep(SHORTLY);
            panic!("a handler fails");
        }
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let service = ServerLayer::new().layer(inner);
    let (joined, events) = record(2, async {
        tokio::spawn(async move { service.oneshot(get_of("/")).await.map(drop) }).await
    });
    assert!(joined.unwrap_err().is_panic());
    let stop = request(&events, "Server").1;
    stop.assert_fields(&[("outcome", "panicked"), ("status", "0"), ("polls", "1")]);
    // The time of the poll that unwound counts.
    let nanos = |field| stop.field(field).parse::<u128>().unwrap();
    let busy = nanos("busy");
    assert!((SHORTLY.as_nanos()..=nanos("duration")).contains(&busy), "{stop:?}");

    // In the service itself, before there is a future.
    let unwinds =
        service_fn(|_: Request<Body>| -> std::future::Ready<Result<Response<Body>, Infallible>> {
            panic!("a service fails")
        });
    let (caught, events) = record(1, async {
        let mut service = ServerLayer::new().layer(unwinds);
        let call = AssertUnwindSafe(|| drop(tower::Service::call(&mut service, get_of("/"))));
        std::panic::catch_unwind(call)
    });
    assert!(caught.is_err());
    request(&events, "Server").1.assert_fields(&[("outcome", "panicked")]);

    // In the body.
    struct Unwinds;
    impl http_body::Body for Unwinds {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut TaskContext<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            panic!("a body fails")
        }
    }
    let events = answer(
        StatusCode::OK,
        || Unwinds,
        async |response| {
            let reading = tokio::spawn(response.into_body().collect());
            assert!(reading.await.unwrap_err().is_panic());
        },
    );
    request(&events, "Server").1.assert_fields(&[("outcome", "panicked"), ("status", "200")]);
}

#[test]
fn a_function_that_panics_leaves_no_part_of_a_span() {
    let layers = [
        ServerLayer::new().trust_callers_if(|_| panic!("whom to trust")),
        ServerLayer::new().route(|_| panic!("the route")),
        ServerLayer::new().peer(|_| panic!("the peer")),
    ];
    for layer in layers {
        let inner =
            service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
        let (is_outside, events) = record(1, async {
            let mut service = layer.layer(inner);
            let call = AssertUnwindSafe(|| drop(tower::Service::call(&mut service, get_of("/"))));
            assert!(std::panic::catch_unwind(call).is_err());
            Context::current().trace_context().is_none()
        });
        assert!(is_outside && events.is_empty(), "{layer:?}: {events:#?}");
    }
}

#[test]
fn errors_are_told() {
    async fn read<B: http_body::Body>(response: Response<B>) {
        let _ = response.into_body().collect().await;
    }
    for (status, outcome) in [(500, "err"), (503, "err"), (404, "ok")] {
        let status = StatusCode::from_u16(status).unwrap();
        let events = answer(status, || Full::new(Bytes::from("no")), read);
        request(&events, "Server").1.assert_fields(&[("outcome", outcome)]);
    }
    let events = answer(StatusCode::OK, || stream(vec![data(1), Err("broken")]), read);
    request(&events, "Server").1.assert_fields(&[("outcome", "err"), ("response_bytes", "1")]);

    let inner = service_fn(async |_: Request<Body>| Err::<Response<Body>, _>("no service"));
    let (_, events) = record(1, ServerLayer::new().layer(inner).oneshot(get_of("/")));
    request(&events, "Server").1.assert_fields(&[("outcome", "err"), ("status", "0")]);

    // gRPC: NOT_FOUND is the caller's fault, INTERNAL the server's.
    for (grpc, outcome) in [("0", "ok"), ("5", "ok"), ("13", "err")] {
        let trailers =
            HeaderMap::from_iter([("grpc-status".parse().unwrap(), grpc.parse().unwrap())]);
        let frames = move || stream(vec![data(1), Ok(Frame::trailers(trailers.clone()))]);
        let events = answer(StatusCode::OK, frames, read);
        request(&events, "Server").1.assert_fields(&[("outcome", outcome)]);
    }
}

#[test]
fn the_future_and_the_body_are_send() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let app: Router = Router::new().route("/", get(async || "")).layer(ServerLayer::new());
    let layered = is_send(ServerLayer::new().layer(app));
    let future = is_send(layered.oneshot(get_of("/")));
    let (response, _) = record(1, future);
    is_send(response.unwrap().into_response());
}
