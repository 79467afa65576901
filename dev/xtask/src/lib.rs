//! Commands and packages, for the programs that run the former on the latter: `xtask` itself, and
//! `measure` in `benches`.

#![allow(clippy::missing_errors_doc, clippy::must_use_candidate, reason = "for our programs alone")]

pub mod step;
pub mod workspace;
