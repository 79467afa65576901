//! `nettrace dump`: every event as text for people.

use std::{fmt, io::Write, time::Instant};

use nettrace_reader::{Label, Value};

use crate::{
    args::Limits, failure::Failure, number, shown, shown::Shower, source::Source,
    summary::Delivered,
};

pub(crate) fn run(source: Source, limits: Limits, out: &mut impl Write) -> Result<(), Failure> {
    let started = Instant::now();
    let mut events = limits.options().open(source)?.sorted();
    let mut shower = Shower::new(events.major_version());
    let mut delivered = Delivered::default();
    let end = loop {
        let event = match events.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        delivered.count(&event);
        let shown = shower.show(&event);
        let metadata = event.metadata();
        write!(out, "{:14.4} ", shown.milliseconds)?;
        let thread = event.thread();
        match (&thread.name, thread.os_thread_id) {
            (Some(name), Some(id)) => write!(out, "[{name} {id}] ")?,
            (Some(name), None) => write!(out, "[{name}] ")?,
            (None, Some(id)) => write!(out, "[{id}] ")?,
            (None, None) => write!(out, "[#{}] ", thread.index)?,
        }
        write!(out, "{}/{}", metadata.provider, shown::name(metadata, shown.opcode))?;
        for field in event.fields() {
            match field {
                Ok((name, value)) => write!(out, " {name}={}", Plain(&value))?,
                Err(error) => write!(out, " <<< {error} >>>")?,
            }
        }
        for label in event.labels().iter() {
            write!(out, " {{{}}}", PlainLabel(label))?;
        }
        if let Some(stack) = event.stack() {
            write!(out, " stack:")?;
            for address in stack.addresses() {
                write!(out, " {address:#x}")?;
            }
        }
        writeln!(out)?;
    };
    delivered.write(events.trace(), events.totals(), started, out)?;
    Ok(end?)
}

struct Plain<'a>(&'a Value<'a>);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Bool(value) => value.fmt(f),
            Value::Utf16CodeUnit(unit) => write!(f, "{:?}", String::from_utf16_lossy(&[*unit])),
            Value::Utf8CodeUnit(unit) => write!(f, "{:?}", char::from(*unit)),
            Value::I8(value) => value.fmt(f),
            Value::U8(value) => value.fmt(f),
            Value::I16(value) => value.fmt(f),
            Value::U16(value) => value.fmt(f),
            Value::I32(value) => value.fmt(f),
            Value::U32(value) => value.fmt(f),
            Value::I64(value) => value.fmt(f),
            Value::U64(value) => value.fmt(f),
            Value::F32(value) => match number::single(*value) {
                Some(number) => f.write_str(&number),
                None => f.write_str(number::not_finite((*value).into())),
            },
            Value::F64(value) => match number::double(*value) {
                Some(number) => f.write_str(&number),
                None => f.write_str(number::not_finite(*value)),
            },
            Value::DateTime(time) => time.fmt(f),
            Value::FileTime(units) => f.write_str(&shown::file_time(*units)),
            Value::Guid(bytes) => f.write_str(&shown::guid(bytes)),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Bytes(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Value::Array(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { ", " } else { "" }, Plain(value))?;
                }
                f.write_str("]")
            }
            Value::Object(fields) => {
                f.write_str("(")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}={}", if i > 0 { " " } else { "" }, Plain(value))?;
                }
                f.write_str(")")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

struct PlainLabel<'a>(&'a Label);

impl fmt::Display for PlainLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Label::ActivityId(id) => write!(f, "activity={}", shown::guid(id)),
            Label::RelatedActivityId(id) => write!(f, "related={}", shown::guid(id)),
            Label::TraceId(id) => {
                f.write_str("trace=")?;
                id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Label::SpanId(id) => write!(f, "span={id:016x}"),
            Label::Text(key, value) => write!(f, "{key}={value:?}"),
            Label::Number(key, value) => write!(f, "{key}={value}"),
            Label::OpCode(value) => write!(f, "opcode={value}"),
            Label::Keywords(value) => write!(f, "keywords={value:#x}"),
            Label::Level(value) => write!(f, "level={value}"),
            Label::Version(value) => write!(f, "version={value}"),
            other => write!(f, "{other:?}"),
        }
    }
}
