#![doc = include_str!("../docs/guide.md")]
//! ```rust,ignore
#![doc = include_str!("../docs/service.rs")]
//! ```
#![doc = include_str!("../docs/guide_running.md")]
