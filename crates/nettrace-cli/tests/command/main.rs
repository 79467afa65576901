//! Runs the command on bytes, files and pipes: what it shows, converts and reports. One program,
//! so that the libraries are linked once.

mod convert;
mod convert_command;
mod convert_heph;
mod convert_judge;
mod convert_lines;
mod convert_older;
mod convert_parquet;
mod convert_perfetto;
#[path = "../convert_support/mod.rs"]
mod convert_support;
mod diff;
mod dump;
mod errors;
#[path = "../escapes/mod.rs"]
mod escapes;
mod filters;
mod heph;
mod heph_spans;
mod info;
mod judge;
mod judge_dotnet;
mod logs;
mod odd_forms;
mod one_collect;
mod processes;
#[path = "../program/mod.rs"]
mod program;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod recover;
mod redact;
mod reference;
mod report;
mod report_browser;
mod report_serve;
mod runtime_events;
mod spans;
mod spans_random;
mod tree;
mod tree_choice;
mod usage;
mod view;
