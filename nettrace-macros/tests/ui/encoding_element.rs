use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = trace_event)]
struct Request {
    #[trace_event(encoding = varint)]
    list: Vec<Option<f64>>,
}

fn main() {}
