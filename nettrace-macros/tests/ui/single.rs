use nettrace_macros::{TraceSpan, traced};

#[traced(mode = both)]
fn unknown() {}

#[traced(mode)]
fn bare() {}

#[traced(mode = single, polls)]
async fn polls() {}

#[traced(mode = single, fields = [duration, ret = duration], ret)]
fn names(duration: u64) -> u64 {
    duration
}

struct Connection;

#[traced(mode = single, fields = [connection])]
fn open(connection: Connection) {}

#[derive(TraceSpan)]
#[trace_event(mode = single, later = [status: u16])]
struct Located<'a> {
    #[trace_event(encoding = rel_loc)]
    path: &'a str,
    status: u8,
}

fn main() {}
