use nettrace_macros::TraceEvent;

struct Connection<'a>(&'a str);

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Opened<'a> {
    connection: &'a Connection<'a>,
}

fn main() {}
