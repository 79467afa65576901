//! The memory of a session: the chunks of its budget, in the process or in a recorder file.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    protocol::pool::{self, Pool},
    shared::{
        error::Error,
        persistent::{Persistent, Recovered},
    },
    sink::{file_name, ring::Ring},
};

/// The size of the chunks that a thread takes while it writes little, in bytes.
const SMALL_CHUNK: usize = 2_048;

/// The chunk sizes that a caller may set, in bytes.
const CHUNK_SIZES: RangeInclusive<usize> = 4_096..=1_048_576;

/// The fewest chunks that a session needs.
const LEAST_CHUNKS: usize = 4;

/// The room that one event of the largest size needs, in bytes: payload, labels, stack and headers.
const JUMBO_SIZE: usize = 80 << 10;

/// For how many events of the largest size a budget reserves room, beside its chunks.
fn jumbos(budget: usize) -> usize {
    (budget / (16 * JUMBO_SIZE)).clamp(1, 32)
}

/// The smallest budget for chunks of this size.
fn least_budget(chunk_size: usize) -> usize {
    let mut least = 0;
    loop {
        let needed = jumbos(least) * JUMBO_SIZE + LEAST_CHUNKS * chunk_size;
        if needed <= least {
            return least;
        }
        least = needed;
    }
}

/// The size of a session's memory, and its place.
pub(crate) struct MemorySettings {
    /// Bytes for events that are not yet written.
    pub(crate) budget: usize,
    /// Bytes of a chunk. `None`: as suits the budget.
    pub(crate) chunk_size: Option<usize>,
    /// Bytes of the budget that the session touches at its start.
    pub(crate) prefault: usize,
    /// The file that keeps the memory beyond the end of the process.
    pub(crate) recorder_file: Option<PathBuf>,
    /// Tells why the session has no recorder file. `None`: then it does not start.
    pub(crate) without_recorder_file: Option<fn(&Error)>,
    /// Where the trace goes that is made of the recorder file of the process before.
    pub(crate) recover_to: Option<PathBuf>,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            budget: 64 << 20,
            chunk_size: None,
            prefault: 4 << 20,
            recorder_file: None,
            without_recorder_file: None,
            recover_to: None,
        }
    }
}

/// The memory of a session.
pub(crate) struct Memory {
    pub(crate) pool: Pool,
    pub(crate) persistent: Option<Arc<Persistent>>,
    /// The remains of the process before.
    pub(crate) recovered: Option<Recovered>,
}

impl MemorySettings {
    /// The division of the budget into chunks.
    pub(crate) fn layout(&self) -> Result<pool::Layout, Error> {
        let chunk_size = match self.chunk_size {
            Some(size) if CHUNK_SIZES.contains(&size) => size.next_multiple_of(64),
            Some(given) => {
                let (least, most) = (*CHUNK_SIZES.start(), *CHUNK_SIZES.end());
                return Err(Error::ChunkSize { given, least, most });
            }
            // Large chunks cost fewer instructions an event. Small ones serve more threads.
            None if self.budget >= 32 << 20 => 64 << 10,
            None => (self.budget / 64).next_power_of_two().clamp(*CHUNK_SIZES.start(), 32 << 10),
        };
        let jumbos = jumbos(self.budget);
        let chunks = self.budget.saturating_sub(jumbos * JUMBO_SIZE) / chunk_size;
        if chunks < LEAST_CHUNKS {
            let least = least_budget(chunk_size);
            return Err(Error::BudgetTooSmall { given: self.budget, chunk_size, least });
        }
        // Chunks of less than twice the smallest size are not split.
        let parts = if chunk_size < 2 * CHUNK_SIZES.start() { 1 } else { chunk_size / SMALL_CHUNK };
        // Each part of a chunk has a number of its own.
        let most = (1 << 28) / parts;
        let Ok(chunks) = u32::try_from(chunks.min(most)) else { unreachable!("at most 2^28") };
        let parts = parts as u32;
        Ok(pool::Layout {
            chunk_size,
            chunks,
            parts,
            jumbo_size: JUMBO_SIZE,
            jumbos: jumbos as u32,
        })
    }

    /// The number of chunks that the session touches at its start.
    pub(crate) fn prefaulted_chunks(&self, layout: &pool::Layout) -> u32 {
        (self.prefault.min(self.budget) / layout.chunk_size) as u32
    }

    /// Does without a recorder file, if the session may.
    ///
    /// # Errors
    /// The reason, if it may not.
    pub(crate) fn leave_out_recorder_file(&mut self, reason: Error) -> Result<(), Error> {
        let Some(tell) = self.without_recorder_file else { return Err(reason) };
        tell(&reason);
        self.recorder_file = None;
        Ok(())
    }

    /// The session's memory, and what the process before has left in its recorder file.
    pub(crate) fn build(
        mut self,
        layout: pool::Layout,
        ring: Option<&Arc<Ring>>,
    ) -> Result<Memory, Error> {
        if let Some(path) = self.recorder_file.take() {
            match self.in_recorder_file(&path, layout, ring) {
                Err(error @ Error::Recorder(_)) => self.leave_out_recorder_file(error)?,
                made => return made,
            }
        }
        let too_large = Error::BudgetTooLarge { given: self.budget };
        let pool = Pool::new(layout).ok_or(too_large)?;
        Ok(Memory { pool, persistent: None, recovered: None })
    }

    fn in_recorder_file(
        &mut self,
        path: &Path,
        layout: pool::Layout,
        ring: Option<&Arc<Ring>>,
    ) -> Result<Memory, Error> {
        let path = file_name::expand_path(path)?;
        let to = self.recover_to.take().map(|to| file_name::expand_path(&to)).transpose()?;
        let kept = ring.map_or(0, |ring| ring.keep().bytes);
        let made = Persistent::create(&path, layout, kept, to.as_deref());
        let (persistent, pool, recovered) = made.map_err(Error::Recorder)?;
        if let Some(ring) = ring {
            ring.keep_in(persistent.log().map_err(Error::Recorder)?);
        }
        Ok(Memory { pool, persistent: Some(Arc::new(persistent)), recovered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_that_an_error_names_is_enough() {
        let fits = |budget, chunk_size| {
            let settings = MemorySettings { budget, chunk_size, ..MemorySettings::default() };
            settings.layout().map(|layout| layout.chunks)
        };
        for chunk_size in [None, Some(4_096), Some(4_097), Some(100_000), Some(1 << 20)] {
            let error = fits(1, chunk_size).unwrap_err();
            let Error::BudgetTooSmall { given: 1, least, .. } = error else { panic!("{error}") };
            assert!(fits(least, chunk_size).unwrap() >= 4, "{chunk_size:?} in {least}");
            fits(least - 1, chunk_size).unwrap_err();
        }
        for given in [0, 4_095, 1_048_577, usize::MAX] {
            let error = fits(64 << 20, Some(given)).unwrap_err();
            let Error::ChunkSize { given: told, least: 4_096, most: 1_048_576 } = error else {
                panic!("{error}")
            };
            assert_eq!(told, given);
        }
    }
}
