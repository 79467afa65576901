use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Request {
    #[trace_event(format = port)]
    number: u32,
}

fn main() {}
