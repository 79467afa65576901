use nettrace_macros::TraceField;

struct Connection;

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
struct Object {
    connection: Connection,
}

fn main() {}
