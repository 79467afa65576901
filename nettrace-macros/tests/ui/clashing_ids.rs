use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
enum Step {
    #[trace_event(id = 4)]
    One,
    #[trace_event(id = 0x4)]
    Two,
    #[trace_event(name = "Same")]
    Three,
    #[trace_event(name = "Same")]
    Four,
}

fn main() {}
