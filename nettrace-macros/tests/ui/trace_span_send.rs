use nettrace_writer::TraceSpan;

#[derive(TraceSpan)]
struct Fine;

fn send<T: Send>(_: T) {}

fn main() {
    send(Fine.start());
    send(Fine.enter());
}
