use nettrace_macros::TraceField;

#[derive(TraceField)]
#[trace_event(crate = nettrace_event, transparent)]
struct Two(u8, u8);

#[derive(TraceField)]
#[trace_event(crate = nettrace_event, transparent)]
struct Encoded(#[trace_event(encoding = varint)] u32);

fn main() {}
