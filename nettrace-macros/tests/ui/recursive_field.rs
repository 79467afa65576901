use nettrace_macros::TraceField;

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
struct Node {
    id: u32,
    parent: Option<Box<Node>>,
    children: Vec<Self>,
    #[trace_event(skip)]
    others: Vec<Node>,
}

fn main() {}
