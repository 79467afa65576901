//! One event as a line of text for people.

use std::io::{self, Write};

use nettrace_reader::{Event, Thread};
use nettrace_views::model::{hex, label_name};

use crate::{
    dump::{Extra, Shown},
    event_type::EventType,
    message::Message,
    payload::{LabelValue, Payload, quoted},
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
    write_what(event, ty, payload, shown.place, out)?;
    for label in event.labels().iter() {
        write!(out, " {{{}={}}}", OneLine(label_name(label)), OneLine(LabelValue(label)))?;
    }
    for extra in shown.extras {
        write_extra(*extra, shown, out)?;
    }
    writeln!(out)
}

/// Writes the provider and the name of an event, the given place of its type, its message and its
/// fields.
pub(crate) fn write_what(
    event: &Event<'_>,
    ty: &EventType,
    payload: &Payload<'_>,
    place: Option<&str>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let metadata = event.metadata();
    let name = spelling::event_name(metadata);
    let opcode = Opcode { opcode: event.opcode(), name: &name };
    write!(out, "{}/{}{opcode}", OneLine(&metadata.provider), OneLine(&name))?;
    if let Some(place) = place {
        write!(out, " ({})", OneLine(place))?;
    }
    if let Some(template) = &ty.message {
        write!(out, ": {}", OneLine(Message { template, payload }))?;
    }
    write_fields(payload, &[], out)
}

/// Writes the fields but those named, each after a blank.
pub(crate) fn write_fields(
    payload: &Payload<'_>,
    without: &[&str],
    out: &mut Vec<u8>,
) -> io::Result<()> {
    for (name, value) in &payload.fields {
        let value = value.as_ref().filter(|_| !without.contains(name));
        if let Some(value) = value {
            let value = quoted(value, payload.types.field(name));
            write!(out, " {}={}", OneLine(name), OneLine(value))?;
        }
    }
    if let Some(error) = &payload.error {
        write!(out, " (the next field cannot be decoded: {error})")?;
    }
    Ok(())
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
