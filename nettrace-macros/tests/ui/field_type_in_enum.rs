use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
enum Step {
    One { map: std::collections::HashSet<String> },
}

fn main() {}
