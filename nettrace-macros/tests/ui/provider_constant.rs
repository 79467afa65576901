use nettrace_macros::TraceEvent;

const PROVIDER: &str = "my_crate::module";

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, provider = PROVIDER)]
struct Colons;

fn main() {}
