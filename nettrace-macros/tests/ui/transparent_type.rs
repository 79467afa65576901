use nettrace_macros::{TraceEvent, TraceField};

struct Connection;

#[derive(TraceField)]
#[trace_event(crate = trace_event, transparent)]
struct Wrapper(Connection);

#[derive(TraceEvent)]
#[trace_event(crate = trace_event)]
struct Opened {
    wrapper: Wrapper,
}

fn main() {}
