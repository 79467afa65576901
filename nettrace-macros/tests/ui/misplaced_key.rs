use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, encoding = utf8)]
struct Request {
    #[trace_event(level = Error)]
    bytes: u64,
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, id = 3)]
enum Step {
    #[trace_event(provider = "Contoso")]
    One,
}

fn main() {}
