//! The costs of the layers: allocations, and work while no session listens.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests")]

use std::{
    convert::Infallible,
    hint,
    pin::pin,
    task::{Context as TaskContext, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body_util::{BodyExt as _, Full};
use nettrace_tower::{ClientLayer, PROVIDER, ServerLayer, inject};
use nettrace_writer::{Context, Session, sink::MemorySink};
use testkit::allocations::{self, Counting};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The output of a future that never waits.
fn now<F: Future>(future: F) -> F::Output {
    let mut cx = TaskContext::from_waker(Waker::noop());
    match pin!(future).poll(&mut cx) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Answers with the headers that its calls would send.
async fn respond(_: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"body")));
    inject(&Context::current(), response.headers_mut());
    Ok(response)
}

async fn only_respond(_: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"body"))))
}

/// How many allocations a request makes, once the thread is warm.
fn of_request<S, B>(mut service: S, header: Option<&'static str>) -> u64
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
    B: http_body::Body<Data = Bytes, Error: std::fmt::Debug>,
{
    let mut ask = || {
        let mut request = Request::new(Full::new(Bytes::new()));
        if let Some(header) = header {
            request.headers_mut().insert("traceparent", header.parse().unwrap());
        }
        allocations::of(|| {
            let response = now(service.ready()).and_then(|service| now(service.call(request)));
            let mut body = pin!(response.unwrap().into_body());
            while let Some(frame) = now(body.frame()) {
                hint::black_box(frame.unwrap());
            }
        })
    };
    for _ in 0..100 {
        ask();
    }
    ask()
}

/// The headers with which a call arrives, if the request that causes it has these.
fn sent_on(headers: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut request = Request::new(Full::new(Bytes::new()));
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let call = service_fn(async |request: Request<Full<Bytes>>| {
        let mut response = Response::new(Full::new(Bytes::new()));
        *response.headers_mut() = request.headers().clone();
        Ok::<_, Infallible>(response)
    });
    let handler = service_fn(async |_: Request<Full<Bytes>>| {
        // The body is another type after the layer. Only the headers matter here.
        let ask = Request::new(Full::new(Bytes::new()));
        let response = ClientLayer::new().layer(call).oneshot(ask).await?;
        Ok::<_, Infallible>(Response::from_parts(response.into_parts().0, Full::<Bytes>::default()))
    });
    now(ServerLayer::new().trust_callers().layer(handler).oneshot(request))
        .unwrap()
        .headers()
        .clone()
}

/// One test, because whether somebody listens is one fact of the process.
#[test]
fn a_request_allocates_nothing_and_keeps_its_caller() {
    assert!(allocations::of(|| drop(hint::black_box(Box::new(1)))) > 0, "the count counts");
    let server = || ServerLayer::new().trust_callers().layer(service_fn(only_respond));
    let client = || ClientLayer::new().layer(service_fn(only_respond));
    let without = of_request(service_fn(only_respond), None);

    // Nobody listens.
    for header in [None, Some(PARENT)] {
        assert_eq!(of_request(server(), header), without, "{header:?}");
        assert_eq!(of_request(client(), header), without, "{header:?}");
    }
    assert!(sent_on(&[]).is_empty());
    let sent = sent_on(&[("traceparent", PARENT), ("tracestate", "rojo=1")]);
    assert_eq!(sent["traceparent"], PARENT);
    assert_eq!(sent["tracestate"], "rojo=1");
    assert!(sent_on(&[("traceparent", "00-no")]).is_empty());
    let passing = ServerLayer::new().trust_callers().layer(service_fn(respond));
    let mut request = Request::new(Full::new(Bytes::new()));
    request.headers_mut().insert("traceparent", PARENT.parse().unwrap());
    assert_eq!(now(passing.oneshot(request)).unwrap().headers()["traceparent"], PARENT);

    // Somebody listens.
    let session = Session::builder().sink(MemorySink::new()).provider(PROVIDER).start().unwrap();
    for header in [None, Some(PARENT)] {
        assert_eq!(of_request(server(), header), without, "{header:?}");
    }
    // The text of `traceparent`, and the map of headers, which was empty.
    let headers = allocations::of(|| {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("traceparent"), PARENT.parse().unwrap());
        hint::black_box(&headers);
    });
    assert_eq!(of_request(client(), None), without + headers);
    let sent = sent_on(&[("traceparent", PARENT), ("tracestate", "rojo=1")]);
    assert_eq!(sent["tracestate"], "rojo=1");
    assert_ne!(sent["traceparent"], PARENT, "a span of its own");
    assert!(sent["traceparent"].as_bytes().starts_with(&PARENT.as_bytes()[..36]));
    let stats = session.finish().unwrap();
    assert_eq!((stats.written, stats.dropped()), ((2 * 101 + 101 + 2) * 2, 0));
}
