//! The definitions that later events need of those that were given up: types, and the threads that
//! live.

use std::collections::BTreeMap;

use nettrace_format::v6::{self, BlockKind, read};

use super::{Part, Store};

/// The types and threads that blocks have defined.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions {
    /// Whole blocks.
    types: Vec<u8>,
    threads: Threads,
}

impl Definitions {
    /// How many bytes it takes.
    pub(super) fn size(&self) -> usize {
        self.types.len() + self.threads.bytes
    }

    /// Adds what these blocks define.
    pub(super) fn take_over(&mut self, blocks: &[u8]) -> Result<(), read::Malformed> {
        for block in read::blocks(blocks) {
            let block = block?;
            if block.is(BlockKind::Metadata) {
                self.types.extend_from_slice(block.whole);
            } else {
                self.threads.note(&block)?;
            }
        }
        Ok(())
    }

    /// The blocks that define it.
    pub(super) fn part(&self) -> Result<Part, read::Malformed> {
        let mut bytes = self.types.clone();
        self.threads.write(&mut bytes)?;
        let ends = read::block_ends(&bytes)?;
        Ok(Part::new(Store::Memory(bytes), ends, 0))
    }
}

/// The rows of the threads that live.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads {
    rows: BTreeMap<u64, Box<[u8]>>,
    bytes: usize,
}

impl Threads {
    /// Keeps up with which threads a block defines or removes.
    pub(super) fn note(&mut self, block: &read::Block<'_>) -> Result<(), read::Malformed> {
        if block.is(BlockKind::Thread) {
            for (index, row) in read::thread_rows(block.body)? {
                self.bytes += row.len();
                let before = self.rows.insert(index, row.into());
                self.bytes -= before.map_or(0, |row| row.len());
            }
        } else if block.is(BlockKind::RemoveThread) {
            for of in read::thread_sequences(block.body)? {
                let before = self.rows.remove(&of.thread);
                self.bytes -= before.map_or(0, |row| row.len());
            }
        }
        Ok(())
    }

    /// Writes the blocks that define them.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), read::Malformed> {
        let rows: Vec<_> = self.rows.values().map(|row| &**row).collect();
        Ok(v6::thread_block(&rows.concat(), out)?)
    }
}
