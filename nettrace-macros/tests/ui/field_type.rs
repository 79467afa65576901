use nettrace_macros::TraceEvent;

struct Connection;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Opened<'a> {
    url: &'a str,
    connection: Connection,
}

fn main() {}
