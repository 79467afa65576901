use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Generic<'a, T: Clone, const N: usize> {
    text: &'a str,
    value: T,
    list: [u8; N],
}

fn emit(event: impl nettrace_event::TraceEvent) {
    let _ = event;
}

fn uses() {
    emit(Generic { text: "", value: 1_u8, list: [0; 2] });
}

fn main() {}
