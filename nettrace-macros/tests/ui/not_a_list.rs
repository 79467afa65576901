use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event = "Contoso"]
#[trace_event]
#[trace_event(crate = nettrace_event)]
struct Request {
    #[trace_event(rename "x")]
    bytes: u64,
}

fn main() {}
