//! One event of a Heph trace, in the terms of NetTrace.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use nettrace_event::trace_context::{ActivityId, SpanId};
use nettrace_reader::{
    Error, Label,
    heph::{Event, Kind, Span, SpanPart, Value},
};

use super::SUBSTREAM;

/// What two events of one type have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Type {
    pub(super) provider: String,
    pub(super) name: String,
    pub(super) id: u32,
    pub(super) level: u8,
    pub(super) keywords: u64,
    pub(super) version: u8,
    /// `None` if the trace states none. The name may imply one.
    pub(super) opcode: Option<u8>,
    /// Whether each event stands for a whole span.
    pub(super) is_single: bool,
    /// Whether the field `duration` has the nanoseconds of a span.
    pub(super) has_duration: bool,
    /// Names and types.
    pub(super) fields: Vec<(String, FieldType)>,
}

/// The first fields of an event that stands for a whole span, in their order.
const SINGLE: [&str; 3] = ["started", "duration", "outcome"];

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FieldType {
    /// The type of the value, or of the elements of an array.
    pub(super) kind: Kind,
    pub(super) is_array: bool,
}

/// How many spans are open, at most, of which one event is remembered. They take some 5 MB.
const MOST_EDGES: usize = 1 << 17;

/// The fields of one event of each span that is open. The packet of the whole span has those of
/// both events, so each is only shown with its own.
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// How many fields there are, and their hash, by a hash of the span's ids.
    fields: HashMap<u64, (usize, u64)>,
    hasher: RandomState,
}

impl Edges {
    /// Takes from the fields of a whole span those of its other event.
    fn separate(
        &mut self,
        span: &Span<'_>,
        fields: &mut Vec<(&str, Value<'_>)>,
        opcode: Option<u8>,
    ) {
        let key = self.hasher.hash_one((span.provider, span.name, span.trace, span.id));
        if span.part != SpanPart::Whole {
            if self.fields.len() < MOST_EDGES {
                let known = (fields.len(), self.hash(fields));
                self.fields.insert(key, known);
            }
            return;
        }
        let Some((count, hash)) = self.fields.remove(&key) else { return };
        // Those of the start are first.
        let range = match opcode {
            Some(2) => 0..count,
            Some(1) => fields.len().saturating_sub(count)..fields.len(),
            _ => return,
        };
        if fields.get(range.clone()).is_some_and(|of_other| self.hash(of_other) == hash) {
            fields.drain(range);
        }
    }

    fn hash(&self, fields: &[(&str, Value<'_>)]) -> u64 {
        let mut parsed = Parsed::default();
        for (name, value) in fields {
            parsed.field(name, value);
        }
        self.hasher.hash_one((parsed.ty.fields, parsed.payload))
    }
}

/// An event.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) ty: Type,
    pub(super) stream: u32,
    pub(super) thread: Option<String>,
    /// Nanoseconds since the epoch.
    pub(super) at: u64,
    pub(super) processor: Option<u32>,
    pub(super) labels: Vec<Label>,
    pub(super) stack: Vec<u64>,
    pub(super) payload: Vec<u8>,
    /// Why an attribute cannot be decoded. The event has those before.
    pub(super) damage: Option<Error>,
    /// Whether a part is larger than NetTrace allows.
    pub(super) is_too_large: bool,
}

impl Parsed {
    /// Reads an event. `number` makes the id of a span that has none. `epoch` is that of the trace,
    /// in nanoseconds since 1970.
    pub(super) fn of(event: &Event<'_>, number: u64, epoch: u64, edges: &mut Edges) -> Self {
        let mut parsed = Self { stream: event.stream, at: event.end, ..Self::default() };
        parsed.ty.name = event.description.to_owned();
        parsed.ty.level = 4;
        let span = event.span();
        let is_own = event
            .attributes()
            .filter_map(Result::ok)
            .take_while(|(name, _)| name.starts_with('@'))
            .any(|(name, _)| name == "@provider");
        let mut has_own_span = false;
        let mut opcode = None;
        let mut fields = Vec::new();
        let mut is_head = is_own;
        for attribute in event.attributes() {
            let (name, value) = match attribute {
                Ok(attribute) => attribute,
                Err(error) => {
                    parsed.damage = Some(error);
                    break;
                }
            };
            is_head &= name.starts_with('@');
            if is_head {
                match (name, &value) {
                    ("@opcode", Value::U64(code)) => opcode = Some(*code as u8),
                    ("@span" | "@activity", _) => has_own_span = true,
                    _ => {}
                }
                if parsed.own(name, &value) {
                    continue;
                }
            }
            fields.push((name, value));
        }
        let duration = event.end.saturating_sub(event.start);
        let takes_time = duration > 0 || span.is_some_and(|span| span.part == SpanPart::Whole);
        parsed.ty.opcode = opcode;
        if let Some(span) = span.filter(|_| is_own) {
            edges.separate(&span, &mut fields, opcode);
        }
        match span.filter(|_| is_own) {
            // The packet of the end came before, so this one is at the beginning.
            Some(span) if span.part == SpanPart::Whole && opcode == Some(1) => {
                parsed.at = event.start;
                parsed.ty.name = format!("{}Start", span.name);
            }
            Some(span) if span.part == SpanPart::Whole && opcode == Some(2) => {
                parsed.ty.name = format!("{}Stop", span.name);
            }
            _ if takes_time => {
                if !has_own_span {
                    parsed.labels.push(Label::SpanId(number | 1 << 63));
                }
                parsed.ty.opcode = Some(0);
                parsed.ty.is_single = true;
            }
            _ => {}
        }
        if !has_own_span && (takes_time || !is_own) {
            let substream = format!("{:x}", event.substream);
            parsed.labels.push(Label::Str(SUBSTREAM.to_owned(), substream));
        }
        parsed.name_activity();
        parsed.ty.has_duration = takes_time && parsed.ty.opcode != Some(1);
        if parsed.ty.is_single {
            let started = i64::try_from(epoch.saturating_add(event.start)).unwrap_or(i64::MAX);
            let mut first = [Value::I64(started), Value::U64(duration), Value::Text("")];
            fields.retain(|(name, value)| match SINGLE.iter().position(|own| own == name) {
                Some(at) if std::mem::discriminant(value) == std::mem::discriminant(&first[at]) => {
                    first[at] = value.clone();
                    false
                }
                _ => true,
            });
            fields.splice(..0, SINGLE.into_iter().zip(first));
        } else if parsed.ty.has_duration {
            match fields.iter().find(|(name, _)| *name == "duration") {
                None => fields.push(("duration", Value::U64(duration))),
                Some((_, value)) => parsed.ty.has_duration = matches!(value, Value::U64(_)),
            }
        }
        for (name, value) in fields {
            parsed.field(name, &value);
        }
        parsed.is_too_large |= parsed.payload.len() > usize::from(u16::MAX);
        parsed
    }

    /// Adds the activity id of a span id. Versions 4 and 5 have no other ids.
    fn name_activity(&mut self) {
        let has_activity = |label: &Label| matches!(label, Label::ActivityId(_));
        if self.labels.iter().any(has_activity) {
            return;
        }
        let span = self.labels.iter().find_map(|label| match label {
            Label::SpanId(id) => SpanId::from_u64(*id),
            _ => None,
        });
        let activity = |id| Label::ActivityId(ActivityId::from_span_id(id, 0).to_bytes());
        self.labels.extend(span.map(activity));
    }

    /// Reads an attribute that NetTrace for Rust writes. Returns `false` if it is none of them.
    fn own(&mut self, name: &str, value: &Value<'_>) -> bool {
        let guid = |text: &str| {
            let digits: String = text.chars().filter(|c| *c != '-').collect();
            u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
        };
        let span = |text: &str| u64::from_str_radix(text, 16).ok();
        let label = match (name, value) {
            ("@provider", Value::Text(text)) => {
                self.ty.provider = (*text).to_owned();
                return true;
            }
            ("@event", Value::Text(text)) => {
                self.ty.name = (*text).to_owned();
                return true;
            }
            ("@thread", Value::Text(text)) => {
                self.thread = Some((*text).to_owned());
                return true;
            }
            // The other event of the span says it.
            ("@start_stream" | "@end_stream", Value::U64(_)) => return true,
            ("@kind", _) => return true,
            ("@opcode", Value::U64(_)) => return true,
            ("@id", Value::U64(number)) => {
                self.ty.id = *number as u32;
                return true;
            }
            ("@level", Value::U64(number)) => {
                self.ty.level = *number as u8;
                return true;
            }
            ("@keywords", Value::U64(number)) => {
                self.ty.keywords = *number;
                return true;
            }
            ("@version", Value::U64(number)) => {
                self.ty.version = *number as u8;
                return true;
            }
            ("@processor", Value::U64(number)) => {
                self.processor = u32::try_from(*number).ok();
                return true;
            }
            ("@stack", Value::Array(addresses)) => {
                let address = |value| match value {
                    Value::U64(address) => Some(address),
                    _ => None,
                };
                self.stack = addresses.iter().filter_map(address).collect();
                return true;
            }
            ("@trace", Value::Text(text)) => guid(text).map(Label::TraceId),
            ("@span", Value::Text(text)) => span(text).map(Label::SpanId),
            ("@parent", Value::Text(text)) => {
                let id = span(text).and_then(SpanId::from_u64);
                id.map(|id| Label::RelatedActivityId(ActivityId::from_span_id(id, 0).to_bytes()))
            }
            ("@activity", Value::Text(text)) => guid(text).map(Label::ActivityId),
            ("@related", Value::Text(text)) => guid(text).map(Label::RelatedActivityId),
            (name, Value::Text(text)) => name
                .strip_prefix("@label.")
                .map(|key| Label::Str(key.to_owned(), (*text).to_owned())),
            (name, Value::I64(number)) => {
                name.strip_prefix("@label.").map(|key| Label::Int(key.to_owned(), *number))
            }
            _ => None,
        };
        let is_known = label.is_some();
        self.labels.extend(label);
        is_known
    }

    fn field(&mut self, name: &str, value: &Value<'_>) {
        let kind = |value: &Value<'_>| match value {
            Value::U64(_) => Kind::U64,
            Value::I64(_) => Kind::I64,
            Value::F64(_) => Kind::F64,
            _ => Kind::Text,
        };
        let ty = match value {
            Value::Array(elements) => {
                let count = elements.len().min(usize::from(u16::MAX));
                self.payload.extend_from_slice(&(count as u16).to_le_bytes());
                let mut ty = FieldType { kind: Kind::U64, is_array: true };
                for element in elements.iter() {
                    ty.kind = kind(&element);
                    self.value(&element);
                }
                ty
            }
            value => {
                self.value(value);
                FieldType { kind: kind(value), is_array: false }
            }
        };
        self.ty.fields.push((name.to_owned(), ty));
    }

    fn value(&mut self, value: &Value<'_>) {
        let out = &mut self.payload;
        match value {
            Value::U64(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::I64(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::F64(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Text(text) => {
                let count_at = out.len();
                out.extend_from_slice(&[0, 0]);
                let mut count = 0_usize;
                for unit in text.encode_utf16() {
                    out.extend_from_slice(&unit.to_le_bytes());
                    count += 1;
                }
                match u16::try_from(count) {
                    Ok(count) => out[count_at..][..2].copy_from_slice(&count.to_le_bytes()),
                    Err(_) => self.is_too_large = true,
                }
            }
            // There are no arrays in arrays.
            _ => out.extend_from_slice(&[0, 0]),
        }
    }
}
