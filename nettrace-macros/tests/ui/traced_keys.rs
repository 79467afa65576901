use nettrace_macros::traced;

mod writer {
    pub(crate) use nettrace_macros::TraceEvent;
    pub(crate) use nettrace_event as __private;

    pub(crate) trait Emit: nettrace_event::TraceEvent {
        fn emit(self)
        where
            Self: Sized,
        {
        }
    }

    impl<T: nettrace_event::TraceEvent> Emit for T {}

    pub(crate) mod __traced {
        pub(crate) type Elapsed = std::time::Duration;

        pub(crate) struct Started;

        impl Started {
            pub(crate) const NEVER: Self = Self;

            pub(crate) fn now() -> Self {
                Self
            }

            pub(crate) fn is_running(&self) -> bool {
                false
            }

            pub(crate) fn elapsed(&self) -> Elapsed {
                Elapsed::ZERO
            }
        }
    }
}

#[traced(crate = crate::writer, levle = Error)]
fn unknown() {}

struct Connection;

#[traced(crate = crate::writer, fields = [connection])]
fn open(connection: Connection) {}

fn main() {}
