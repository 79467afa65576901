//! Code that the benchmarks share.
//!
//! Code map: [`floor`] is the least work that any recorder must do. [`clock`] is the counter that
//! it reads. [`events`] are the events that are recorded, [`requests`] are requests without a
//! network. [`options`] parses the command line. [`report`] prints results. [`machine`] asks the
//! system about memory. [`disassembly`] looks at what the compiler made of a function.

pub mod clock;
pub mod disassembly;
pub mod events;
pub mod floor;
pub mod machine;
pub mod options;
pub mod report;
pub mod requests;
