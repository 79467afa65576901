//! What the example programs have in common: where the trace goes, how it ends, how fast to emit.
//!
//! - `dirscan`: worker threads walk and hash real files, with an event for each.
//! - `all_types`: every type that a field can have, with known values ([`types`]).
//! - `stress`: as many events as a machine can, counted twice.
//! - `stream`: the trace goes to standard output, for a pipe.
//! - `killme`: emits until it is killed.
//! - `user_events`: a service that emits through Linux tracepoints alone.
//! - `both`: one struct and one emit, for a file and a tracepoint.
//!
//! Each prints its numbers as one JSON object on its last line and exits with 0 when all went well, 1
//! when not, 2 when its arguments make no sense.

pub mod outcome;
pub mod output;
pub mod pace;
pub mod types;
