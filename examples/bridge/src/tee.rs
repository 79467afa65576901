//! Two subscribers at once, for a subscriber that takes no layers.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tracing::{
    Dispatch, Event, Id, Metadata, Subscriber,
    dispatcher::with_default,
    level_filters::LevelFilter,
    span::{Attributes, Record},
    subscriber::Interest,
};
use tracing_core::span::Current;

/// How many parts the table of spans has, each with a lock.
const PARTS: usize = 64;

/// Tells everything to two subscribers. The ids of spans are the first one's.
///
/// An event that names its parent cannot be told to the second one, because nobody but `tracing`
/// can make a copy of it with another parent. So that panics: the program has no such events.
pub(crate) struct Tee<S> {
    first: S,
    second: Dispatch,
    /// The second one's ids, by the first one's.
    ids: [Mutex<HashMap<u64, Id>>; PARTS],
}

impl<S> Tee<S> {
    pub(crate) fn new(first: S, second: impl Subscriber + Send + Sync) -> Self {
        let ids = std::array::from_fn(|_| Mutex::default());
        Self { first, second: Dispatch::new(second), ids }
    }

    fn part(&self, id: &Id) -> MutexGuard<'_, HashMap<u64, Id>> {
        let number = id.into_u64();
        // The lower bits of an id may be the same for all spans of a thread.
        let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.ids[hash as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn second_id(&self, id: &Id) -> Id {
        self.part(id).get(&id.into_u64()).expect("an open span").clone()
    }

    /// A registry asks for the thread's dispatcher when it closes a span and its parents. `tracing`
    /// itself has asked for it when it tells of events and new spans, so it is not changed then.
    fn closing<R>(&self, tell: impl FnOnce(&Dispatch) -> R) -> R {
        with_default(&self.second, || tell(&self.second))
    }
}

impl<S: Subscriber> Subscriber for Tee<S> {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        let first = self.first.register_callsite(metadata);
        let second = self.second.register_callsite(metadata);
        if first.is_always() && second.is_always() { first } else { Interest::sometimes() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.first.enabled(metadata) && self.second.enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.first.max_level_hint()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.first.new_span(span);
        let copy = match span.parent().map(|parent| self.second_id(parent)) {
            Some(parent) => Attributes::child_of(parent, span.metadata(), span.values()),
            None if span.is_root() => Attributes::new_root(span.metadata(), span.values()),
            None => Attributes::new(span.metadata(), span.values()),
        };
        let second = self.second.new_span(&copy);
        self.part(&id).insert(id.into_u64(), second);
        id
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.first.record(span, values);
        self.second.record(&self.second_id(span), values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.first.record_follows_from(span, follows);
        self.second.record_follows_from(&self.second_id(span), &self.second_id(follows));
    }

    fn event(&self, event: &Event<'_>) {
        assert!(event.parent().is_none(), "an event that names its parent");
        self.first.event(event);
        self.second.event(event);
    }

    fn enter(&self, span: &Id) {
        self.first.enter(span);
        let id = self.second_id(span);
        self.closing(|second| second.enter(&id));
    }

    fn exit(&self, span: &Id) {
        self.first.exit(span);
        let id = self.second_id(span);
        self.closing(|second| second.exit(&id));
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.second.clone_span(&self.second_id(id));
        self.first.clone_span(id)
    }

    /// One thread's two calls are not between another's, so that both see the same thread close
    /// the span.
    fn try_close(&self, id: Id) -> bool {
        let mut ids = self.part(&id);
        let number = id.into_u64();
        let second = ids.get(&number).expect("an open span").clone();
        let is_closed = self.closing(|dispatch| dispatch.try_close(second));
        if is_closed {
            ids.remove(&number);
        }
        self.first.try_close(id)
    }

    fn current_span(&self) -> Current {
        self.first.current_span()
    }
}
