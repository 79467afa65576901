//! Small V6 streams by hand, and a reader as strict as the reference reader.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::process::Command;

use nettrace_writer::sink::{Batch, Sink, StreamEnd, WriteError};
use testkit::{
    process::this_program,
    reference::{self, Trace},
};

/// The end of a V6 stream.
pub(crate) const END: &[u8] = &[0; 4];
pub(crate) const STREAM_END: StreamEnd = StreamEnd::new(END);

/// Stream header and Trace block.
pub(crate) fn header() -> Vec<u8> {
    let mut header = b"Nettrace".to_vec();
    header.extend([0_u32, 6, 0].map(u32::to_le_bytes).concat());
    let mut trace = [2026_u16, 11, 6, 21, 1, 2, 3, 4].map(u16::to_le_bytes).concat();
    trace.extend([1_000_u64, 1_000_000_000].map(u64::to_le_bytes).concat());
    trace.extend([8_u32, 0].map(u32::to_le_bytes).concat());
    header.extend(block(1, &trace));
    header
}

/// Makes a block of kind 1 (Trace) or 6 (Thread).
fn block(kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut block = (payload.len() as u32 | kind << 24).to_le_bytes().to_vec();
    block.extend_from_slice(payload);
    block
}

/// A Thread block that declares the threads `first..first + count`, one row each.
pub(crate) fn threads(first: u64, count: u64) -> Vec<u8> {
    let mut rows = Vec::new();
    for mut index in first..first + count {
        let row = rows.len();
        rows.extend([0, 0]);
        while index > 0x7F {
            rows.push(index as u8 | 0x80);
            index >>= 7;
        }
        rows.push(index as u8);
        let size = (rows.len() - row - 2) as u16;
        rows[row..row + 2].copy_from_slice(&size.to_le_bytes());
    }
    block(6, &rows)
}

/// Batches of blocks, `size` bytes altogether or a little more. Each batch of a run declares new
/// threads.
#[derive(Debug)]
pub(crate) struct Blocks {
    next: u64,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self { next: 1 }
    }

    pub(crate) fn batch(&mut self, blocks: usize, rows: u64) -> Vec<Vec<u8>> {
        let mut batch = Vec::new();
        for _ in 0..blocks {
            batch.push(threads(self.next, rows));
            self.next += rows;
        }
        batch
    }
}

/// Hands blocks to a sink, each block in two pieces.
pub(crate) fn write(sink: &mut dyn Sink, blocks: &[Vec<u8>]) -> Result<(), WriteError> {
    let mut pieces = Vec::new();
    let mut block_ends = Vec::new();
    let mut end = 0;
    for block in blocks {
        let (start, rest) = block.split_at(block.len() / 3);
        pieces.extend([IoSlice::new(start), IoSlice::new(rest)]);
        end += block.len() as u64;
        block_ends.push(end);
    }
    sink.write(&Batch::new(&pieces, &block_ends))
}

/// The content of the stream, without its end.
///
/// # Panics
/// If a reader would refuse it.
pub(crate) fn visible(content: &[u8]) -> &[u8] {
    let header = header();
    assert!(content.starts_with(&header), "no header in {} bytes", content.len());
    let mut offset = header.len();
    loop {
        let start = content.get(offset..offset + 4).expect("no end of stream");
        let word = u32::from_le_bytes(start.try_into().unwrap());
        let length = (word & 0xFF_FFFF) as usize;
        assert!(offset + 4 + length <= content.len(), "a block at {offset} beyond the end");
        match word >> 24 {
            0 => return &content[..offset],
            6 => offset += 4 + length,
            other => panic!("block kind {other} at {offset}"),
        }
    }
}

/// Asserts that a file is complete and that nothing follows its end. Returns its visible length.
pub(crate) fn complete(path: &Path) -> Vec<u8> {
    let content = std::fs::read(path).unwrap();
    let stream = visible(&content).to_vec();
    assert_eq!(content.len(), stream.len() + END.len(), "bytes behind the end of stream");
    stream
}

/// Asks the reference reader, if there is one.
pub(crate) fn judged(path: &Path) {
    if let Some(verdict) = reference::ask(&["summary"], Trace::File(path)) {
        verdict.assert_accepted();
    }
}

/// Runs the ignored test `name` of this test program in a process of its own, to work on `path`.
pub(crate) fn child(name: &str, path: &Path) -> Command {
    let mut command = this_program();
    command.args(["--exact", name, "--ignored", "--nocapture"]).env("NETTRACE_SINK_TEST", path);
    command
}

/// The path that [`child`] was given.
pub(crate) fn child_path() -> Option<PathBuf> {
    std::env::var_os("NETTRACE_SINK_TEST").map(PathBuf::from)
}
