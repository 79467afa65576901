//! Registration before the first event.

use nettrace_event::{EventType, registry};

use crate::{
    error::Error,
    state::{self, Status},
};

/// Registers event types, so that `perf` can see and record their tracepoints before the first
/// event. Returns what is registered now.
///
/// Pass the `event_types()` of each event; [`register!`](crate::register!) writes the list.
/// Registering a type again does nothing. A kernel that cannot take tracepoints is not an error;
/// see [`Status::availability`], and [`retry`](crate::retry).
///
/// ```
/// use eventheader_writer::register;
/// # use eventheader_writer::TraceEvent;
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Docs", level = Warning, keywords = 0x3)]
/// # struct Slow { micros: u64 }
///
/// let status = register(&[Slow::event_types()])?;
/// assert_eq!(status.tracepoints[0].name, "Docs_L3K3");
/// # Ok::<(), eventheader_writer::Error>(())
/// ```
///
/// # Errors
/// [`Error`] of the first refused type. The other types are registered.
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
///
/// ```
/// use eventheader_writer::{TraceEvent, register};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Docs", level = Warning)]
/// struct Slow { micros: u64 }
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Docs", level = Warning)]
/// struct Failed { code: u32 }
///
/// // Types with the same provider, level and keywords share a tracepoint.
/// let status = register!(Slow, Failed)?;
/// assert_eq!(status.tracepoints.len(), 1);
/// assert_eq!((&*status.tracepoints[0].name, status.tracepoints[0].types), ("Docs_L3K0", 2));
/// # Ok::<(), eventheader_writer::Error>(())
/// ```
#[macro_export]
macro_rules! register {
    ($($event:ty),+ $(,)?) => {
        $crate::register(&[$(<$event as $crate::TraceEvent>::event_types()),+])
    };
}
