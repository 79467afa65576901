//! What samples are, and the names of the frames in their stacks.

use nettrace_reader::{Event, Metadata};

use crate::model::{
    process_id,
    symbols::{Lesson, Symbols},
};

/// What a trace has said of code so far: methods and modules of .NET, mappings and symbols, and
/// the names of processes.
#[derive(Debug, Default)]
pub struct FrameNames(Symbols);

impl FrameNames {
    /// The innermost frame of a sample that was in code that is not managed.
    pub const EXTERNAL: &'static str = EXTERNAL;

    /// Whether events of a type are samples.
    #[must_use]
    pub fn is_sample(metadata: &Metadata) -> bool {
        Observed::of(metadata) == Some(Observed::Running)
    }

    /// Whether a sample was in code that is not managed.
    #[must_use]
    pub fn is_external(event: &Event<'_>) -> bool {
        is_external(event)
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

/// The frame that samples of .NET have as their innermost one if the thread was in code that is not
/// managed: it worked there, or waited.
pub(crate) const EXTERNAL: &str = "(native code or waiting)";

/// What a thread was observed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    /// It was on a processor: a sample.
    Running,
    /// It goes on after it was switched out: a context switch. Its stack is where it waited.
    Waiting,
}

impl Observed {
    /// What events of a type say: those of .NET's sampler and those of the provider that the
    /// format's authors reserve for all platforms.
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        match (&*metadata.provider, &*metadata.name) {
            // The only event of this provider. Versions 4 and 5 have no name for it.
            ("Microsoft-DotNETCore-SampleProfiler", _) if metadata.event_id == 0 => {
                Some(Self::Running)
            }
            ("Universal.Events", "cpu") => Some(Self::Running),
            ("Universal.Events", "cswitch") => Some(Self::Waiting),
            _ => None,
        }
    }
}

/// Whether a sample was in code that is not managed.
pub(crate) fn is_external(event: &Event<'_>) -> bool {
    let is_dotnet = event.metadata().provider.starts_with("Microsoft-DotNETCore");
    // The payload is the kind of the sample: 1 for code that is not managed.
    is_dotnet && event.payload.first_chunk() == Some(&[1, 0, 0, 0])
}
