use nettrace_writer::TraceSpan;

struct Connection;

#[derive(TraceSpan)]
#[trace_event(later = [later: Connection])]
struct Span {
    connection: Connection,
    #[trace_event(encoding = display)]
    shown: Connection,
}

fn main() {
    drop(Span { connection: Connection, shown: Connection });
}
