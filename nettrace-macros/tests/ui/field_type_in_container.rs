use nettrace_macros::TraceEvent;

struct Connection;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Opened {
    connections: Vec<Option<Connection>>,
}

fn main() {}
