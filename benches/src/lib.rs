//! What the benchmarks share.
//!
//! Code map: [`floor`] is the least that any recorder must do, [`clock`] the counter that it reads,
//! [`events`] what is recorded, [`options`] the command line, [`report`] how a result is printed,
//! [`machine`] what the system says of memory, [`disassembly`] what the compiler made of a
//! function, [mod@reference] finds the tools of other makers that
//! stand beside the workspace.

pub mod clock;
pub mod disassembly;
pub mod events;
pub mod floor;
pub mod machine;
pub mod options;
pub mod reference;
pub mod report;
