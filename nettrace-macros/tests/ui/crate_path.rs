use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(id = 3)]
struct NoSuchDependency {
    bytes: u64,
}

fn main() {}
