//! The layer for servers.
//!
//! A request's span ends with the body of its response, because most of the time of a streamed
//! response passes after its head. Rejected: a span that ends with the head, as in `tower-http`. It
//! shows nothing of a client that goes away.
//!
//! A request without a caller begins a trace, even if a span is in force where the service is
//! called. Otherwise all requests of a server that is started inside a span would be one trace.
//!
//! A caller that is not trusted is as none. Decision 56 (docs/decisions) says why that is the
//! default, and why nothing in between is.
//!
//! While nobody listens, a trusted caller's span is in force, unchanged. Otherwise a service
//! without a session would break the traces of those before and after it. Rejected: looking for the
//! header only if somebody listens, to save one look-up in the map of headers.

use std::{
    fmt,
    net::SocketAddr,
    task::{Context as TaskContext, Poll},
};

use http::{Request, Response, request::Parts};
use http_body::Body;
use nettrace_writer::{
    Context, Emit, Parent, PolledSpan, Sampling, bridge::Made, trace_context::TraceContext,
};
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    events::{self, Exchange, RequestSide},
    future::ResponseFuture,
    headers::extract,
    request::{self, MAX_METHOD, MAX_TEXT, cut, is_long, size},
};

/// Records each request that a service answers as a span.
///
/// It works with any service of [`http::Request`]: with axum, with tonic, with hyper. The span is
/// in force while the service's future and the response's body are polled, so spans and events of
/// handlers are inside it.
///
/// # Callers
///
/// Each request begins a trace. A `traceparent` is ignored, because at the edge anybody can send
/// one: whoever does would choose the ids, decide which requests are recorded, and speak to the
/// services behind this one. A service that only other services reach
/// [trusts its callers](Self::trust_callers). Then the span is a child of the caller's, if the
/// request has a valid `traceparent`. A service that both reach
/// [looks at each request](Self::trust_callers_if).
///
/// The headers stay in the request. Whoever sends a client's headers on to other services takes
/// these out first, or uses a [`ClientLayer`](crate::ClientLayer), which puts its own in their
/// place while somebody listens.
///
/// What a request says is recorded within bounds, whoever sent it: 32 bytes of the method, 512 of
/// the route. A text that was cut ends with `…`.
///
/// # The end
///
/// The span ends when the body of the response ends or is dropped. Its outcome is
///
/// | outcome | if |
/// |---|---|
/// | `ok` | the response was sent to its end |
/// | `err` | its status is 500 or above, or a status of gRPC that is the server's fault; or the service or the body returned an error |
/// | `cancelled` | it was dropped before its end: the client has gone |
/// | `panicked` | the service or the body unwound |
///
/// ```
/// use axum::{Router, routing::get};
/// use nettrace_tower::ServerLayer;
///
/// let app: Router = Router::new()
///     .route("/cart/{user}", get(async || "empty"))
///     // After the routes, so that the layer knows which one has matched.
///     .layer(ServerLayer::new());
/// ```
///
/// With feature `axum`, which is on by default, the route is the `MatchedPath` of axum 0.8, and the
/// peer its `ConnectInfo<SocketAddr>`, if the server is made by
/// `into_make_service_with_connect_info`. What axum's `nest_service` and `fallback` answer has no
/// `MatchedPath`. With another version of axum, [`route`](Self::route) takes its own:
/// `|request| request.extensions.get::<MatchedPath>().map(MatchedPath::as_str)`.
///
/// The route of a call of gRPC is its method, `/package.Service/Method`, unless a `MatchedPath`
/// without wildcard is known. This is the path, and a client chooses it: also one of no service, in
/// a request that only claims to be of gRPC. Otherwise both are unknown unless
/// [`route`](Self::route) and [`peer`](Self::peer) say how to find them.
///
/// While nobody listens, a request costs one load and one branch. With trusted callers it also
/// costs the search for `traceparent` among its headers. If it is there, the caller's span is in
/// force, so that requests that are made to answer this one are still in the caller's trace.
#[derive(Clone, Copy)]
pub struct ServerLayer {
    route: fn(&Parts) -> Option<&str>,
    peer: fn(&Parts) -> Option<SocketAddr>,
    trusts: TraceparentTrust,
    sampling: Option<Sampling>,
}

/// The callers whose `traceparent` counts.
#[derive(Clone, Copy)]
enum TraceparentTrust {
    Nobody,
    Everybody,
    If(fn(&Parts) -> bool),
}

impl ServerLayer {
    /// A layer that takes route and peer of requests from axum, unless feature `axum` is off, and
    /// knows the route of calls of gRPC.
    #[must_use]
    pub fn new() -> Self {
        RequestSide::Server.register();
        Self {
            route: request::route,
            peer: request::peer,
            trusts: TraceparentTrust::Nobody,
            sampling: None,
        }
    }

    /// Says what the route of a request is. It should have few different values, so it is never the
    /// path itself, unless this asks for it.
    ///
    /// ```
    /// use http::request::Parts;
    /// use nettrace_tower::ServerLayer;
    ///
    /// // Whatever an own router has found out.
    /// #[derive(Clone)]
    /// struct Route(&'static str);
    ///
    /// fn route(request: &Parts) -> Option<&str> {
    ///     request.extensions.get::<Route>().map(|route| route.0)
    /// }
    ///
    /// let layer = ServerLayer::new().route(route);
    /// ```
    #[must_use]
    pub fn route(mut self, route: fn(&Parts) -> Option<&str>) -> Self {
        self.route = route;
        self
    }

    /// Says who sent a request. With tonic:
    /// `request.extensions.get::<TcpConnectInfo>()?.remote_addr()`.
    ///
    /// ```
    /// use nettrace_tower::ServerLayer;
    ///
    /// // Behind a proxy that states it.
    /// let layer = ServerLayer::new().peer(|request| {
    ///     let peer = request.headers.get("x-real-ip")?.to_str().ok()?;
    ///     Some((peer.parse::<std::net::IpAddr>().ok()?, 0).into())
    /// });
    /// ```
    #[must_use]
    pub fn peer(mut self, peer: fn(&Parts) -> Option<SocketAddr>) -> Self {
        self.peer = peer;
        self
    }

    /// Goes on with the trace of each caller: for a service that only services reach whose
    /// `traceparent` counts. Its `tracestate` is carried on, up to 32 members of 513 bytes.
    ///
    /// The caller also decides whether its trace is recorded, by the flag "sampled" of its
    /// `traceparent`, unless [`sampling`](Self::sampling) says otherwise:
    /// [`Sampling::always`] records requests whose callers record nothing.
    ///
    /// ```
    /// use nettrace_tower::ServerLayer;
    ///
    /// let at_the_edge = ServerLayer::new();
    /// let behind_it = ServerLayer::new().trust_callers();
    /// ```
    #[must_use]
    pub fn trust_callers(mut self) -> Self {
        self.trusts = TraceparentTrust::Everybody;
        self
    }

    /// Goes on with the trace of some callers. All others are ignored.
    ///
    /// ```
    /// use std::net::SocketAddr;
    ///
    /// use axum::extract::ConnectInfo;
    /// use nettrace_tower::ServerLayer;
    ///
    /// // Whoever is on this machine, where no proxy brings the requests of others.
    /// let layer = ServerLayer::new().trust_callers_if(|request| {
    ///     let peer = request.extensions.get::<ConnectInfo<SocketAddr>>();
    ///     peer.is_some_and(|peer| peer.0.ip().is_loopback())
    /// });
    /// ```
    #[must_use]
    pub fn trust_callers_if(mut self, is_trusted: fn(&Parts) -> bool) -> Self {
        self.trusts = TraceparentTrust::If(is_trusted);
        self
    }

    /// Says which requests are recorded, with everything that happens inside of them. Without this,
    /// a [trusted](Self::trust_callers) caller decides about its own, and all others are recorded.
    ///
    /// ```
    /// use nettrace_tower::ServerLayer;
    /// use nettrace_writer::Sampling;
    ///
    /// // At the edge: one in a hundred. No client can tell or choose which.
    /// let edge = ServerLayer::new().sampling(Sampling::ratio(0.01));
    /// // Behind it: what the edge has recorded, and one in a hundred of other requests.
    /// let sampling = Sampling::caller().or(Sampling::ratio(0.01));
    /// let behind_it = ServerLayer::new().trust_callers().sampling(sampling);
    /// ```
    ///
    /// While nobody listens to the events of this layer, nothing is decided.
    #[must_use]
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = Some(sampling);
        self
    }
}

impl Default for ServerLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ServerLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trusts = match self.trusts {
            TraceparentTrust::Nobody => "nobody",
            TraceparentTrust::Everybody => "everybody",
            TraceparentTrust::If(_) => "some",
        };
        f.debug_struct("ServerLayer")
            .field("trusts", &trusts)
            .field("sampling", &self.sampling)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for ServerLayer {
    type Service = Server<S>;

    fn layer(&self, inner: S) -> Server<S> {
        Server { layer: *self, inner }
    }
}

/// A service whose requests are recorded: see [`ServerLayer`].
#[derive(Clone, Copy, Debug)]
pub struct Server<S> {
    layer: ServerLayer,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Server<S>
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
        let is_listened_to = RequestSide::Server.is_listened_to();
        let is_trusted = match self.layer.trusts {
            TraceparentTrust::Nobody => false,
            TraceparentTrust::Everybody => true,
            TraceparentTrust::If(is_trusted) => {
                let (parts, body) = request.into_parts();
                let is_trusted = is_trusted(&parts);
                request = Request::from_parts(parts, body);
                is_trusted
            }
        };
        let caller = if is_trusted { extract(request.headers()) } else { None };
        if is_listened_to {
            self.call_in_span(request, caller.as_ref())
        } else {
            ResponseFuture::unheard(caller.map(Context::from), || self.inner.call(request))
        }
    }
}

impl<S> Server<S> {
    #[inline]
    fn call_in_span<B: Body>(
        &mut self,
        request: Request<B>,
        caller: Option<&TraceContext>,
    ) -> ResponseFuture<S::Future>
    where
        S: Service<Request<B>>,
    {
        let (parts, body) = request.into_parts();
        let exchange =
            Exchange::new(RequestSide::Server, &parts.method, size(&parts.headers, &body));
        let parent = caller.map_or(Parent::None, Parent::Caller);
        let of_caller = || caller.map(|_| Sampling::caller());
        let mut span = PolledSpan::off(exchange);
        span.begin(parent, self.layer.sampling.or_else(of_caller), |_| {
            if !RequestSide::Server.is_left_out() {
                let (method, route) = (parts.method.as_str(), (self.layer.route)(&parts));
                let (route, peer) = (route.unwrap_or_default(), (self.layer.peer)(&parts));
                if is_long(method, &[route]) {
                    return emit_cut(method, route, peer);
                }
                Made(|| events::Server::Start { method, route, peer }).emit();
            }
        });
        let before = span.before_polls();
        let future = self.inner.call(Request::from_parts(parts, body));
        before.end();
        ResponseFuture::of_span(span, future)
    }
}

/// A Start of which a text is too long.
#[cold]
#[inline(never)]
fn emit_cut(method: &str, route: &str, peer: Option<SocketAddr>) {
    let (method, route) = (&*cut(method, MAX_METHOD), &*cut(route, MAX_TEXT));
    events::Server::Start { method, route, peer }.emit();
}
