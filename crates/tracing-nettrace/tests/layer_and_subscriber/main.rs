//! Callsites, filters, futures, threads and memory, by the layer and by the subscriber.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests may name atomics and threads"
)]

mod callsites;
mod filters;
mod futures;
mod memory;
mod support;
mod threads;
