//! Spans whose ids OpenTelemetry makes.
//!
//! Its layer makes the ids of a span when the span is first entered, or when a span begins in it,
//! and not before: until then a service can say which span of its caller is the parent. Whoever
//! asks for the ids earlier makes them, and takes that choice away. So the span waits for that
//! here. Its Start and what is recorded of it come then. Its duration begins when it was made, as
//! in OpenTelemetry.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, MutexGuard},
};

use nettrace_event::trace_context::{SpanId, TraceContext, TraceFlags, TraceId};
use nettrace_writer::{
    bridge,
    bridge::{Began, SpanIds},
    event::EventType,
};
use opentelemetry::trace::TraceContextExt as _;
use tracing_core::{
    Dispatch,
    dispatcher::WeakDispatch,
    span::{self, Id},
};

use super::{Recorder, Within};
use crate::{
    callsite::Callsite,
    row::{New, Told},
    sync::{AtomicU64, Mutex, Once, OnceLock, Ordering, PoisonError},
    values::{Recorded as _, Taken},
};

/// The most spans that wait. Any more have their ids made at once.
const MOST: u64 = 1 << 14;

/// The spans that wait for their ids.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Whoever knows the layer of OpenTelemetry.
    dispatch: OnceLock<WeakDispatch>,
    waiting: Mutex<HashMap<u64, Arc<Waiting>>>,
    count: AtomicU64,
}

/// A span that waits.
#[derive(Debug)]
struct Waiting {
    callsite: &'static Callsite,
    /// What it has if OpenTelemetry knows nothing of it.
    ids: SpanIds,
    began: Began,
    /// Done when its row is there. Other threads that enter the span wait for that.
    start: Once,
    values: Mutex<Later>,
}

/// The values of the Start, and those that were recorded since then.
#[derive(Debug)]
struct Later {
    start: Option<Taken>,
    records: Vec<Taken>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Given {
    fn find(&self, id: u64) -> Option<Arc<Waiting>> {
        // Relaxed: whoever has a span's id has it from a thread that saw it counted.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        lock(&self.waiting).get(&id).cloned()
    }

    /// The ids that OpenTelemetry has for an open span. This makes them.
    fn ids(&self, id: u64, own: &SpanIds) -> Option<SpanIds> {
        let dispatch = self.dispatch.get()?.upgrade()?;
        let context = tracing_opentelemetry::get_otel_context(&Id::from_u64(id), &dispatch)?;
        let (span, state) = (context.span(), own.state().cloned());
        let span = span.span_context();
        let trace = TraceId::from_bytes(span.trace_id().to_bytes())?;
        let id = SpanId::from_bytes(span.span_id().to_bytes())?;
        let flags = TraceFlags::from_bits(span.trace_flags().to_u8());
        let context = TraceContext::new(trace, id, flags).with_shared_state(state);
        Some(SpanIds::given(&context, own.parent_id()))
    }
}

impl Recorder {
    /// Whoever dispatches spans to this.
    pub(crate) fn dispatched_by(&self, dispatch: &Dispatch) {
        if let Some(given) = &self.given {
            given.dispatch.get_or_init(|| dispatch.downgrade());
        }
    }

    /// A span begins. Returns `false` if it need not wait for its ids.
    pub(super) fn waits(
        &self,
        callsite: &'static Callsite,
        attributes: &span::Attributes<'_>,
        id: u64,
        within: Within,
    ) -> bool {
        let Some(given) = &self.given else { return false };
        let start = Some(Taken::of(|visitor| attributes.record(visitor)));
        let waiting = Waiting {
            callsite,
            ids: self.ids_within(within),
            began: Began::now(),
            start: Once::new(),
            values: Mutex::new(Later { start, records: Vec::new() }),
        };
        lock(&given.waiting).insert(id, Arc::new(waiting));
        if given.count.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.start(id);
        }
        true
    }

    /// Gives a span its ids if it waits for them, and records its Start.
    #[inline]
    pub(super) fn start(&self, id: u64) {
        let waiting = self.given.as_ref().and_then(|given| Some((given, given.find(id)?)));
        if let Some((given, waiting)) = waiting {
            let mut records = Vec::new();
            waiting.start.call_once(|| records = self.start_now(given, id, &waiting));
            if lock(&given.waiting).remove(&id).is_some() {
                given.count.fetch_sub(1, Ordering::Relaxed);
            }
            records.iter().for_each(|record| self.record_values(id, record));
        }
    }

    /// Records the Start. Returns the fields that became known before.
    fn start_now(&self, given: &Given, id: u64, waiting: &Waiting) -> Vec<Taken> {
        let Waiting { callsite, ids: own, began, .. } = waiting;
        // What is left out has the ids of its root, and nobody looks for it.
        let ids = if own.is_sampled_out() { None } else { given.ids(id, own) };
        let ids = ids.unwrap_or_else(|| own.clone());
        let (start, records) = {
            let mut later = lock(&waiting.values);
            (later.start.take(), mem::take(&mut later.records))
        };
        let Some(start) = start else { return records };
        let changes = bridge::changes();
        let is_wanted = callsite.is_wanted_after(changes);
        let ty = if is_wanted { callsite.event_type(start.signature()) } else { None };
        self.tell_entered();
        let told = Told { changes, sessions: ty.map_or(0, EventType::enabled) };
        if let Some(taken) = self.take(callsite, Some(id), ty) {
            if let Some(ty) = ty {
                start.with_event(ty, |start| ids.emit_dyn(start, ty));
            }
            taken.row.keep_ids(&ids);
            self.open(taken, Some(id), &New { callsite, began: *began, told });
        }
        records
    }

    /// Keeps fields that become known of a span that waits. Returns them if it does not.
    pub(super) fn record_later(&self, id: u64, values: Taken) -> Option<Taken> {
        let Some(waiting) = self.given.as_ref().and_then(|given| given.find(id)) else {
            return Some(values);
        };
        let mut later = lock(&waiting.values);
        if later.start.is_none() {
            return Some(values);
        }
        later.records.push(values);
        None
    }
}
