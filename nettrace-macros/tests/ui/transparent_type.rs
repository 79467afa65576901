use nettrace_macros::{TraceEvent, TraceField};

struct Connection;

#[derive(TraceField)]
#[trace_event(crate = nettrace_event, transparent)]
struct Wrapper(Connection);

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Opened {
    wrapper: Wrapper,
}

fn main() {}
