//! Writes one recorded event as a packet.

use alloc::{string::String, vec::Vec};

use nettrace_event::{ArrayLayout, FieldRole, Storage, guid::GuidText, hex};

use crate::{
    activity,
    content::Label,
    described::{EventDescription, EventFacts, FieldDescription},
    error::FormatError,
    heph::{
        clock::Clock,
        fields::{Fields, Roles, TimeAttributes},
        flows::Flows,
        packet::{self, EventHeader, EventPacket, Value},
        spans::{self, Side, Whole},
    },
    payload::walk::walk,
};

/// Everything about one event except its type and payload.
///
/// [`EventWriter`] has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventInfo<'a> {
    /// The thread that recorded the event: a number that is unique in the trace.
    pub stream: u32,
    /// The sequence number that the thread gave the event.
    pub counter: u32,
    /// Time of the event, in ticks.
    pub timestamp: u64,
    /// The thread's name.
    pub thread_name: Option<&'a str>,
    /// The stream of the thread that the event is about, if that is another thread.
    pub subject: Option<u32>,
    /// That thread's name.
    pub subject_name: Option<&'a str>,
    /// The processor that the event was recorded on, if known.
    pub processor: Option<u32>,
    /// The event's labels.
    pub labels: &'a [Label<'a>],
    /// The event's stack: addresses, leaf first.
    pub stack: &'a [u64],
}

/// Writes recorded events as packets. [The module](super) describes the mapping.
///
/// ```
/// use nettrace_format::heph::{Clock, EventInfo, EventWriter};
/// # use nettrace_format::example::SALE;
///
/// // A tick is a microsecond.
/// let clock = Clock::new(1_700_000_000_000_000_000, 500, 1_000_000)?;
/// let (mut writer, mut trace) = (EventWriter::new(clock), Vec::new());
/// writer.begin(&mut trace);
/// assert_eq!(writer.clock().nanos(502), 2_000);
///
/// // `SALE` is an `EventSchema` with one field, a `u32`.
/// let info = EventInfo { stream: 17, counter: 1, timestamp: 502, ..EventInfo::default() };
/// writer.event(&SALE, &info, &1_250_u32.to_le_bytes(), &mut trace)?;
///
/// let mut reader = nettrace_reader::heph::Reader::new(&trace[..]);
/// assert_eq!(reader.next_event()?.map(|event| event.start), Some(2_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EventWriter {
    clock: Clock,
    /// The event's description, if one of its fields has that role.
    description: Vec<u8>,
    /// The name of the attribute that is being written.
    path: String,
    flows: Flows,
}

impl EventWriter {
    /// A writer for a trace with this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, description: Vec::new(), path: String::new(), flows: Flows::default() }
    }

    /// A writer for the trace that follows another. Flows go on.
    pub(super) fn after(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// The clock of the trace.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Appends the packet that begins a trace: a metadata packet with the epoch.
    pub fn begin(&self, out: &mut Vec<u8>) {
        packet::epoch(self.clock.epoch(), out);
    }

    /// Appends the packet of an event. `payload` is as
    /// [`NetTraceEncoder`](crate::payload::NetTraceEncoder) wrote it.
    ///
    /// # Errors
    /// [`FormatError::PayloadMismatch`] if the payload does not match `schema`, and
    /// [`FormatError::HephTime`] for a type that [`check`] refuses. Content that is too long
    /// returns [`FormatError::HephDescriptionTooLong`], [`FormatError::HephAttributeNameTooLong`],
    /// [`FormatError::HephStringTooLong`], [`FormatError::HephArrayTooLong`] or
    /// [`FormatError::HephPacketTooLarge`]. An error leaves `out` unchanged.
    pub fn event(
        &mut self,
        schema: &impl EventDescription,
        info: &EventInfo<'_>,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        self.write(schema, info, payload, None, out).map(|_| ())
    }

    /// Appends the packet of an event, which may complete a span.
    pub(super) fn write(
        &mut self,
        schema: &impl EventDescription,
        info: &EventInfo<'_>,
        payload: &[u8],
        whole: Option<&Whole<'_>>,
        out: &mut Vec<u8>,
    ) -> Result<Written, FormatError> {
        let now = self.clock.nanos(info.timestamp);
        let near = |nanos: i128| u64::try_from(nanos.max(0)).unwrap_or(u64::MAX);
        let mut header = EventHeader {
            stream: info.stream,
            counter: info.counter,
            substream: self.flows.of(info.labels),
            start: whole.map_or(now, |whole| near(whole.start)),
            end: whole.map_or(now, |whole| near(whole.end)),
        };
        let other = whole.and_then(|whole| whole.other);
        let mut description = whole.map_or(schema.facts().name, |whole| whole.name);
        if let Some(text) = other.and_then(|other| other.description.as_deref()) {
            description = text;
        }
        let mut early = whole.map(|whole| whole.start).filter(|start| *start < 0);
        let mut is_described = false;
        let mut kept = TimeAttributes::default();
        if schema.fields().iter().any(|field| field.role() != FieldRole::Value) {
            self.description.clear();
            let mut roles = Roles::new(&mut self.description);
            walk(schema.fields(), payload, &mut roles)?;
            if let Some(start) = roles.start {
                early = None;
                (header.start, kept.start) = start.resolve(&self.clock, now, true);
            }
            if let Some(end) = roles.end {
                (header.end, kept.end) = end.resolve(&self.clock, header.start, false);
            }
            if header.end < header.start {
                header.end = header.start;
                kept.end = roles.end.is_some();
            }
            is_described = roles.is_described;
            if is_described {
                // `Roles` writes characters only, so this is valid UTF-8.
                description = core::str::from_utf8(&self.description).unwrap_or(description);
            }
        }
        let mut packet = EventPacket::begin(&header, description, out)?;
        about_type(schema, info.labels, &mut packet)?;
        if whole.is_some() {
            packet.attribute("@kind", Value::Str("span"))?;
        }
        if let Some(start) = early {
            packet.attribute("@start", Value::I64(self.clock.unix(start)))?;
        }
        if let Some(other) = other.filter(|other| other.stream != info.stream) {
            let name = if other.side == Side::Start { "@start_stream" } else { "@end_stream" };
            packet.attribute(name, Value::U64(other.stream.into()))?;
        }
        about_event(info, &mut self.path, &mut packet)?;
        let fields_of = |side| other.filter(|other| other.side == side).map(|other| &*other.fields);
        packet.out().extend_from_slice(fields_of(Side::Start).unwrap_or_default());
        let fields = packet.out().len();
        self.path.clear();
        let mut attributes = Fields::new(&mut self.path, kept, packet.out());
        let used = walk(schema.fields(), payload, &mut attributes)?;
        packet.out().extend_from_slice(fields_of(Side::Stop).unwrap_or_default());
        packet.finish()?;
        Ok(Written { fields, is_described, is_longer: used < payload.len() })
    }

    /// The description that a field of the last event stated.
    pub(super) fn description(&self, written: &Written) -> Option<&str> {
        core::str::from_utf8(&self.description).ok().filter(|_| written.is_described)
    }
}

/// A packet that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// Where the event's own fields begin. They go to the end of the packet, unless it is that of a
    /// whole span.
    pub(super) fields: usize,
    is_described: bool,
    /// Whether the payload has bytes behind its last field.
    pub(super) is_longer: bool,
}

/// Checks whether the events of a type can be written.
///
/// ```
/// use nettrace_format::heph::check;
/// # use nettrace_format::example::SALE;
///
/// assert_eq!(check(&SALE), Ok(()));
/// ```
///
/// # Errors
/// [`FormatError::HephTime`] if the field with the role start or end is not a time,
/// [`FormatError::HephAttributeNameTooLong`] if a name in the form `outer.inner` is too long,
/// [`FormatError::HephAttributeNamesTooLong`] if all of them are, and
/// [`FormatError::LocationOfVariableSize`].
pub fn check(schema: &impl EventDescription) -> Result<(), FormatError> {
    for field in schema.fields() {
        let is_time = matches!(field.role(), FieldRole::Start | FieldRole::End);
        if is_time && !can_be_time(field) {
            return Err(FormatError::HephTime { field: field.static_name() });
        }
    }
    let mut size = 0;
    check_fields(schema.fields(), 0, &mut size)?;
    if size > MOST_NAMES {
        return Err(FormatError::HephAttributeNamesTooLong { size });
    }
    Ok(())
}

/// How many bytes the names of all attributes of a type may take. The name of an outer field is
/// before that of each inner one, so a type of a few kilobytes could make each packet as large as
/// hundreds of megabytes.
const MOST_NAMES: usize = 1 << 20;

fn can_be_time<F: FieldDescription>(field: &F) -> bool {
    use Storage::*;
    let mut ty = field.ty();
    while let Option(inner) = F::storage(ty) {
        ty = inner;
    }
    matches!(
        F::storage(ty),
        U8 | U16 | U32 | U64 | U128 | I8 | I16 | I32 | I64 | I128 | VarUInt | VarInt | DateTime
    )
}

/// Checks fields whose outer fields have names of `outer` bytes. Adds the size of all names to
/// `all`.
fn check_fields<F: FieldDescription>(
    fields: &[F],
    outer: usize,
    all: &mut usize,
) -> Result<(), FormatError> {
    for field in fields {
        let len = field.name().len();
        let size = if outer == 0 { len } else { outer + 1 + len };
        if size > usize::from(u16::MAX) {
            return Err(FormatError::HephAttributeNameTooLong { size });
        }
        *all = all.saturating_add(size);
        check_type(field, field.ty(), size, all)?;
    }
    Ok(())
}

fn check_type<F: FieldDescription>(
    field: &F,
    ty: &F::Type,
    path: usize,
    all: &mut usize,
) -> Result<(), FormatError> {
    match F::storage(ty) {
        Storage::Object(fields) => check_fields(fields, path, all),
        Storage::Option(inner) => check_type(field, inner, path, all),
        Storage::Array(element, layout) => {
            let located = matches!(layout, ArrayLayout::RelLoc | ArrayLayout::DataLoc);
            if located && F::fixed_size(element).is_none() {
                return Err(FormatError::LocationOfVariableSize { field: field.static_name() });
            }
            check_type(field, element, path, all)
        }
        _ => Ok(()),
    }
}

fn about_type(
    schema: &impl EventDescription,
    labels: &[Label<'_>],
    packet: &mut EventPacket<'_>,
) -> Result<(), FormatError> {
    let EventFacts { provider, name, event_id, mut level, mut keywords, mut version, .. } =
        schema.facts();
    let opcode = spans::opcode(schema, labels);
    for label in labels {
        match *label {
            Label::Level(value) => level = value,
            Label::Keywords(value) => keywords = value,
            Label::Version(value) => version = value,
            _ => {}
        }
    }
    packet.attribute("@provider", Value::Str(provider))?;
    packet.attribute("@event", Value::Str(name))?;
    packet.attribute("@id", Value::U64(event_id.into()))?;
    packet.attribute("@level", Value::U64(level.into()))?;
    let others =
        [("@keywords", keywords), ("@opcode", opcode.into()), ("@version", version.into())];
    others
        .iter()
        .filter(|(_, value)| *value != 0)
        .try_for_each(|(name, value)| packet.attribute(name, Value::U64(*value)))
}

/// Writes the attributes of the single event.
fn about_event(
    info: &EventInfo<'_>,
    scratch: &mut String,
    packet: &mut EventPacket<'_>,
) -> Result<(), FormatError> {
    if let Some(name) = info.thread_name {
        packet.attribute("@thread", Value::Str(name))?;
    }
    if let Some(subject) = info.subject {
        packet.attribute("@subject", Value::U64(subject.into()))?;
    }
    if let Some(name) = info.subject_name {
        packet.attribute("@subject_thread", Value::Str(name))?;
    }
    if let Some(processor) = info.processor {
        packet.attribute("@processor", Value::U64(processor.into()))?;
    }
    if !info.stack.is_empty() {
        packet.attribute("@stack", Value::U64Array(info.stack))?;
    }
    let has_span = info.labels.iter().any(|label| matches!(label, Label::SpanId(_)));
    let span_id = spans::span_id(info.labels);
    for label in info.labels {
        let mut digits = |name, id: &[u8]| {
            scratch.clear();
            hex::push(id, scratch);
            packet.attribute(name, Value::Str(scratch))
        };
        match *label {
            Label::ActivityId(id) => match activity::span_id(&id) {
                // The label `SpanId` says the same.
                Some(own) if has_span && span_id == Some(own) => {}
                Some(own) if !has_span => digits("@span", &own.to_be_bytes())?,
                _ => guid("@activity", &id, scratch, packet)?,
            },
            Label::RelatedActivityId(id) => match activity::span_id(&id) {
                Some(parent) => digits("@parent", &parent.to_be_bytes())?,
                None => guid("@related", &id, scratch, packet)?,
            },
            Label::TraceId(id) => digits("@trace", &id)?,
            Label::SpanId(id) => digits("@span", &id.to_be_bytes())?,
            Label::Str(key, value) => {
                label_name(key, scratch);
                packet.attribute(scratch, Value::Str(value))?;
            }
            Label::Int(key, value) => {
                label_name(key, scratch);
                packet.attribute(scratch, Value::I64(value))?;
            }
            // `about_type` has written these.
            Label::OpCode(_) | Label::Keywords(_) | Label::Level(_) | Label::Version(_) => {}
        }
    }
    Ok(())
}

fn guid(
    name: &str,
    id: &[u8; 16],
    scratch: &mut String,
    packet: &mut EventPacket<'_>,
) -> Result<(), FormatError> {
    scratch.clear();
    // Writing to a string does not fail.
    let _ = core::fmt::write(scratch, format_args!("{}", GuidText(id)));
    packet.attribute(name, Value::Str(scratch))
}

fn label_name(key: &str, out: &mut String) {
    out.clear();
    out.push_str("@label.");
    out.push_str(key);
}
