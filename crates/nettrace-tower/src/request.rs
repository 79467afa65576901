//! Facts about a request when it begins.

use std::{borrow::Cow, net::SocketAddr};

use http::{
    HeaderMap, Version,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
    request::Parts,
};
use http_body::Body;

/// The most bytes of a recorded method. The longest registered one has 17.
pub(crate) const MAX_METHOD: usize = 32;
/// The most bytes of a recorded route and authority. The name of a host has 253 at most.
pub(crate) const MAX_TEXT: usize = 512;

/// Whether a request has a text that is too long. Such texts are [cut]. Otherwise whoever sends
/// a request would choose the size of its events, up to one that no session takes.
#[inline]
pub(crate) fn is_long(method: &str, others: &[&str]) -> bool {
    method.len() > MAX_METHOD || others.iter().any(|text| text.len() > MAX_TEXT)
}

/// A text for an event. One of more than `most` bytes is cut, and ends with `…` then, as in
/// tracepoints.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    const MARK: char = '…';
    if text.len() <= most {
        return text.into();
    }
    let room = most.saturating_sub(MARK.len_utf8());
    let end = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let mut cut = String::with_capacity(most);
    cut.push_str(&text[..end]);
    cut.push(MARK);
    cut.into()
}

/// The bytes of the body, as the body itself knows or as its header says.
pub(crate) fn size<B: Body>(headers: &HeaderMap, body: &B) -> Option<u64> {
    let header = || headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    body.size_hint().exact().or_else(header)
}

/// The route that axum has matched, or the method of a call of gRPC.
///
/// Anybody can claim to speak gRPC, so a pattern comes first. That of a service of gRPC would hide
/// the method: `/package.Service/{*rest}`.
pub(crate) fn route(request: &Parts) -> Option<&str> {
    match matched_path(request) {
        Some(pattern) if !pattern.contains("{*") => Some(pattern),
        pattern => grpc_method(request).or(pattern),
    }
}

/// The method of a call of gRPC, `/package.Service/Method`. This is the path, which has no
/// parameters in gRPC.
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
