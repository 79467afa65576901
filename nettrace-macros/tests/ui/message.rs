use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, message = "{url} took {mikros}")]
struct Unknown {
    url: String,
    micros: u64,
    #[trace_event(skip)]
    mikros: u64,
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, message = "{0")]
struct Open(u8);

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, message = "took {}")]
struct Unit;

fn main() {}
