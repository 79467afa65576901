//! One event as a line of text for people.

use std::io::{self, Write};

use nettrace_reader::{Event, Label, Thread};
use nettrace_views::model::{Ids, Key, hex, label_name, process_id};

use crate::{
    dump::{Extra, Shown},
    event_type::EventType,
    message::{CUT, Message},
    payload::{LabelValue, Payload, is_id, quoted},
    seconds::Seconds,
    spelling::{self, OneLine, Opcode},
};

pub(super) fn write(shown: &Shown<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let Shown { event, ty, payload, time, .. } = shown;
    match time.time {
        Some(time) => write!(out, "{time}")?,
        None => write!(out, "{:>30}", "-")?,
    }
    match time.since_start {
        Some(nanos) => write!(out, " {:>15}", Seconds(nanos).to_string())?,
        None => write!(out, " {:>9} ticks", event.header.timestamp)?,
    }
    write!(out, " {:<13} ", spelling::level(event.level()))?;
    write_thread(event.thread(), out)?;
    out.push(b' ');
    write_name(event, shown.place, out)?;
    let labels = event.labels();
    let span = Ids::of(&labels).span;
    if let Some(span) = &span {
        let process = process_id(event).and_then(|id| id.try_into().ok());
        write_key(span, process.unwrap_or(0), out)?;
    }
    write_said(ty, payload, out)?;
    let has_ids = span.is_none() || shown.extras.contains(&Extra::Ids);
    for label in labels.iter().filter(|label| has_ids || !is_id(label)) {
        write_label(label, out)?;
    }
    for extra in shown.extras {
        write_extra(*extra, shown, out)?;
    }
    writeln!(out)
}

/// Writes the provider and the name of an event, its message and its fields.
pub(crate) fn write_what(
    event: &Event<'_>,
    ty: &EventType,
    payload: &Payload<'_>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    write_name(event, None, out)?;
    write_said(ty, payload, out)
}

/// Writes the provider and the name of an event, and the given place of its type.
fn write_name(event: &Event<'_>, place: Option<&str>, out: &mut Vec<u8>) -> io::Result<()> {
    let metadata = event.metadata();
    let name = spelling::event_name(metadata);
    let opcode = Opcode { opcode: event.opcode(), name: &name };
    write!(out, "{}/{}{opcode}", OneLine(&metadata.provider), OneLine(&name))?;
    match place {
        Some(place) => write!(out, " ({})", OneLine(place)),
        None => Ok(()),
    }
}

/// Writes the short id of a span of this process, after a blank.
pub(crate) fn write_key(key: &Key, process: u32, out: &mut Vec<u8>) -> io::Result<()> {
    match key {
        Key::Span(_, id) => write!(out, " [{id}]"),
        Key::Activity(id) => match id.path_in(process).or(id.path()) {
            Some(path) => write!(out, " ({path})"),
            None => write!(out, " [{id}]"),
        },
    }
}

/// Writes the message of an event, and the fields that the message does not show.
fn write_said(ty: &EventType, payload: &Payload<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let Some(template) = &ty.message else { return write_fields(payload, &[], out) };
    write!(out, ": {}", OneLine(Message { template, payload }))?;
    let is_whole = !out.ends_with(CUT.as_bytes());
    write_others(payload, |number, _| is_whole && template.shows(number), out)
}

/// Writes the fields but those named, each after a blank.
pub(crate) fn write_fields(
    payload: &Payload<'_>,
    without: &[&str],
    out: &mut Vec<u8>,
) -> io::Result<()> {
    write_others(payload, |_, name| without.contains(&name), out)
}

/// Writes the fields but those that `without` names by number or name, each after a blank.
fn write_others(
    payload: &Payload<'_>,
    without: impl Fn(usize, &str) -> bool,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    for (number, (name, value)) in payload.fields.iter().enumerate() {
        if let Some(value) = value.as_ref().filter(|_| !without(number, name)) {
            let value = quoted(value, payload.types.field(name));
            write!(out, " {}={}", OneLine(name), OneLine(value))?;
        }
    }
    if let Some(error) = &payload.error {
        write!(out, " (the next field cannot be decoded: {error})")?;
    }
    Ok(())
}

/// Writes a label, after a blank.
pub(crate) fn write_label(label: &Label, out: &mut Vec<u8>) -> io::Result<()> {
    write!(out, " {{{}={}}}", OneLine(label_name(label)), OneLine(LabelValue(label)))
}

/// Writes the name and OS id of a thread, or its index in the trace if it has neither.
fn write_thread(thread: &Thread, out: &mut Vec<u8>) -> io::Result<()> {
    match (&thread.name, thread.os_thread_id) {
        (Some(name), Some(id)) => write!(out, "[{} {id}]", OneLine(name)),
        (Some(name), None) => write!(out, "[{}]", OneLine(name)),
        (None, Some(id)) => write!(out, "[{id}]"),
        (None, None) => write!(out, "[#{}]", thread.index),
    }
}

fn write_extra(extra: Extra, shown: &Shown<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let event = shown.event;
    match extra {
        Extra::CaptureThread => {
            write!(out, " captured by ")?;
            write_thread(&event.capture_thread().thread, out)
        }
        // They are among the labels.
        Extra::Ids => Ok(()),
        Extra::Number => write!(out, " number {}", event.header.sequence_number),
        Extra::Sorted if event.header.is_sorted => write!(out, " sorted"),
        Extra::Sorted => Ok(()),
        Extra::Stack => match shown.frames() {
            Some(frames) => {
                // Names have blanks, addresses have none.
                let mark = if shown.names.knows_code() { ";" } else { "" };
                write!(out, " stack:")?;
                for (at, frame) in frames.enumerate() {
                    write!(out, "{} {}", if at > 0 { mark } else { "" }, OneLine(frame))?;
                }
                Ok(())
            }
            None if event.header.stack_id != 0 => write!(out, " stack: not in the trace"),
            None => Ok(()),
        },
        Extra::Description => match &event.metadata().description {
            Some(text) => write!(out, " description: {}", OneLine(text)),
            None => Ok(()),
        },
        Extra::Payload => write!(out, " payload: 0x{}", hex(event.payload)),
    }
}
