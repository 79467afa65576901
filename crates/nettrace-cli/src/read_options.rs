//! Options for reading traces.

use nettrace_reader::{Dialect, Options};

/// How traces are read: limits on memory, for untrusted sources, the dialect, the clocks.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ReadOptions {
    /// Limit on the memory for events that wait to be sorted, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, global = true)]
    sort_limit: usize,
    /// Limit on the memory for threads, event types, stacks and labels, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, global = true)]
    definitions_limit: usize,
    /// Count losses as the reference reader (TraceEvent) does, where it differs from the
    /// specification; verify: also report what that reader refuses or misreads
    #[arg(long, global = true)]
    reference: bool,
    /// For traces of several processes: align their clocks by spans of one whose parent is in
    /// another, so that a request is not answered before it is sent. The traces are read twice
    #[arg(long, global = true)]
    pub(crate) align_clocks: bool,
    /// Whether the source is several streams of one recording.
    #[arg(skip)]
    pub(crate) joined: bool,
    /// Whether the source is a file, in which another trace may stand behind the first.
    #[arg(skip)]
    pub(crate) is_file: bool,
}

impl ReadOptions {
    /// The limit on definitions, in bytes.
    pub(crate) fn definitions(self) -> usize {
        self.definitions_limit.saturating_mul(1 << 20)
    }

    pub(crate) fn options(self) -> Options {
        let dialect = if self.reference { Dialect::Reference } else { Dialect::default() };
        Options::default()
            .dialect(dialect)
            .joined(self.joined)
            .alone(self.is_file)
            .sort_limit(self.sort_limit.saturating_mul(1 << 20))
            .definitions_limit(self.definitions())
    }
}
