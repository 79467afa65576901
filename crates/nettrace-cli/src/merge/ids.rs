//! Ids that tell processes of different recordings apart.

use std::collections::{HashMap, HashSet};

/// What tells processes of different recordings apart that have the same id.
const PROCESSES: u64 = 10_000_000;

/// The ids of processes in the result.
#[derive(Debug, Default)]
pub(super) struct ProcessIds {
    /// By the recording, and the id there.
    given: HashMap<(usize, u64), u64>,
    taken: HashSet<u64>,
    /// The last id that was tried for ids with the same remainder by [`PROCESSES`].
    tried: HashMap<u64, u64>,
}

impl ProcessIds {
    /// The id of a process of a recording.
    pub(super) fn of(&mut self, recording: usize, id: u64) -> u64 {
        let Self { given, taken, tried } = self;
        *given.entry((recording, id)).or_insert_with(|| {
            if taken.insert(id) {
                return id;
            }
            // None is tried twice, however many processes have such ids.
            let last = tried.entry(id % PROCESSES).or_insert(id);
            *last = (*last).max(id);
            loop {
                *last = last.wrapping_add(PROCESSES);
                if taken.insert(*last) {
                    return *last;
                }
            }
        })
    }
}
