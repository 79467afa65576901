//! The layer for clients.

use std::{
    fmt,
    task::{Context as TaskContext, Poll},
};

use http::{Request, Response, header::HOST, request::Parts};
use http_body::Body;
use nettrace_writer::{Context, Emit, Parent, PolledSpan, Sampling, bridge::Made};
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    events::{self, Exchange, RequestSide},
    future::ResponseFuture,
    headers::{self, inject},
    request::{self, MAX_METHOD, MAX_TEXT, cut, is_long, size},
};

/// Records each request that a client makes as a span, and sends the span's ids with it.
///
/// It works with any client that is a service of [`http::Request`], such as that of hyper-util. The
/// span is a child of the one in force where the request is made. Its ids go into the header
/// `traceparent`, and `tracestate` is carried on from the caller. So a service that reads these
/// headers, for instance by a [`ServerLayer`](crate::ServerLayer::trust_callers) that trusts its
/// callers, continues the trace.
///
/// ```
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use nettrace_tower::ClientLayer;
/// use tower::ServiceBuilder;
///
/// # type Body = http_body_util::Empty<bytes::Bytes>;
/// let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
/// let client = ServiceBuilder::new().layer(ClientLayer::new()).service(client);
/// ```
///
/// A client with requests of its own type goes into a function first. With reqwest:
///
/// ```
/// use http::{Request, Response};
/// use nettrace_tower::ClientLayer;
/// use reqwest::{Body, Client};
/// use tower::{ServiceBuilder, service_fn};
///
/// let client = Client::new();
/// let client = service_fn(move |request: Request<Body>| {
///     let client = client.clone();
///     async move {
///         let response = client.execute(request.try_into()?).await?;
///         Ok::<_, reqwest::Error>(Response::<Body>::from(response))
///     }
/// });
/// let client = ServiceBuilder::new().layer(ClientLayer::new()).service(client);
/// ```
///
/// A client of tonic is made of a channel with this layer. Only the channel adds host and port to a
/// request. So give them to the client as well, or the spans have an empty `authority`:
///
/// ```
/// use nettrace_tower::ClientLayer;
/// use tonic::transport::Endpoint;
/// use tonic_health::pb::health_client::HealthClient;
/// use tower::ServiceBuilder;
///
/// # async fn client() {
/// let endpoint = Endpoint::from_static("http://[::1]:50051");
/// let origin = endpoint.uri().clone();
/// let channel = ServiceBuilder::new().layer(ClientLayer::new()).service(endpoint.connect_lazy());
/// let client = HealthClient::with_origin(channel, origin);
/// # }
/// ```
///
/// A client that takes no layer can use [`inject`] instead.
///
/// The span ends when the body of the response ends or is dropped. Its outcome is
///
/// | outcome | if |
/// |---|---|
/// | `ok` | there is a response, however much of its body was read |
/// | `err` | its status is 400 or above, or a status of gRPC other than 0; or the client or the body returned an error |
/// | `cancelled` | the request was dropped before there was a response |
/// | `panicked` | the client or the body unwound |
///
/// While nobody listens, a request costs one load and one branch, and another such to find out
/// whether the caller's span is in force. If it is, its ids are sent.
#[derive(Clone, Copy)]
pub struct ClientLayer {
    route: fn(&Parts) -> Option<&str>,
    sampling: Option<Sampling>,
}

impl ClientLayer {
    /// A layer that knows the route of calls of gRPC, `/package.Service/Method`, and of no other
    /// request.
    #[must_use]
    pub fn new() -> Self {
        RequestSide::Client.register();
        Self { route: request::grpc_method, sampling: None }
    }

    /// Says what the route of a request is: the pattern of its path. It should have few different
    /// values.
    ///
    /// ```
    /// use nettrace_tower::ClientLayer;
    ///
    /// /// The caller puts this into the request's extensions.
    /// #[derive(Clone)]
    /// struct Route(&'static str);
    ///
    /// let layer = ClientLayer::new()
    ///     .route(|request| request.extensions.get::<Route>().map(|route| route.0));
    /// ```
    #[must_use]
    pub fn route(mut self, route: fn(&Parts) -> Option<&str>) -> Self {
        self.route = route;
        self
    }

    /// Says which requests are recorded if they are made outside of any span, so that they begin a
    /// trace. Without this, all are. The services that are asked get the decision with
    /// `traceparent`.
    #[must_use]
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = Some(sampling);
        self
    }
}

impl Default for ClientLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ClientLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientLayer").field("sampling", &self.sampling).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for ClientLayer {
    type Service = Client<S>;

    fn layer(&self, inner: S) -> Client<S> {
        Client { layer: *self, inner }
    }
}

/// A client whose requests are recorded: see [`ClientLayer`].
#[derive(Clone, Copy, Debug)]
pub struct Client<S> {
    layer: ClientLayer,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Client<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    B: Body,
    R: Body,
{
    type Response = Response<crate::TracedBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if RequestSide::Client.is_listened_to() {
            return self.call_in_span(request);
        }
        inject(&Context::current(), request.headers_mut());
        ResponseFuture::unheard(None, || self.inner.call(request))
    }
}

impl<S> Client<S> {
    #[inline]
    fn call_in_span<B: Body>(&mut self, request: Request<B>) -> ResponseFuture<S::Future>
    where
        S: Service<Request<B>>,
    {
        let (mut parts, body) = request.into_parts();
        let exchange =
            Exchange::new(RequestSide::Client, &parts.method, size(&parts.headers, &body));
        let mut span = PolledSpan::off(exchange);
        span.begin(Parent::Current, self.layer.sampling, |_| {
            if !RequestSide::Client.is_left_out() {
                let (method, route) = (parts.method.as_str(), (self.layer.route)(&parts));
                let (route, authority) = (route.unwrap_or_default(), authority(&parts));
                if is_long(method, &[route, authority]) {
                    return emit_cut(method, route, authority);
                }
                Made(|| events::Client::Start { method, route, authority }).emit();
            }
        });
        if let Some(context) = span.span().trace_context() {
            headers::write(&context, &mut parts.headers);
        }
        let before = span.before_polls();
        let future = self.inner.call(Request::from_parts(parts, body));
        before.end();
        ResponseFuture::of_span(span, future)
    }
}

/// A Start of which a text is too long.
#[cold]
#[inline(never)]
fn emit_cut(method: &str, route: &str, authority: &str) {
    let (method, route) = (&*cut(method, MAX_METHOD), &*cut(route, MAX_TEXT));
    let authority = &*cut(authority, MAX_TEXT);
    events::Client::Start { method, route, authority }.emit();
}

/// Host and port, without a name and a password.
fn authority(request: &Parts) -> &str {
    let of_uri = request.uri.authority().map(|authority| authority.as_str());
    let of_header = || request.headers.get(HOST)?.to_str().ok();
    let authority = of_uri.or_else(of_header).unwrap_or_default();
    // Few have a name. To look at all bytes costs less than to stop at the first that is found,
    // because the compiler looks at many at a time.
    if !authority.bytes().fold(false, |has_user, byte| has_user | (byte == b'@')) {
        return authority;
    }
    // Not by `rsplit_once`: texts of this length are not worth what it does first.
    let at = authority.bytes().rposition(|byte| byte == b'@');
    at.map_or(authority, |at| &authority[at + 1..])
}
