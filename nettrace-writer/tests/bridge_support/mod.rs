//! A client of the bridge: records the spans of OpenTelemetry, of which its SDK tells a processor.
//!
//! The SDK makes the ids, and says when a span begins and ends. Each name of spans has event types
//! of its own, which are made when its first span begins.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use nettrace_event::trace_context::{SpanId, TraceContext, TraceFlags, TraceId};
use nettrace_writer::{
    Elapsed, Level, Outcome, TraceEvent,
    bridge::{self, Began, Entry, SpanIds},
    event::{
        EventSchema, EventType, FieldSchema, FieldType, Pairs, PayloadEncoder, Place,
        ProviderSchema, TraceField, derived_id,
    },
};
use opentelemetry::{
    Context, KeyValue,
    trace::{SpanContext, SpanKind, Status},
};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};
use parking_lot::Mutex;

const PROVIDER: &str = "OpenTelemetry";

/// The highest level that some session records. 0: there is no session.
static LISTENED: AtomicU8 = AtomicU8::new(0);

fn listen() {
    LISTENED.store(bridge::max_level().map_or(0, Level::number), Ordering::Relaxed);
}

/// Records spans.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(Arc<State>);

#[derive(Debug, Default)]
struct State {
    types: Mutex<HashMap<Cow<'static, str>, Types>>,
    open: Mutex<HashMap<SpanId, Open>>,
}

/// The events of spans of one name.
#[derive(Clone, Copy, Debug)]
struct Types {
    start: &'static EventType,
    stop: &'static EventType,
    /// Tells a session of a span that began before it.
    late: &'static EventType,
}

/// A span that has begun.
#[derive(Clone, Debug)]
struct Open {
    ids: SpanIds,
    began: Began,
    types: Types,
    /// As of which change all sessions have been told of it.
    changes: u32,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        assert!(bridge::on_change(listen));
        listen();
        Self(Arc::default())
    }

    /// How many names of spans have event types, and how many spans are open.
    pub(crate) fn made(&self) -> (usize, usize) {
        (self.0.types.lock().len(), self.0.open.lock().len())
    }

    /// This thread enters a span. `None`: the span is not recorded.
    pub(crate) fn enter(&self, span: &SpanContext) -> Option<Entry> {
        let open = self.0.open.lock();
        Some(open.get(&context_of(span)?.span_id())?.ids.enter())
    }
}

impl SpanProcessor for Recorder {
    fn on_start(&self, span: &mut Span, _: &Context) {
        if LISTENED.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(data) = span.exported_data() else { return };
        let level = match data.span_kind {
            SpanKind::Internal => Level::Verbose,
            _ => Level::Informational,
        };
        // Before the question, so that a session which begins meanwhile is told late.
        let changes = bridge::changes();
        if !bridge::is_wanted(PROVIDER, level, 0) {
            return;
        }
        let Some(context) = context_of(&data.span_context) else { return };
        let types = || Types::of(&data.name, level);
        let types = *self.0.types.lock().entry(data.name.clone()).or_insert_with(types);
        let ids = SpanIds::given(&context, SpanId::from_bytes(data.parent_span_id.to_bytes()));
        let attributes = pairs(&data.attributes);
        let began = ids.emit(&Row { ty: types.start, said: Said::Start(&attributes) });
        self.0.open.lock().insert(context.span_id(), Open { ids, began, types, changes });
    }

    fn on_end(&self, data: SpanData) {
        let Some(context) = context_of(&data.span_context) else { return };
        let open = self.0.open.lock().remove(&context.span_id());
        let Some(Open { ids, began, types, changes }) = open else { return };
        let new = types.late.enabled() & bridge::begun_after(changes);
        if new != 0 {
            let entry = ids.enter();
            bridge::emit_to(&Row { ty: types.late, said: Said::Late(began.elapsed()) }, new);
            entry.leave();
        }
        let attributes = pairs(&data.attributes);
        let said = Said::Stop(began.elapsed(), &data.status, &attributes);
        ids.emit(&Row { ty: types.stop, said });
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The ids that OpenTelemetry has made. `None`: it has made none.
fn context_of(span: &SpanContext) -> Option<TraceContext> {
    let trace = TraceId::from_bytes(span.trace_id().to_bytes())?;
    let id = SpanId::from_bytes(span.span_id().to_bytes())?;
    Some(TraceContext::new(trace, id, TraceFlags::from_bits(span.trace_flags().to_u8())))
}

type Attributes = Vec<(String, String)>;

fn pairs(attributes: &[KeyValue]) -> Attributes {
    attributes.iter().map(|it| (it.key.to_string(), it.value.to_string())).collect()
}

const ATTRIBUTES: FieldSchema =
    FieldSchema::new("attributes", <Pairs<'_, String, String> as TraceField>::TYPE);
const TEXT: FieldType = <str as TraceField>::TYPE;
const START: &[FieldSchema] = &[ATTRIBUTES];
const STOP: &[FieldSchema] = &[
    FieldSchema::new("duration", FieldType::DurationNanos),
    FieldSchema::new("outcome", TEXT),
    FieldSchema::new("error", TEXT),
    ATTRIBUTES,
];
const LATE: &[FieldSchema] = &[FieldSchema::new("age", FieldType::DurationNanos)];

impl Types {
    fn of(name: &str, level: Level) -> Self {
        Self {
            start: made(format!("{name}Start"), level, 1, START, &[]),
            stop: made(format!("{name}Stop"), level, 2, STOP, &[]),
            late: made(format!("{name}Start"), level, 1, LATE, &[("nettrace.span", "late")]),
        }
    }
}

/// A type that is made at run time.
fn made(
    name: String,
    level: Level,
    opcode: u8,
    fields: &'static [FieldSchema],
    key_values: &'static [(&'static str, &'static str)],
) -> &'static EventType {
    let name: &'static str = name.leak();
    let schema = EventSchema {
        provider: ProviderSchema { name: PROVIDER, guid: None, group: None },
        name,
        id: derived_id(name),
        place: Place::UNKNOWN,
        id_is_explicit: false,
        version: 0,
        level,
        keywords: 0,
        opcode: Some(opcode),
        tag: 0,
        message: None,
        description: None,
        key_values,
        fields,
    };
    let ty: &'static EventType = Box::leak(Box::new(EventType::new(Box::leak(Box::new(schema)))));
    bridge::register(ty).unwrap();
    ty
}

/// An event of a span.
struct Row<'a> {
    ty: &'static EventType,
    said: Said<'a>,
}

enum Said<'a> {
    Start(&'a Attributes),
    Stop(Elapsed, &'a Status, &'a Attributes),
    Late(Elapsed),
}

impl TraceEvent for Row<'_> {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        match self.said {
            Said::Start(attributes) => Pairs(attributes).encode_field(encoder),
            Said::Stop(duration, status, attributes) => {
                duration.encode_field(encoder);
                let (outcome, error) = match status {
                    Status::Error { description } => (Outcome::Err, &**description),
                    _ => (Outcome::Ok, ""),
                };
                outcome.encode_field(encoder);
                <str as TraceField>::encode_field(error, encoder);
                Pairs(attributes).encode_field(encoder);
            }
            Said::Late(age) => age.encode_field(encoder),
        }
    }
}
