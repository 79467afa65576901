use nettrace_macros::TraceEvent;

const FOUR: u16 = 4;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
enum Step {
    #[trace_event(id = 4)]
    One,
    #[trace_event(id = FOUR)]
    Two,
}

fn main() {}
