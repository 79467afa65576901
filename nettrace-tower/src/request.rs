//! What is known of a request when it begins.

use std::net::SocketAddr;

use http::{
    HeaderMap, Version,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
    request::Parts,
};
use http_body::Body;

/// The bytes of the body, as the body itself knows or as its header says.
pub(crate) fn size<B: Body>(headers: &HeaderMap, body: &B) -> Option<u64> {
    let header = || headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    body.size_hint().exact().or_else(header)
}

/// The method of a call of gRPC, or the route that axum has matched.
pub(crate) fn route(request: &Parts) -> Option<&str> {
    grpc_method(request).or_else(|| matched_path(request))
}

/// The method of a call of gRPC, `/package.Service/Method`. This is the path, which has no
/// parameters in gRPC. (A router's pattern would hide the method: `/package.Service/{*rest}`.)
pub(crate) fn grpc_method(request: &Parts) -> Option<&str> {
    // gRPC needs HTTP/2, so that other requests need no search.
    let is_grpc = request.version == Version::HTTP_2
        && request.headers.get(CONTENT_TYPE)?.as_bytes().starts_with(b"application/grpc");
    is_grpc.then(|| request.uri.path())
}

#[cfg(feature = "axum")]
fn matched_path(request: &Parts) -> Option<&str> {
    request.extensions.get::<axum::extract::MatchedPath>().map(axum::extract::MatchedPath::as_str)
}

/// The other end of the connection, as axum knows it.
#[cfg(feature = "axum")]
pub(crate) fn peer(request: &Parts) -> Option<SocketAddr> {
    request.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>().map(|info| info.0)
}

#[cfg(not(feature = "axum"))]
fn matched_path(_: &Parts) -> Option<&str> {
    None
}

#[cfg(not(feature = "axum"))]
pub(crate) fn peer(_: &Parts) -> Option<SocketAddr> {
    None
}
