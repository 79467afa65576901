//! A request through the layers of `nettrace-tower`, without a network: around a service that is
//! ready at once, in the hands of a caller that polls until the body of the response has ended.

use std::{
    cell::RefCell,
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderName, Request, Response, request, response};
use http_body::Body;
use http_body_util::Full;
use tower_service::Service;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What calls a service with one request after the other.
///
/// The head of the request and that of the response are made once. The service hands them back, so
/// that a request costs little besides what the layers do.
#[derive(Debug)]
pub struct Caller {
    request: RefCell<Option<request::Parts>>,
    response: RefCell<Option<response::Parts>>,
}

impl Caller {
    /// The headers of requests are four, one of them a `traceparent` with these flags.
    ///
    /// # Panics
    ///
    /// If the flags cannot be part of a header.
    #[must_use]
    pub fn new(flags: &str) -> Self {
        let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        let request = Request::get("http://127.0.0.1:8080/cart/7")
            .header("host", "127.0.0.1:8080")
            .header("user-agent", "instructions")
            .header("accept", "*/*")
            .header("traceparent", parent);
        let response =
            Response::builder().header("content-type", "text/plain").header("content-length", "4");
        Self {
            request: RefCell::new(Some(request.body(()).expect("a valid head").into_parts().0)),
            response: RefCell::new(Some(response.body(()).expect("a valid head").into_parts().0)),
        }
    }

    /// Calls the service once, and reads its answer to the end.
    ///
    /// # Panics
    ///
    /// If the service is not ready at once, or keeps the heads of requests.
    pub fn call<S, B>(&self, service: &mut S)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
        B: Body<Data = Bytes, Error = Infallible>,
    {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(service.poll_ready(&mut cx).is_ready());
        let head = self.request.take().expect("the last call has returned it");
        let future = service.call(Request::from_parts(head, Full::default()));
        let Poll::Ready(Ok(response)) = pin!(future).poll(&mut cx) else {
            unreachable!("it is ready at once");
        };
        let (head, body) = response.into_parts();
        self.response.replace(Some(head));
        let mut body = pin!(body);
        let mut bytes = 0;
        while let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut cx) {
            bytes += frame.data_ref().map_or(0, Bytes::len);
        }
        black_box(bytes);
    }

    /// A service whose response is ready at once.
    #[must_use]
    pub fn service(&self) -> Answer<'_> {
        Answer(self)
    }

    /// Removes what the layer of a client has added to the request.
    ///
    /// # Panics
    ///
    /// If a service has kept the head of a request.
    pub fn reset(&self) {
        let mut head = self.request.take().expect("the last call has returned it");
        head.headers.remove(&TRACEPARENT);
        self.request.replace(Some(head));
    }
}

/// See [`Caller::service`].
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a>(&'a Caller);

impl Service<Request<Full<Bytes>>> for Answer<'_> {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        self.0.request.replace(Some(request.into_parts().0));
        let head = self.0.response.take().expect("the last call has returned it");
        ready(Ok(Response::from_parts(head, Full::new(Bytes::from_static(b"body")))))
    }
}

/// Where the requests come from.
#[must_use]
pub fn peer(_: &request::Parts) -> Option<SocketAddr> {
    black_box(Some((Ipv4Addr::LOCALHOST, 54_321).into()))
}

/// The route that has matched.
#[must_use]
pub fn route(_: &request::Parts) -> Option<&str> {
    black_box(Some("/cart/{user}"))
}
