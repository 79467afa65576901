//! The bytes of each format: by hand, as golden files, read back, and by the reference reader.
//! One program, so that the libraries are linked once.

mod bytes;
mod closing;
mod compose;
mod golden;
mod heph;
mod heph_events;
mod heph_reader;
mod heph_spans;
mod heph_stream;
mod heph_support;
mod judge_blocks;
mod judge_older;
mod judge_values;
mod limits;
mod older_bytes;
mod older_limits;
mod older_payloads;
mod rows;
mod stages;
mod support;
mod walk;
