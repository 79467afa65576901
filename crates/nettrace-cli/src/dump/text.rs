//! One event as a line of text for people.

use std::io::{self, Write};

use nettrace_reader::Thread;
use nettrace_views::{
    model::{Ids, hex},
    text::{self, Severity, is_id, write_event},
};

use crate::{
    dump::{Extra, ShownEvent},
    seconds::Seconds,
    spelling::OneLine,
};

pub(super) fn write(shown: &ShownEvent<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let &ShownEvent { event, ty, payload, time, look, .. } = shown;
    match time.time {
        Some(time) => write!(out, "{time}")?,
        None => write!(out, "{:>30}", "-")?,
    }
    match time.since_start {
        Some(nanos) => write!(out, " {:>15}", Seconds(nanos).to_string())?,
        None => write!(out, " {:>9} ticks", event.header.timestamp)?,
    }
    let severity = Severity::of(event);
    let style = severity.style().on(look.has_colors);
    write!(out, " {style}{:<5}{style:#} ", severity.name())?;
    if let Some(process) = shown.process_name() {
        write!(out, "{} ", OneLine(process))?;
    }
    write_thread(event.thread(), out)?;
    out.push(b' ');
    let labels = event.labels();
    let key = Ids::of(&labels).span;
    let has_ids = key.is_none() || shown.extras.contains(&Extra::Ids);
    let labels = labels.iter().filter(|label| has_ids || !is_id(label));
    write_event(
        &text::ShownEvent { event, ty, payload, key, place: shown.place },
        labels,
        look,
        out,
    )?;
    for extra in shown.extras {
        write_extra(*extra, shown, out)?;
    }
    writeln!(out)
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

fn write_extra(extra: Extra, shown: &ShownEvent<'_>, out: &mut Vec<u8>) -> io::Result<()> {
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
                let mark = if shown.facts.names.knows_code() { ";" } else { "" };
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
