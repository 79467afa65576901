use nettrace_macros::traced;

mod writer {
    pub(crate) use nettrace_macros::TraceEvent;
    pub(crate) use trace_event as __private;

    pub(crate) trait Emit: trace_event::TraceEvent {
        fn emit(&self) {}
    }

    impl<T: trace_event::TraceEvent> Emit for T {}
}

#[traced(crate = crate::writer, levle = Error)]
fn unknown() {}

struct Connection;

#[traced(crate = crate::writer, fields = [connection])]
fn open(connection: Connection) {}

fn main() {}
