use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, provider = "")]
struct Empty;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, provider = "Contoso Checkout")]
struct Space;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, provider = "Contoso\0")]
struct Nul;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, group = "Group")]
#[trace_event(provider = "Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-Contoso-")]
struct Long;

fn main() {}
