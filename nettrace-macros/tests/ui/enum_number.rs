use nettrace_macros::TraceField;

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
enum Big {
    A = 1 << 40,
}

fn main() {}
