use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
#[repr(packed)]
struct Packed {
    text: String,
}

fn main() {}
