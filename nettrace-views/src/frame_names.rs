//! Names of frames, for programs that keep stacks themselves.

use nettrace_reader::{Event, Metadata};

use crate::stacks::{self, Lesson, Symbols};

/// What a trace has said of code so far: methods and modules of .NET, mappings and symbols.
#[derive(Debug, Default)]
pub struct FrameNames(Symbols);

impl FrameNames {
    /// The innermost frame of a sample that was in code that is not managed.
    pub const EXTERNAL: &'static str = stacks::EXTERNAL;

    /// Whether events of a type are samples.
    #[must_use]
    pub fn is_sample(metadata: &Metadata) -> bool {
        stacks::is_sample(metadata)
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

    /// Notes what an event says of the code of a process.
    pub fn learn(&mut self, event: &Event<'_>, process: Option<u64>) {
        if let Some(lesson) = Lesson::of(event.metadata()) {
            self.0.learn(lesson, event, process);
        }
    }

    /// The name of the frame at an address: `module!function`, `module+0x1f0`, or the address.
    #[must_use]
    pub fn name(&self, process: Option<u64>, address: u64) -> String {
        self.0.find(process, address).name(address)
    }
}
