//! What a conversion could not say, by kind.

/// How many of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Events whose payload, in the types of the target, is too large.
    pub(super) large_events: u64,
    /// Events whose payload has to be told value by value, but is not what their type says.
    pub(super) strange_events: u64,
    /// Events whose payload has bytes behind the fields of their type, which are not told.
    pub(super) longer_events: u64,
    /// Times before the clock of the trace began, which became its beginning.
    pub(super) early_times: u64,
    /// Labels of events.
    pub(super) labels: u64,
    /// Stacks.
    pub(super) stacks: u64,
    /// Stacks that events refer to and that the source does not define.
    pub(super) undefined_stacks: u64,
    /// Names of threads.
    pub(super) thread_names: u64,
    /// Key-values of threads.
    pub(super) thread_key_values: u64,
    /// Processes of threads: not that of the trace.
    pub(super) thread_processes: u64,
    /// Ids of threads, which another thread of the result has.
    pub(super) thread_ids: u64,
    /// Places from which on the numbers of a thread are others.
    pub(super) numbers: u64,
    /// Events that were lost of threads, which are missing in the result in another way.
    pub(super) losses: u64,
    /// Key-values of the trace.
    pub(super) key_values: u64,
    /// Event types without what they say of themselves.
    pub(super) type_texts: u64,
    /// Event types without their fields.
    pub(super) type_fields: u64,
    /// Event types whose level or event id became another.
    pub(super) type_numbers: u64,
    /// Blocks of kinds that are newer than this program.
    pub(super) unknown_blocks: u64,
}

impl LeftOut {
    /// What there is any of: how many, and what.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, &'static str)> {
        [
            (self.large_events, "events, whose payload would be too large"),
            (self.strange_events, "events, whose payload is not what their type says"),
            (self.longer_events, "events' bytes behind the fields of their type"),
            (self.early_times, "events' times before the trace's beginning, which became that"),
            (self.labels, "labels of events"),
            (self.stacks, "stacks"),
            (self.undefined_stacks, "events' stacks, which the source does not define"),
            (self.thread_names, "names of threads"),
            (self.thread_key_values, "key-values of threads"),
            (self.thread_processes, "processes of threads"),
            (self.thread_ids, "ids of threads, which other threads have too"),
            (self.numbers, "threads' numbers, which began in the middle and now begin with 1"),
            (self.losses, "losses of threads that have no events"),
            (self.key_values, "key-values of the trace"),
            (self.type_texts, "event types' texts, key-values, opcodes or GUIDs"),
            (self.type_fields, "event types' fields; their payloads are as they were"),
            (self.type_numbers, "event types' levels or ids, which became others"),
            (self.unknown_blocks, "blocks of unknown kinds"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
    }

    /// All kinds together.
    pub(super) fn total(&self) -> u64 {
        self.lines().map(|(count, _)| count).sum()
    }
}
