//! The events of spans that pass filters, when they end: for `tail` with a condition on what is
//! known only then, such as a duration.

use std::io::Write;

use nettrace_reader::Event;
use nettrace_views::{
    model::{Ids, PerType},
    text::{EventType, Payload},
};

use crate::{
    dump::{Facts, ShowOutcome},
    excerpt::{Filters, SpanJudge},
    failure::Failure,
    filter::FilterOptions,
    lines::Lines,
    read_options::ReadOptions,
    source::Source,
    standard_error::say,
    summary::{Reach, Summary},
};

/// The memory for spans that have not ended, and their lines.
const MOST_BYTES: usize = 64 << 20;

/// What a line takes beside its text.
const LINE_BYTES: usize = 32;

/// Shows the events of each span that passes, when it ends, and each other event that passes by
/// itself, at once.
pub(super) fn each(
    source: Source,
    limits: ReadOptions,
    options: &FilterOptions,
    out: &mut impl Write,
    mut show: impl FnMut(&Event<'_>, &EventType, &Payload<'_>, &Facts, &mut Vec<u8>) -> ShowOutcome,
) -> Result<(), Failure> {
    let mut summary = Summary::start();
    let mut events = limits.options().open(source)?.sorted();
    let mut facts = Facts::of(events.trace());
    let mut filters = Filters::new(&options.events, events.trace(), events.major_version())?;
    let mut judge = SpanJudge::<Vec<Vec<u8>>>::new(MOST_BYTES);
    let mut types = PerType::default();
    let mut lines = Lines::new(options, out);
    let mut left_out = 0;
    let end = loop {
        if lines.has_enough() {
            summary.reach = Reach::Head;
            break Ok(());
        }
        facts.lost = events.totals().lost;
        let event = match events.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        summary.count(&event);
        let judged = judge.event(&mut filters, &event, &Ids::of(&event.labels()), |_| vec![])?;
        let ty = types.of(&event, EventType::of);
        let payload = Payload::of(&event, ty);
        let mut line = Vec::new();
        show(&event, ty, &payload, &facts, &mut line)?;
        let mut shown = Vec::new();
        match judged.span {
            Some(span) if judged.is_end => {
                let passes = judged.passes || judge.accepts(&filters, span);
                let waiting = judge.spans.take(span).map(|span| span.kept);
                if passes {
                    shown = waiting.unwrap_or_default();
                    shown.push(line);
                }
            }
            Some(span) if !judged.passes => judge.keep(span, line.len() + LINE_BYTES, |lines| {
                lines.push(line);
            }),
            _ if judged.passes => shown.push(line),
            _ => {}
        }
        for line in shown {
            if lines.has_enough() {
                break;
            }
            summary.count_shown(payload.error.is_some());
            lines.line(|out| out.write_all(&line))?;
        }
        while let Some(oldest) = judge.spans.give_up() {
            left_out += judge.spans.take(oldest).map_or(0, |span| span.kept.len());
        }
    };
    lines.finish()?;
    summary.write(options, events.trace(), events.totals(), filters.clock())?;
    if left_out > 0 {
        say(Some(format_args!(
            "{left_out} events were let go before their spans ended: they had more than {} MiB",
            MOST_BYTES >> 20
        )))?;
    }
    let mut open = 0;
    while let Some(oldest) = judge.spans.oldest() {
        open += 1;
        judge.spans.take(oldest);
    }
    if open > 0 {
        say(Some(format_args!(
            "{open} spans had not ended, so it is not known whether they pass"
        )))?;
    }
    if summary.shown() == 0 {
        say(filters.filter.report(&options.events))?;
    }
    Ok(end?)
}
