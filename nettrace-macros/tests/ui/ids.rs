use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, id = 0)]
struct Zero;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, id = 65535)]
struct Large;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, id = "7")]
struct Text;

fn main() {}
