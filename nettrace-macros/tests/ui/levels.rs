use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, level = warn)]
struct AsInLog;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, level = Debug)]
struct AsInTracing;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, level = CRITICAL)]
struct Loud;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, level = Usual)]
struct OfMyOwn;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, level = "Info")]
struct Quoted;

#[derive(TraceEvent)]
#[trace_event("Contoso-Checkout")]
struct NoKey;

fn main() {}
