//! One recorded event, as a packet.

use alloc::{string::String, vec::Vec};

use trace_event::{ArrayLayout, EventSchema, FieldRole, FieldSchema, FieldType};

use crate::{
    content::Label,
    error::FormatError,
    heph::{
        clock::Clock,
        fields::{Fields, Roles},
        packet::{self, EventHeader, EventPacket, Value},
        spelling::GuidText,
    },
    payload::walk::walk,
};

/// Everything about one event but its type and payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventInfo<'a> {
    /// The thread that recorded it, by a number that no other thread of the trace has.
    pub stream: u32,
    /// The number that the thread gave it.
    pub counter: u32,
    /// When, in ticks.
    pub timestamp: u64,
    /// The thread's name.
    pub thread_name: Option<&'a str>,
    /// Another thread that the event is about, by its stream.
    pub subject: Option<u32>,
    /// That thread's name.
    pub subject_name: Option<&'a str>,
    /// The processor it ran on.
    pub processor: Option<u32>,
    /// Its labels.
    pub labels: &'a [Label<'a>],
    /// Its stack: addresses, leaf first.
    pub stack: &'a [u64],
}

/// Makes packets of recorded events. What becomes of what: see [the module](super).
#[derive(Clone, Debug)]
pub struct EventWriter {
    clock: Clock,
    /// The description that a field gives.
    description: Vec<u8>,
    /// The name of the attribute that is being written.
    path: String,
}

impl EventWriter {
    /// A writer for a trace whose epoch is `clock`'s.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, description: Vec::new(), path: String::new() }
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Appends the metadata packet that a trace begins with: its epoch.
    pub fn begin(&self, out: &mut Vec<u8>) {
        packet::epoch(self.clock.epoch(), out);
    }

    /// Appends the packet of an event, whose payload is as
    /// [`NetTraceEncoder`](crate::payload::NetTraceEncoder) wrote it.
    ///
    /// # Errors
    /// [`FormatError::PayloadMismatch`] where the payload is not that of `schema`;
    /// [`FormatError::HephTime`] for a type that [`check`] refuses; and what is too long:
    /// [`FormatError::HephDescriptionTooLong`], [`FormatError::HephAttributeNameTooLong`],
    /// [`FormatError::HephStringTooLong`], [`FormatError::HephArrayTooLong`],
    /// [`FormatError::HephPacketTooLarge`]. `out` is then as it was.
    pub fn event(
        &mut self,
        schema: &EventSchema,
        info: &EventInfo<'_>,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let now = self.clock.nanos(info.timestamp);
        let mut header = EventHeader {
            stream: info.stream,
            counter: info.counter,
            substream: substream(info.labels),
            start: now,
            end: now,
        };
        let mut description = schema.name;
        let mut kept = Kept::default();
        if schema.fields.iter().any(|field| field.role != FieldRole::Value) {
            self.description.clear();
            let mut roles = Roles::new(&mut self.description);
            walk(schema.fields, payload, &mut roles)?;
            if let Some(start) = roles.start {
                (header.start, kept.start) = start.resolve(&self.clock, now, true);
            }
            if let Some(end) = roles.end {
                (header.end, kept.end) = end.resolve(&self.clock, header.start, false);
            }
            if header.end < header.start {
                header.end = header.start;
                kept.end = roles.end.is_some();
            }
            if roles.is_described {
                // It is made of characters.
                description = core::str::from_utf8(&self.description).unwrap_or(description);
            }
        }
        let mut packet = EventPacket::begin(&header, description, out)?;
        about_type(schema, info.labels, &mut packet)?;
        about_event(info, &mut self.path, &mut packet)?;
        self.path.clear();
        let mut fields = Fields::new(&mut self.path, kept, packet.out());
        walk(schema.fields, payload, &mut fields)?;
        packet.finish()
    }
}

/// Whether a type's events can be written.
///
/// # Errors
/// [`FormatError::HephTime`] for a start or end that is no time,
/// [`FormatError::HephAttributeNameTooLong`] for names that are too long in the form
/// `outer.inner`, [`FormatError::LocationOfVariableSize`].
pub fn check(schema: &EventSchema) -> Result<(), FormatError> {
    for field in schema.fields {
        let is_time = matches!(field.role, FieldRole::Start | FieldRole::End);
        if is_time && !can_be_time(&field.ty) {
            return Err(FormatError::HephTime { field: field.name });
        }
    }
    check_fields(schema.fields, 0)
}

/// Which fields with a role are attributes nevertheless.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    pub(super) start: bool,
    pub(super) end: bool,
}

fn can_be_time(ty: &FieldType) -> bool {
    use FieldType::*;
    match ty {
        Option(inner) => can_be_time(inner),
        U8 | U16 | U32 | U64 | U128 | I8 | I16 | I32 | I64 | I128 | VarUInt | VarInt
        | UnixNanos | DateTime | DurationNanos => true,
        _ => false,
    }
}

fn check_fields(fields: &[FieldSchema], outer: usize) -> Result<(), FormatError> {
    for field in fields {
        let size = if outer == 0 { field.name.len() } else { outer + 1 + field.name.len() };
        if size > usize::from(u16::MAX) {
            return Err(FormatError::HephAttributeNameTooLong { size });
        }
        check_type(field.name, &field.ty, size)?;
    }
    Ok(())
}

fn check_type(field: &'static str, ty: &FieldType, path: usize) -> Result<(), FormatError> {
    match *ty {
        FieldType::Object(fields) => check_fields(fields, path),
        FieldType::Option(inner) => check_type(field, inner, path),
        FieldType::Array(element, layout) => {
            let located = matches!(layout, ArrayLayout::RelLoc | ArrayLayout::DataLoc);
            if located && !element.is_fixed_size() {
                return Err(FormatError::LocationOfVariableSize { field });
            }
            check_type(field, element, path)
        }
        _ => Ok(()),
    }
}

/// What runs on the thread by turns with others is a task, and tasks have labels.
fn substream(labels: &[Label<'_>]) -> u64 {
    let span = labels.iter().rev().find_map(|label| match label {
        Label::SpanId(id) => Some(*id),
        _ => None,
    });
    let activity = || {
        labels.iter().rev().find_map(|label| match label {
            Label::ActivityId(id) => {
                let id = u128::from_be_bytes(*id);
                Some((id >> 64) as u64 ^ id as u64)
            }
            _ => None,
        })
    };
    span.or_else(activity).unwrap_or(0)
}

/// What the type says, unless a label says otherwise.
fn about_type(
    schema: &EventSchema,
    labels: &[Label<'_>],
    packet: &mut EventPacket<'_>,
) -> Result<(), FormatError> {
    let (mut level, mut keywords) = (schema.level as u8, schema.keywords);
    let (mut opcode, mut version) = (schema.opcode.unwrap_or(0), schema.version);
    for label in labels {
        match *label {
            Label::Level(value) => level = value,
            Label::Keywords(value) => keywords = value,
            Label::OpCode(value) => opcode = value,
            Label::Version(value) => version = value,
            _ => {}
        }
    }
    packet.attribute("@provider", Value::Str(schema.provider.name))?;
    packet.attribute("@event", Value::Str(schema.name))?;
    packet.attribute("@id", Value::U64(schema.id.into()))?;
    packet.attribute("@level", Value::U64(level.into()))?;
    let others =
        [("@keywords", keywords), ("@opcode", opcode.into()), ("@version", version.into())];
    others
        .iter()
        .filter(|(_, value)| *value != 0)
        .try_for_each(|(name, value)| packet.attribute(name, Value::U64(*value)))
}

/// What is said of the one event.
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
    for label in info.labels {
        let mut text = |name, value: core::fmt::Arguments<'_>| {
            scratch.clear();
            // A string takes whatever there is.
            let _ = core::fmt::write(scratch, value);
            packet.attribute(name, Value::Str(scratch))
        };
        match *label {
            Label::ActivityId(id) => text("@activity", format_args!("{}", GuidText(&id)))?,
            Label::RelatedActivityId(id) => text("@related", format_args!("{}", GuidText(&id)))?,
            Label::TraceId(id) => {
                text("@trace", format_args!("{:032x}", u128::from_be_bytes(id)))?;
            }
            Label::SpanId(id) => text("@span", format_args!("{id:016x}"))?,
            Label::Str(key, value) => {
                label_name(key, scratch);
                packet.attribute(scratch, Value::Str(value))?;
            }
            Label::Int(key, value) => {
                label_name(key, scratch);
                packet.attribute(scratch, Value::I64(value))?;
            }
            // Said of the type.
            Label::OpCode(_) | Label::Keywords(_) | Label::Level(_) | Label::Version(_) => {}
        }
    }
    Ok(())
}

fn label_name(key: &str, out: &mut String) {
    out.clear();
    out.push_str("@label.");
    out.push_str(key);
}
