// In the repository the pages link to the program. Here it is in the text, so the link leads there.
//! [service]: #in-a-service
//!
#![doc = include_str!("../docs/guide.md")]
//! ```rust,ignore
#![doc = include_str!("../docs/service.rs")]
//! ```
#![doc = include_str!("../docs/guide_running.md")]
