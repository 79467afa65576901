use nettrace_macros::TraceSpan;
use nettrace_writer::TraceSpan as _;

#[derive(TraceSpan)]
struct Unnamed(u8);

#[derive(TraceSpan)]
struct Generic<T>(T);

#[derive(TraceSpan)]
enum Many {
    One,
}

#[derive(TraceSpan)]
#[trace_event(later = status, id = 7)]
struct NotAList;

#[derive(TraceSpan)]
#[trace_event(later = [status])]
struct NoType {
    fine: u8,
}

#[derive(TraceSpan)]
#[trace_event(later = [duration: u8, status: u8, status: u8])]
struct Names;

struct Connection;

fn main() {
    let _ = NotAList.enter();
    let _ = Connection.enter();
}
