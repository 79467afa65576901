use nettrace_event::TraceEvent;

struct Plain;

fn listen<T: TraceEvent>() {}

fn main() {
    listen::<Plain>();
}
