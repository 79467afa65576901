use nettrace_macros::TraceField;

#[derive(TraceField)]
#[trace_event(crate = trace_event)]
enum Shape {
    Circle { radius: f64 },
    Square(f64),
    Point(),
}

#[derive(TraceField)]
#[trace_event(crate = trace_event, encoding = text)]
enum Color {
    Red,
    #[trace_event(rename = "Red")]
    Green,
}

fn main() {}
