use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Request {
    #[trace_event(encoding = data_loc)]
    names: Vec<String>,
}

fn main() {}
