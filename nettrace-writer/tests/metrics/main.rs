//! Counters, gauges and histograms: the module `metrics`.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

#[cfg(feature = "metrics_facade")]
mod facade;
mod reports;
mod sums;
