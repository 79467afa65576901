//! What is known of a request when it begins.

use std::net::SocketAddr;

use http::{HeaderMap, header::CONTENT_LENGTH, request::Parts};
use http_body::Body;

/// The bytes of the body, as the body itself knows or as its header says.
pub(crate) fn size<B: Body>(headers: &HeaderMap, body: &B) -> Option<u64> {
    let header = || headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    body.size_hint().exact().or_else(header)
}

/// The route that axum has matched.
#[cfg(feature = "axum")]
pub(crate) fn route(request: &Parts) -> Option<&str> {
    request.extensions.get::<axum::extract::MatchedPath>().map(axum::extract::MatchedPath::as_str)
}

/// The other end of the connection, as axum knows it.
#[cfg(feature = "axum")]
pub(crate) fn peer(request: &Parts) -> Option<SocketAddr> {
    request.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>().map(|info| info.0)
}

#[cfg(not(feature = "axum"))]
pub(crate) fn route(_: &Parts) -> Option<&str> {
    None
}

#[cfg(not(feature = "axum"))]
pub(crate) fn peer(_: &Parts) -> Option<SocketAddr> {
    None
}
