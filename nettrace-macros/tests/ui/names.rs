use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, name = "")]
struct Empty;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, name = "a\0b")]
struct Nul {
    #[trace_event(rename = "a;b")]
    semicolon: u8,
    twice: u8,
    #[trace_event(rename = "twice")]
    again: u8,
}

fn main() {}
