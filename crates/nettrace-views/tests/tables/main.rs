//! Traces as tables, read back by Arrow's readers and by query engines.

mod engines;
mod hostile;
mod partition;
mod rust_types;
mod spans;
mod support;
mod values;
