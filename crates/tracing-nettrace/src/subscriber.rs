//! The subscriber that needs no registry.

use tracing_core::{
    Event, LevelFilter, Metadata,
    span::{self, Current, Id},
    subscriber::Interest,
};

use crate::{
    options::Options,
    recorder::{Recorder, Within},
};

/// The id of spans that are not recorded.
const NOT_RECORDED: u64 = u64::MAX;

/// Records what sessions want, and needs no registry: see [`subscriber`](fn@crate::subscriber).
#[derive(Debug)]
pub struct Subscriber(Recorder);

/// A subscriber for programs that need no other layer, as it is by default. It costs less than a
/// registry with a [`layer`](fn@crate::layer), and records the same.
///
/// [`Options`] has what can be chosen.
///
/// ```
/// use nettrace_writer::{Session, sink::MemorySink};
///
/// let memory = MemorySink::new();
/// let session = Session::builder().sink(memory.clone()).start()?;
/// tracing::subscriber::with_default(tracing_nettrace::subscriber(), || {
///     tracing::info_span!("checkout", cart = 17).in_scope(|| {
///         tracing::warn!(items = 3, "the cart is old");
///     });
/// });
/// assert_eq!(session.finish()?.written, 3); // Start, event, Stop
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[must_use]
pub fn subscriber() -> Subscriber {
    Options::new().subscriber()
}

impl Subscriber {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self(recorder.with_own_ids())
    }
}

impl tracing_core::Subscriber for Subscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.0.register(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.max_level_hint())
    }

    #[inline]
    fn new_span(&self, attributes: &span::Attributes<'_>) -> Id {
        let id = self.0.begin(attributes, None, Within::of(attributes));
        Id::from_u64(id.unwrap_or(NOT_RECORDED))
    }

    fn record(&self, id: &Id, values: &span::Record<'_>) {
        self.0.record(id.into_u64(), values);
    }

    fn record_follows_from(&self, id: &Id, from: &Id) {
        self.0.follows(id.into_u64(), from.into_u64());
    }

    #[inline]
    fn event(&self, event: &Event<'_>) {
        self.0.event(event);
    }

    #[inline]
    fn enter(&self, id: &Id) {
        self.0.enter::<true>(id.into_u64());
    }

    #[inline]
    fn exit(&self, id: &Id) {
        self.0.exit::<true>(id.into_u64());
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.0.cloned(id.into_u64());
        id.clone()
    }

    #[inline]
    fn try_close(&self, id: Id) -> bool {
        self.0.dropped(id.into_u64())
    }

    fn current_span(&self) -> Current {
        match self.0.current() {
            Some((id, metadata)) => Current::new(Id::from_u64(id), metadata),
            None => Current::none(),
        }
    }
}
