//! The columns of each table, and their values so far.

pub(crate) mod events;
pub(crate) mod payload;
pub(crate) mod span_fields;
pub(crate) mod spans;
pub(crate) mod stacks;
pub(crate) mod times;
