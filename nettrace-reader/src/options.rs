//! What a caller chooses before a stream is read.

/// How much memory a reader may take, and what it keeps.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) definitions_limit: usize,
    pub(crate) block_limit: usize,
    pub(crate) sort_limit: usize,
    pub(crate) keep_thread_totals: bool,
    pub(crate) keep_type_totals: bool,
}

impl Default for Options {
    /// 256 MiB for definitions, 64 MiB for one block, 1 GiB for events that wait to be sorted, no
    /// totals of threads or types that are gone.
    fn default() -> Self {
        Self {
            definitions_limit: 256 << 20,
            block_limit: 64 << 20,
            sort_limit: 1 << 30,
            keep_thread_totals: false,
            keep_type_totals: false,
        }
    }
}

impl Options {
    /// About how many bytes the definitions that are valid at one time (threads, event types,
    /// stacks, label lists) may take.
    pub fn definitions_limit(mut self, bytes: usize) -> Self {
        self.definitions_limit = bytes;
        self
    }

    /// How many bytes one block may have. Version 6 allows 16 MiB, versions 4 and 5 allow 2 GiB;
    /// the blocks of real producers have some 100 KiB.
    pub fn block_limit(mut self, bytes: usize) -> Self {
        self.block_limit = bytes;
        self
    }

    /// How many bytes the events may take that wait until the stream says that nothing earlier
    /// comes.
    pub fn sort_limit(mut self, bytes: usize) -> Self {
        self.sort_limit = bytes;
        self
    }

    /// Whether to keep what is known of each thread after the stream removes it. Takes memory for
    /// each thread, within the limit for definitions.
    pub fn keep_thread_totals(mut self, keep: bool) -> Self {
        self.keep_thread_totals = keep;
        self
    }

    /// Whether to keep what is known of each event type after the stream makes its id invalid. Takes
    /// memory for each type, within the limit for definitions.
    pub fn keep_type_totals(mut self, keep: bool) -> Self {
        self.keep_type_totals = keep;
        self
    }
}
