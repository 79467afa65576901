use nettrace_macros::TraceEvent;

const ID: u16 = 0;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, id = ID)]
struct Zero;

fn main() {}
