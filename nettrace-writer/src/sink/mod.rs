//! Where a trace goes. The flusher hands over whole blocks; only the file sink knows how a file
//! stays complete at every instant, and no sink ever needs to know the format.

mod complete;
mod failure;
mod file;
mod memory;
mod padded;
mod pieces;
#[cfg(not(unix))]
#[path = "portable.rs"]
mod platform;
#[cfg(unix)]
#[path = "unix.rs"]
mod platform;
#[cfg(all(unix, test))]
mod portable; // so that it is compiled and tested where tests run
mod publish;
mod rotate;
mod stream;

use std::io;

pub use file::{FileOptions, FileSink};
pub use memory::MemorySink;
pub use rotate::{RotatingFiles, RotationOptions};
pub use stream::StreamSink;

/// Whole blocks, to be written in order: what one flush adds to a trace.
#[derive(Debug)]
pub struct Batch<'a> {
    /// The bytes, in pieces, so that buffers go to the sink without being copied.
    pub pieces: &'a [io::IoSlice<'a>],
    /// Where each block ends, in bytes from the start of the batch; ascending, the last is the
    /// length of the batch. A sink that fails part-way says how much of the batch stays readable,
    /// always one of these (or 0).
    pub block_ends: &'a [u64],
}

/// Why a batch did not arrive, and how much of it did.
#[derive(Debug)]
pub struct WriteError {
    /// What the operating system said.
    pub source: io::Error,
    /// How many bytes of the batch readers will see: one of [`Batch::block_ends`], or 0. What the
    /// pieces behind it held is lost, and the session counts it.
    pub kept: u64,
}

/// How padding begins: so many bytes, these included and no fewer than these, that readers skip
/// whatever the others are.
pub type Padding = fn(size: u32) -> [u8; 22];

/// Receives a trace. Implement it for a destination of your own, or use [`StreamSink`] for any
/// `Write`.
///
/// Called from the flusher thread alone. After a call has failed nothing more arrives: the sinks of
/// this crate answer each later batch with the kind of the first error, and keep 0 of it.
pub trait Sink: Send {
    /// Starts a stream: `header` opens it, `end_of_stream` is what a complete stream ends with. Its
    /// length, 16 bytes at most, is also the length of the shortest prefix that tells a block from
    /// the end, and no block is shorter; it is empty for formats without an end. Called once, and
    /// again after [`wants_restart`](Self::wants_restart) said so; a stream that is already open is
    /// finished first.
    ///
    /// # Errors
    /// What kept the stream from being opened.
    fn start(&mut self, header: &[u8], end_of_stream: &'static [u8]) -> io::Result<()>;

    /// Starts a stream of a format without an end of stream, in which readers skip padding. That is
    /// for sinks which have use for it, to keep a file complete; to the others it is
    /// [`start`](Self::start) with an empty end. No block is shorter than what padding begins with.
    ///
    /// # Errors
    /// As with [`start`](Self::start).
    fn start_padded(&mut self, header: &[u8], padding: Padding) -> io::Result<()> {
        let _ = padding;
        self.start(header, &[])
    }

    /// Adds whole blocks.
    ///
    /// # Errors
    /// What went wrong, and how much of the batch arrived all the same.
    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError>;

    /// Whether the next batch should open a stream of its own (rotation). `next` is about its size
    /// in bytes; an estimate that is too low lets a file grow beyond its bound by the difference.
    fn wants_restart(&mut self, next: u64) -> bool {
        let _ = next;
        false
    }

    /// Ends the stream; nothing is written afterwards.
    ///
    /// # Errors
    /// What kept the stream from being ended. A regular file needs nothing to be written for that.
    fn finish(&mut self) -> io::Result<()>;
}
