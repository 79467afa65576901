use nettrace_macros::TracepointEvent;

#[derive(TracepointEvent)]
#[trace_event(id = 3)]
struct NoSuchDependency {
    bytes: u64,
}

fn main() {}
