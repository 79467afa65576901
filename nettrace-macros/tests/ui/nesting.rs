use nettrace_macros::{TraceEvent, TraceField};

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
struct Inner<T> {
    inner: T,
}

type Four<T> = Inner<Inner<Inner<Inner<T>>>>;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Deepest {
    eight: Four<Four<u8>>,
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct TooDeep {
    nine: Inner<Four<Four<u8>>>,
}

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
enum Events {
    Flat(u8),
    /// A sequence of sequences takes a struct for each.
    ListTooDeep(Vec<Four<Vec<Inner<Vec<Vec<Four<u8>>>>>>>),
}

fn main() {}
