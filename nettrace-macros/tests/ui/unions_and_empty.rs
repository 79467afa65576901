use nettrace_macros::{TraceEvent, TraceField};

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
union Either {
    a: u32,
    b: f32,
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
enum Never {}

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
union Other {
    a: u32,
    b: f32,
}

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
struct Nothing;

fn main() {}
