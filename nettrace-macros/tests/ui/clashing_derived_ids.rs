use nettrace_macros::TraceEvent;

// The ids that these two names give are the same, by chance.
#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, name = "E")]
enum Step {
    Abm,
    Ace,
}

fn main() {}
