use nettrace_macros::TraceField;

#[derive(TraceField)]
#[trace_event(crate = nettrace_event)]
enum Shape {
    Circle { radius: f64 },
    Square(f64),
    Point(),
}

#[derive(TraceField)]
#[trace_event(crate = nettrace_event, encoding = text)]
enum Color {
    Red,
    #[trace_event(rename = "Red")]
    Green,
}

fn main() {}
