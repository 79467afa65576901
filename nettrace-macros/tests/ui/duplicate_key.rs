use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, id = 3, name = "A", id = 4)]
#[trace_event(name = "B")]
struct Request {
    #[trace_event(skip, skip)]
    bytes: u64,
}

fn main() {}
