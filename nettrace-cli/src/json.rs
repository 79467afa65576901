//! `nettrace dump --json`: one JSON object a line for each event.

use std::{
    collections::HashSet,
    io::{self, Write},
    time::Instant,
};

use nettrace_reader::{Event, Label, Value};

use crate::{
    args::Limits,
    failure::Failure,
    number, shown,
    shown::{Shower, Shown},
    source::Source,
    summary::Delivered,
};

pub(crate) fn run(source: Source, limits: Limits, out: &mut impl Write) -> Result<(), Failure> {
    let started = Instant::now();
    let mut events = limits.options().open(source)?.sorted();
    let mut shower = Shower::new(events.major_version());
    let mut delivered = Delivered::default();
    let mut line = String::new();
    let end = loop {
        let event = match events.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        delivered.count(&event);
        line.clear();
        object(&mut line, &event, &shower.show(&event));
        line.push('\n');
        out.write_all(line.as_bytes())?;
    };
    delivered.write(events.trace(), events.totals(), started, out)?;
    key_values(&events.trace().key_values)?;
    Ok(end?)
}

/// What the trace says of itself goes to standard error.
fn key_values(pairs: &[(String, String)]) -> io::Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let mut line = String::from("# trace key-values ");
    let mut entries = Members::begin(&mut line);
    for (i, (key, value)) in pairs.iter().enumerate() {
        // The last value of a key counts, in the place of the first.
        if pairs[..i].iter().all(|(earlier, _)| earlier != key) {
            let last = pairs.iter().rev().find(|(later, _)| later == key);
            text(entries.key(key), last.map_or(value, |(_, value)| value));
        }
    }
    entries.end();
    match writeln!(io::stderr(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn object(out: &mut String, event: &Event<'_>, shown: &Shown) {
    let metadata = event.metadata();
    let mut members = Members::begin(out);
    text(members.key("provider"), &metadata.provider);
    text(members.key("name"), &shown::name(metadata, shown.opcode));
    members.number("id", shown.event_id);
    members.number("version", event.version());
    members.number("level", event.level());
    members.number("keywords", event.keywords());
    members.number("opcode", shown.opcode);
    members.number("process", shown.process);
    members.number("thread", shown.thread);
    members.number("cpu", shown.processor);
    members.number("ticks", event.header.timestamp as i64);
    double(members.key("ms"), number::four_decimals(shown.milliseconds));
    members.number("payload_bytes", event.payload.len());
    let list = event.labels();
    let labels = Labels::of(&list);
    for (key, id) in [("activity", labels.activity), ("related", labels.related)] {
        if let Some(id) = id.filter(|id| **id != [0; 16]) {
            text(members.key(key), &shown::guid(id));
        }
    }
    // The reference has no labels where activity ids stand in the row itself.
    if event.header.label_list != 0 {
        labels.write(members.key("labels"), &list);
    }
    fields(members.key("fields"), event);
    members.end();
}

fn fields(out: &mut String, event: &Event<'_>) {
    let mut members = Members::begin(out);
    let mut names = HashSet::new();
    let mut unique = |name: &str| {
        let mut name = name.to_owned();
        while !names.insert(name.clone()) {
            name.push('\'');
        }
        name
    };
    let mut fields = event.fields();
    for field in &event.metadata().fields {
        let absent = fields.is_exhausted();
        let name = unique(&field.name);
        let out = members.key(&name);
        match fields.next() {
            _ if absent => out.push_str("null"),
            Some(Ok((_, field))) => value(out, &field),
            Some(Err(error)) => text(out, &format!("<<< {} >>>", error.kind())),
            // Behind a field that could not be decoded nobody knows where the next one begins.
            None => out.push_str("null"),
        }
    }
    members.end();
}

fn value(out: &mut String, value_: &Value<'_>) {
    match value_ {
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Utf16CodeUnit(unit) => {
            text(out, &String::from_utf16_lossy(&[*unit]));
        }
        Value::Utf8CodeUnit(unit) => text(out, &char::from(*unit).to_string()),
        Value::I8(value) => push(out, value),
        Value::U8(value) => push(out, value),
        Value::I16(value) => push(out, value),
        Value::U16(value) => push(out, value),
        Value::I32(value) => push(out, value),
        Value::U32(value) => push(out, value),
        Value::I64(value) => push(out, value),
        Value::U64(value) => push(out, value),
        Value::F32(value) => match number::single(*value) {
            Some(number) => out.push_str(&number),
            None => text(out, number::not_finite((*value).into())),
        },
        Value::F64(value) => double(out, *value),
        Value::DateTime(time) => text(out, &time.to_string()),
        Value::FileTime(units) => text(out, &shown::file_time(*units)),
        Value::Guid(bytes) => text(out, &shown::guid(bytes)),
        Value::Text(string) => text(out, string),
        Value::Bytes(bytes) => array(out, bytes.iter(), push),
        Value::Array(values) => array(out, values.iter(), value),
        Value::Object(fields) => {
            let mut members = Members::begin(out);
            for (i, (name, field)) in fields.iter().enumerate() {
                // Of two fields of one name JSON can only show one.
                if fields[..i].iter().all(|(earlier, _)| earlier != name) {
                    value(members.key(name), field);
                }
            }
            members.end();
        }
        other => text(out, &format!("{other:?}")),
    }
}

pub(crate) fn array<T>(
    out: &mut String,
    items: impl Iterator<Item = T>,
    write: impl Fn(&mut String, T),
) {
    out.push('[');
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

pub(crate) fn double(out: &mut String, value: f64) {
    match number::double(value) {
        Some(number) => out.push_str(&number),
        None => text(out, number::not_finite(value)),
    }
}

pub(crate) fn push(out: &mut String, value: impl std::fmt::Display) {
    out.push_str(&value.to_string());
}

/// An object under construction.
pub(crate) struct Members<'a> {
    out: &'a mut String,
    first: bool,
}

impl<'a> Members<'a> {
    pub(crate) fn begin(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, first: true }
    }

    /// Writes the key; the value is to follow.
    pub(crate) fn key(&mut self, key: &str) -> &mut String {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
        text(self.out, key);
        self.out.push(':');
        self.out
    }

    pub(crate) fn number(&mut self, key: &str, value: impl std::fmt::Display) {
        push(self.key(key), value);
    }

    pub(crate) fn end(self) {
        self.out.push('}');
    }
}

/// The labels that have a meaning of their own; of two that mean the same the last one counts.
#[derive(Default)]
struct Labels<'a> {
    activity: Option<&'a [u8; 16]>,
    related: Option<&'a [u8; 16]>,
    trace: Option<&'a [u8; 16]>,
    span: Option<u64>,
    opcode: Option<u8>,
    keywords: Option<u64>,
    level: Option<u8>,
    version: Option<u8>,
}

impl<'a> Labels<'a> {
    fn of(list: &'a [Label]) -> Self {
        let mut labels = Self::default();
        for label in list {
            match label {
                Label::ActivityId(id) => labels.activity = Some(id),
                Label::RelatedActivityId(id) => labels.related = Some(id),
                Label::TraceId(id) => labels.trace = Some(id),
                Label::SpanId(id) => labels.span = Some(*id),
                Label::OpCode(value) => labels.opcode = Some(*value),
                Label::Keywords(value) => labels.keywords = Some(*value),
                Label::Level(value) => labels.level = Some(*value),
                Label::Version(value) => labels.version = Some(*value),
                _ => {}
            }
        }
        labels
    }

    /// Pairs of key and value, in the order of the reference.
    fn write(&self, out: &mut String, list: &[Label]) {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        let quoted = |string: &str| {
            let mut out = String::new();
            text(&mut out, string);
            out
        };
        for (key, id) in [
            ("ActivityId", self.activity),
            ("RelatedActivityId", self.related),
            ("TraceId", self.trace),
        ] {
            pairs.extend(id.map(|id| (key, quoted(&shown::guid(id)))));
        }
        pairs.extend(self.span.map(|id| ("SpanId", (id as i64).to_string())));
        for label in list {
            match label {
                Label::Text(key, value) => pairs.push((key, quoted(value))),
                Label::Number(key, value) => pairs.push((key, value.to_string())),
                _ => {}
            }
        }
        pairs.extend(self.opcode.map(|value| ("OpCode", value.to_string())));
        pairs.extend(self.keywords.map(|value| ("Keywords", value.to_string())));
        pairs.extend(self.level.map(|value| ("Level", value.to_string())));
        pairs.extend(self.version.map(|value| ("Version", value.to_string())));
        array(out, pairs.iter(), |out, (key, value)| {
            out.push('[');
            text(out, key);
            out.push(',');
            out.push_str(value);
            out.push(']');
        });
    }
}

/// A string with the escapes of .NET's relaxed JSON encoder.
pub(crate) fn text(out: &mut String, string: &str) {
    out.push('"');
    for c in string.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            ' '..='~' => out.push(c),
            c if is_escaped(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Controls, spaces but the usual one, private use, what is no character, and all beyond 16 bits. (The
/// reference escapes unassigned characters too; which those are changes with each version of Unicode.)
fn is_escaped(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1F}'
            | '\u{7F}'..='\u{A0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200A}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202F}'
            | '\u{205F}'
            | '\u{3000}'
            | '\u{E000}'..='\u{F8FF}'
            | '\u{FDD0}'..='\u{FDEF}'
            | '\u{FEFF}'
            | '\u{FFFE}'..
    )
}
