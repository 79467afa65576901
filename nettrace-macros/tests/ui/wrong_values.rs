use nettrace_macros::TraceEvent;

#[derive(TraceEvent)]
#[trace_event(crate = nettrace_event, provider = 7, name = Request, version = 256)]
#[trace_event(level = Info, opcode = Begin, tag = "x", keywords = -1)]
#[trace_event(key_values = ("a", "b"))]
struct Request {
    #[trace_event(encoding = utf7, format = binary)]
    bytes: u64,
}

#[derive(TraceEvent)]
#[trace_event(crate = "trace_event")]
#[trace_event(key_values = [("a", "b"), ("a", "c"), "d"], opcode = 256)]
struct Crate;

fn main() {}
