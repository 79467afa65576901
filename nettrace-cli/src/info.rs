//! `nettrace info`: what was traced, when, by whom, how many events, how many lost.

use std::{collections::BTreeMap, io::Write};

use nettrace_reader::{Reader, ThreadTotals};

use crate::{args::Limits, failure::Failure, shown, source::Source};

pub(crate) fn run(
    source: Source,
    limits: Limits,
    all_threads: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let options = limits.options().keep_thread_totals(true).keep_type_totals(true);
    let mut reader = options.open(source)?;
    let end = reader.read_to_end();
    write_trace(&reader, out)?;
    write_events(&reader, out)?;
    write_threads(&reader, all_threads, out)?;
    if end.is_err() {
        writeln!(out, "\nThe trace is damaged; this is what could be read.")?;
    }
    Ok(end?)
}

/// Events and payload bytes, by provider, event id and display name.
fn by_name(reader: &Reader<Source>) -> BTreeMap<(String, u32, String), (u64, u64)> {
    let mut out = BTreeMap::new();
    for totals in reader.type_totals().filter(|totals| totals.events > 0) {
        let metadata = totals.metadata;
        let name = shown::name(&metadata, shown::type_opcode(&metadata));
        let key = (metadata.provider, metadata.event_id, name);
        let (events, bytes) = out.entry(key).or_default();
        *events += totals.events;
        *bytes += totals.payload_bytes;
    }
    out
}

fn write_trace(reader: &Reader<Source>, out: &mut impl Write) -> Result<(), Failure> {
    let (trace, totals) = (reader.trace(), reader.totals());
    match reader.major_version() {
        major @ 6.. => {
            writeln!(out, "format           NetTrace V{major}.{}", reader.minor_version())?
        }
        major => writeln!(out, "format           NetTrace V{major}")?,
    }
    writeln!(out, "started          {}", trace.sync_time)?;
    writeln!(out, "clock            {} ticks a second", trace.ticks_per_second)?;
    if let Some((first, last)) = reader.time_span() {
        let [first, last] = [first, last].map(|time| trace.milliseconds(time));
        writeln!(out, "first event      {first:.4} ms after the start")?;
        writeln!(out, "last event       {last:.4} ms after the start")?;
    }
    writeln!(out, "pointer size     {} bytes", trace.pointer_size)?;
    for (key, value) in &trace.key_values {
        writeln!(out, "{key:<16} {}", value.escape_debug())?;
    }
    writeln!(out, "events           {}", totals.events)?;
    writeln!(out, "lost events      {}", totals.lost)?;
    if totals.step_backs > 0 {
        let times = totals.step_backs;
        writeln!(
            out,
            "                 numbers of a thread went back {times} times: not to be relied on"
        )?;
    }
    let per_event = match totals.events {
        0 => 0.0,
        events => reader.offset().saturating_sub(totals.payload_bytes) as f64 / events as f64,
    };
    writeln!(out, "payload bytes    {}", totals.payload_bytes)?;
    writeln!(
        out,
        "bytes read       {} ({per_event:.2} an event beside payloads)",
        reader.offset()
    )?;
    writeln!(out, "blocks           {}", totals.blocks)?;
    writeln!(out, "sequence points  {}", totals.sequence_points)?;
    if totals.unknown_blocks > 0 {
        writeln!(out, "unknown blocks   {}", totals.unknown_blocks)?;
    }
    if totals.undefined_stacks > 0 {
        writeln!(out, "events with an undefined stack  {}", totals.undefined_stacks)?;
    }
    Ok(())
}

fn write_events(reader: &Reader<Source>, out: &mut impl Write) -> Result<(), Failure> {
    let by_name = by_name(reader);
    if by_name.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:>12} {:>14}  event", "events", "payload bytes")?;
    for ((provider, id, name), (events, bytes)) in by_name {
        writeln!(out, "{events:>12} {bytes:>14}  {provider}/{name} (id {id})")?;
    }
    Ok(())
}

fn write_threads(reader: &Reader<Source>, all: bool, out: &mut impl Write) -> Result<(), Failure> {
    let mut threads: Vec<&ThreadTotals> =
        reader.live_threads().chain(reader.finished_threads()).collect();
    if threads.is_empty() {
        return Ok(());
    }
    // The busiest first; those that lost something before all others.
    threads.sort_by_key(|totals| {
        (totals.lost == 0, std::cmp::Reverse(totals.events), totals.thread.index)
    });
    let most = if all { threads.len() } else { 20 };
    writeln!(out, "\n{:>12} {:>14}  thread", "events", "lost")?;
    for ThreadTotals { thread, events, lost, .. } in threads.iter().take(most) {
        write!(out, "{events:>12} {lost:>14}  #{}", thread.index)?;
        for (what, id) in [("process", thread.process_id), ("tid", thread.os_thread_id)] {
            if let Some(id) = id {
                write!(out, " {what} {id}")?;
            }
        }
        match &thread.name {
            Some(name) => writeln!(out, " {:?}", name)?,
            None => writeln!(out)?,
        }
    }
    if threads.len() > most {
        writeln!(out, "{:>29}  and {} more: --threads shows them", "", threads.len() - most)?;
    }
    Ok(())
}
