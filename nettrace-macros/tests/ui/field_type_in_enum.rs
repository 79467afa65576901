use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = trace_event)]
enum Step {
    One { map: std::collections::HashMap<String, u8> },
}

fn main() {}
