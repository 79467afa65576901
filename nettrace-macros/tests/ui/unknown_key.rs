use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, provdier = "Contoso", lvel = Error)]
struct Request {
    #[trace_event(compress)]
    bytes: u64,
}

fn main() {}
