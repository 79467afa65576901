//! The protocol by which threads hand rows to the flusher: chunks of memory, records of threads,
//! headers of rows, clocks and barriers. Everything that is not proved by the compiler's rules
//! alone, and that the loom models check, is here.
//!
//! [`record`] has the proof that no event is missed or torn.

pub(crate) mod barrier;
pub(crate) mod chunk_header;
#[cfg(not(nettrace_loom))]
pub(crate) mod clock;
pub(crate) mod idle;
pub(crate) mod memory;
pub(crate) mod pool;
pub(crate) mod record;
pub(crate) mod room;
pub(crate) mod row;
