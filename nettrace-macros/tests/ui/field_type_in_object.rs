use nettrace_macros::TraceField;

struct Connection;

#[derive(TraceField)]
#[trace_event(crate = trace_event)]
struct Object {
    connection: Connection,
}

fn main() {}
