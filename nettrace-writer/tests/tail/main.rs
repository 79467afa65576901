//! Tail decisions: streams by hand against a model, sessions, sinks that fail, and processes that
//! are killed.

mod faults;
#[cfg(unix)]
mod killed;
mod model;
mod sessions;
mod support;
