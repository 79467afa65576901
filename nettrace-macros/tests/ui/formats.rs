use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Unknown {
    #[trace_event(format = ipv4)]
    address: u32,
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Texts {
    #[trace_event(format = latin1)]
    units: Vec<u16>,
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Uuids {
    #[trace_event(format = uuid)]
    bytes: [u8; 15],
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Truths {
    #[trace_event(format = boolean)]
    wide: u64,
}

fn main() {}
