use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Request {
    #[trace_event(encoding = varint)]
    list: Vec<Option<f64>>,
}

fn main() {}
