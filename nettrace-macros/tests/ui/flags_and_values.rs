use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, name, id)]
struct Request {
    #[trace_event(skip = true)]
    bytes: u64,
    #[trace_event(encoding)]
    text: String,
}

fn main() {}
