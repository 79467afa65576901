//! Names of frames, for programs that keep stacks themselves.

use nettrace_reader::{Event, Metadata};

use crate::{
    model::process_id,
    stacks::{self, Lesson, Observed, Symbols},
};

/// What a trace has said of code so far: methods and modules of .NET, mappings and symbols, and
/// the names of processes.
#[derive(Debug, Default)]
pub struct FrameNames(Symbols);

impl FrameNames {
    /// The innermost frame of a sample that was in code that is not managed.
    pub const EXTERNAL: &'static str = stacks::EXTERNAL;

    /// Whether events of a type are samples.
    #[must_use]
    pub fn is_sample(metadata: &Metadata) -> bool {
        Observed::of(metadata) == Some(Observed::Running)
    }

    /// Whether a sample was in code that is not managed.
    #[must_use]
    pub fn is_external(event: &Event<'_>) -> bool {
        stacks::is_external(event)
    }

    /// Whether events of a type name code.
    #[must_use]
    pub fn is_lesson(metadata: &Metadata) -> bool {
        Lesson::of(metadata).is_some()
    }

    /// Notes what an event says of its process, if it says anything.
    pub fn learn(&mut self, event: &Event<'_>) {
        if let Some(lesson) = Lesson::of(event.metadata()) {
            self.0.learn(lesson, event, process_id(event));
        }
    }

    /// Whether anything is known of code. Otherwise all frames are called by their addresses.
    #[must_use]
    pub fn knows_code(&self) -> bool {
        self.0.knows_code()
    }

    /// The name of the frame at an address: `module!function`, `module+0x1f0`,
    /// `vmlinux!0xffffffff81000fd1`, or the address.
    #[must_use]
    pub fn name(&self, process: Option<u64>, address: u64) -> String {
        self.0.find(process, address).name(address)
    }
}
