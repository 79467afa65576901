//! Tail decisions: streams by hand against a model, sessions, sinks that fail, and processes that
//! are killed.

mod faults;
#[cfg(unix)]
mod killed;
mod model;
#[cfg(all(feature = "persistent", target_os = "linux", target_pointer_width = "64"))]
mod recorder;
mod sessions;
mod support;
