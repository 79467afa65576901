use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, provider_guid = "01234567-89ab-cdef-0123-456789abcde")]
struct Short;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, provider_guid = "{01234567-89ab-cdef-0123-456789abcdef")]
struct Brace;

fn main() {}
