//! One event of a Heph trace, in the terms of NetTrace.

use nettrace_context::{ActivityId, SpanId};
use nettrace_format::content::Label;
use nettrace_reader::heph::{Event, SpanPart, Value};

/// What two events of one type have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Type {
    pub(super) provider: String,
    pub(super) name: String,
    pub(super) id: u32,
    pub(super) level: u8,
    pub(super) keywords: u64,
    pub(super) version: u8,
    pub(super) opcode: u8,
    /// Names and types.
    pub(super) fields: Vec<(String, FieldType)>,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FieldType {
    /// The code of a number, or that of the code units of a text.
    pub(super) code: Code,
    pub(super) is_array: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Code {
    Unsigned,
    Signed,
    Float,
    Text,
}

/// A label with its texts.
#[derive(Clone, Debug)]
pub(super) enum OwnLabel {
    Trace([u8; 16]),
    Span(u64),
    Activity([u8; 16]),
    Related([u8; 16]),
    Text(String, String),
    Number(String, i64),
}

impl OwnLabel {
    pub(super) fn label(&self) -> Label<'_> {
        match self {
            Self::Trace(id) => Label::TraceId(*id),
            Self::Span(id) => Label::SpanId(*id),
            Self::Activity(id) => Label::ActivityId(*id),
            Self::Related(id) => Label::RelatedActivityId(*id),
            Self::Text(key, text) => Label::Str(key, text),
            Self::Number(key, number) => Label::Int(key, *number),
        }
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
    pub(super) labels: Vec<OwnLabel>,
    pub(super) stack: Vec<u64>,
    pub(super) payload: Vec<u8>,
    /// Whether an attribute cannot be decoded. It has those before.
    pub(super) is_damaged: bool,
    /// Whether a part is larger than NetTrace allows.
    pub(super) is_too_large: bool,
}

impl Parsed {
    /// Reads an event. `number` makes the id of a span that has none.
    pub(super) fn of(event: &Event<'_>, number: u64) -> Self {
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
        let mut opcode = 0;
        let mut fields = Vec::new();
        let mut is_head = is_own;
        for attribute in event.attributes() {
            let Ok((name, value)) = attribute else {
                parsed.is_damaged = true;
                break;
            };
            is_head &= name.starts_with('@');
            if is_head {
                match (name, &value) {
                    ("@opcode", Value::U64(code)) => opcode = *code as u8,
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
        match span.filter(|_| is_own) {
            // The packet of the end came before, so this one is at the beginning.
            Some(span) if span.part == SpanPart::Whole && opcode == 1 => {
                parsed.at = event.start;
                parsed.ty.name = format!("{}Start", span.name);
            }
            Some(span) if span.part == SpanPart::Whole => {
                parsed.ty.name = format!("{}Stop", span.name);
                parsed.ty.opcode = 2;
            }
            _ if takes_time => {
                if !has_own_span {
                    parsed.labels.push(OwnLabel::Span(number | 1 << 63));
                }
                parsed.ty.opcode = 2;
            }
            _ => {}
        }
        let is_end = takes_time && parsed.ty.opcode == 2;
        if is_end && !fields.iter().any(|(name, _)| *name == "duration") {
            fields.push(("duration", Value::U64(duration)));
        }
        for (name, value) in fields {
            parsed.field(name, &value);
        }
        parsed.is_too_large |= parsed.payload.len() > usize::from(u16::MAX);
        parsed
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
            ("@trace", Value::Text(text)) => guid(text).map(OwnLabel::Trace),
            ("@span", Value::Text(text)) => span(text).map(OwnLabel::Span),
            ("@parent", Value::Text(text)) => {
                let id = span(text).and_then(SpanId::from_u64);
                id.map(|id| OwnLabel::Related(ActivityId::from_span_id(id, 0).to_bytes()))
            }
            ("@activity", Value::Text(text)) => guid(text).map(OwnLabel::Activity),
            ("@related", Value::Text(text)) => guid(text).map(OwnLabel::Related),
            (name, Value::Text(text)) => name
                .strip_prefix("@label.")
                .map(|key| OwnLabel::Text(key.to_owned(), (*text).to_owned())),
            (name, Value::I64(number)) => {
                name.strip_prefix("@label.").map(|key| OwnLabel::Number(key.to_owned(), *number))
            }
            _ => None,
        };
        let is_known = label.is_some();
        self.labels.extend(label);
        is_known
    }

    fn field(&mut self, name: &str, value: &Value<'_>) {
        let code = |value: &Value<'_>| match value {
            Value::U64(_) => Code::Unsigned,
            Value::I64(_) => Code::Signed,
            Value::F64(_) => Code::Float,
            _ => Code::Text,
        };
        let ty = match value {
            Value::Array(elements) => {
                let count = elements.len().min(usize::from(u16::MAX));
                self.payload.extend_from_slice(&(count as u16).to_le_bytes());
                let mut ty = FieldType { code: Code::Unsigned, is_array: true };
                for element in elements.iter() {
                    ty.code = code(&element);
                    self.value(&element);
                }
                ty
            }
            value => {
                self.value(value);
                FieldType { code: code(value), is_array: false }
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
