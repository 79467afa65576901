use nettrace_macros::TraceField;

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
struct Object {
    #[trace_event(encoding = rel_loc)]
    text: String,
}

fn main() {}
