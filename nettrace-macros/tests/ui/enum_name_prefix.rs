use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = trace_event, name = Step)]
enum Step {
    One,
    Two,
}

fn main() {}
