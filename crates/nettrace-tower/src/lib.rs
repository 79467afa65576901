//! Layers for [tower] that record each HTTP request as a span of a NetTrace trace.
//!
//! [`ServerLayer`] is for services: axum, tonic, or hyper. It records one span a request, from the
//! request's head to the last byte of the response. [`ClientLayer`] is for clients: it records a
//! span inside the one in force, and sends its ids on. A service behind others
//! [trusts](ServerLayer::trust_callers) the ids that it is sent. So one trace shows a request
//! through several services. A service at the edge does not: there each request begins a trace.
//!
//! ```
//! use axum::{Router, routing::get};
//! use http::Request;
//! use nettrace_tower::{PROVIDER, ServerLayer};
//! use nettrace_writer::{Session, sink::MemorySink};
//! use tower::ServiceExt as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = MemorySink::new();
//! let session = Session::builder().sink(memory.clone()).provider(PROVIDER).start()?;
//!
//! let app = Router::new()
//!     .route("/cart/{user}", get(async || "empty"))
//!     .layer(ServerLayer::new());
//! let request = Request::get("/cart/7").body(axum::body::Body::empty())?;
//! drop(app.oneshot(request).await?);
//!
//! // A ServerRequestStart and a ServerRequestStop.
//! assert_eq!(session.finish()?.written, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # What is recorded
//!
//! All events have the provider [`PROVIDER`]. Those of a server have the keyword
//! [`KEYWORD_SERVER`], those of a client [`KEYWORD_CLIENT`]. Their labels are the ids of the span.
//!
//! | event | fields |
//! |---|---|
//! | `ServerRequestStart` | `method`, of 32 bytes at most; `route`: the pattern that has matched, or the method of a call of gRPC, empty if unknown; `peer` |
//! | `ClientRequestStart` | `method`; `route`; `authority`: host and port |
//! | `ServerRequestStop`, `ClientRequestStop` | `duration`, `outcome`, `polls` and `busy`, as for all spans; `status`, 0 without a response; `request_bytes`, if the request says how long its body is; `response_bytes`, counted; `grpc_status`, if there is one |
//!
//! Routes and authorities have 512 bytes at most. A text that was cut ends with `…`. Other texts of
//! a request are not recorded.
//!
//! # What it costs
//!
//! The layers allocate nothing for a request, except for three things. Headers that a client sends
//! are text on the heap, as the crate `http` keeps them. A `tracestate` is copied where it arrives
//! from a trusted caller and where it is sent on. A text that is cut is copied. (An axum router
//! puts each response's body into a box of its own when a layer changes its type, as these do.)
//!
//! # Features
//!
//! - `axum`, on by default: the route and the peer of a request, as axum 0.8 knows them. A service
//!   without axum builds less with `default-features = false`.
//!
//! [tower]: https://docs.rs/tower

mod body;
mod client;
mod events;
mod future;
mod headers;
mod request;
mod server;
mod tracked;

pub use crate::{
    body::TracedBody,
    client::{Client, ClientLayer},
    events::{KEYWORD_CLIENT, KEYWORD_SERVER, PROVIDER},
    future::ResponseFuture,
    headers::{extract, inject},
    server::{Server, ServerLayer},
};

/// The README, so that the tests compile its examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
