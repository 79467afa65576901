//! Registration before the first event.

use trace_event::{EventType, registry};

use crate::{
    error::Error,
    state::{self, Status},
};

/// Registers event types, so that `perf` can see and record their tracepoints before the first
/// event. Returns what is registered now.
///
/// Give it the `TYPES` of each event: [`register!`](crate::register!) writes the list. Registering
/// a type again does nothing. A kernel that cannot take tracepoints is no error; see
/// [`Status::availability`], and [`retry`](crate::retry).
///
/// # Errors
/// The first type that is refused, as [`Error`] says; the others are registered.
pub fn register(types: &[&[&'static EventType]]) -> Result<Status, Error> {
    state::install();
    let mut first = None;
    for ty in types.iter().copied().flatten() {
        let refused = registry::register(ty).map_err(Error::from).and_then(|()| {
            if state::type_point(ty.index()).is_some() {
                return Ok(());
            }
            crate::header::Preamble::of_schema(ty.schema()).map(|_| ())
        });
        first = first.or(refused.err());
    }
    first.map_or_else(|| Ok(state::status()), Err)
}

/// Registers the types of events: `register!(Started, Stopped)?`. See [`register`](register()).
#[macro_export]
macro_rules! register {
    ($($event:ty),+ $(,)?) => {
        $crate::register(&[$(<$event as $crate::TraceEvent>::TYPES),+])
    };
}
