use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, name = Step)]
enum Step {
    One,
    Two,
}

fn main() {}
