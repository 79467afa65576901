//! The common part of the example programs: where the trace goes, how the program ends, and how
//! fast it emits.
//!
//! - `dirscan`: worker threads walk and hash real files, and emit an event for each.
//! - `all_types`: emits every type that a field can have, with known values ([`types`]).
//! - `stress`: emits as many events as the machine can, and counts them twice.
//! - `stream`: writes the trace to standard output, for a pipe.
//! - `killme`: emits until it is killed.
//! - `user_events`: a service that emits only through Linux tracepoints.
//! - `both`: one struct and one emit, for a file and a tracepoint.
//!
//! The package `service` beside this one has a service on axum, and that of the guide.
//!
//! Each program prints its numbers as one JSON object on its last line. It exits
//! with 0 on success, 1 on failure, and 2 if its arguments are wrong.

pub mod counts;
pub mod outcome;
pub mod output;
pub mod pace;
pub mod types;
