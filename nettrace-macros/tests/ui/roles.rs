use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Span {
    #[trace_event(start)]
    a: u64,
    #[trace_event(start)]
    b: u64,
    #[trace_event(end, description)]
    c: u64,
    #[trace_event(skip, end)]
    d: u64,
}

fn main() {}
