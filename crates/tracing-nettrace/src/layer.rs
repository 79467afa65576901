//! The layer for a registry.

use std::sync::Arc;

use tracing_core::{
    Event, LevelFilter, Metadata, Subscriber,
    span::{self, Id},
    subscriber::Interest,
};
use tracing_subscriber::{
    filter::Filtered,
    layer::{self, Context},
    registry::LookupSpan,
};

use crate::{
    options::Options,
    recorder::{Recorder, Within},
};

/// A layer that records what sessions want: see [`layer`](fn@crate::layer).
///
/// It has a filter of its own, so what no session wants stays there for other layers, and is
/// disabled if none wants it either.
pub type Layer<S> = Filtered<Recording, Wanted, S>;

/// A layer for any registry of `tracing-subscriber`, as it is by default.
///
/// [`Options`] has what can be chosen.
///
/// ```
/// use nettrace_writer::{Session, sink::MemorySink};
/// use tracing_subscriber::prelude::*;
///
/// let memory = MemorySink::new();
/// let session = Session::builder().sink(memory.clone()).start()?;
/// let registry = tracing_subscriber::registry().with(tracing_nettrace::layer());
/// tracing::subscriber::with_default(registry, || {
///     let span = tracing::info_span!("checkout", cart = 17).entered();
///     tracing::warn!(items = 3, "the cart is old");
///     span.exit();
/// });
/// assert_eq!(session.finish()?.written, 3); // Start, event, Stop
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[must_use]
pub fn layer<S>() -> Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    Options::new().layer()
}

pub(crate) fn build<S>(recorder: Recorder) -> Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let recorder = Arc::new(recorder);
    Filtered::new(Recording(Arc::clone(&recorder)), Wanted(recorder))
}

/// The part of a [`Layer`] that records.
#[derive(Debug)]
pub struct Recording(Arc<Recorder>);

impl<S> layer::Layer<S> for Recording
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    #[cfg(feature = "opentelemetry")]
    fn on_register_dispatch(&self, dispatch: &tracing_core::Dispatch) {
        self.0.dispatched_by(dispatch);
    }

    #[inline]
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let within = match Within::of(attributes) {
            // If another filter keeps that one from this layer, the next one above that it sees.
            Within::Span(_) => match context.span(id).and_then(|span| span.parent()) {
                Some(parent) => Within::Span(parent.id().into_u64()),
                None => Within::Nothing,
            },
            within => within,
        };
        self.0.begin(attributes, Some(id.into_u64()), within);
    }

    fn on_record(&self, id: &Id, values: &span::Record<'_>, _: Context<'_, S>) {
        self.0.record(id.into_u64(), values);
    }

    fn on_follows_from(&self, id: &Id, from: &Id, _: Context<'_, S>) {
        self.0.follows(id.into_u64(), from.into_u64());
    }

    #[inline]
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.event(event);
    }

    #[inline]
    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        self.0.enter::<false>(id.into_u64());
    }

    #[inline]
    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        self.0.exit::<false>(id.into_u64());
    }

    #[inline]
    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.0.close(id.into_u64());
    }
}

/// The part of a [`Layer`] that asks what sessions want.
#[derive(Debug)]
pub struct Wanted(Arc<Recorder>);

impl<S> layer::Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.0.wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.0.register(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.max_level_hint())
    }
}
