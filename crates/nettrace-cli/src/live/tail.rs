//! The command `tail`: the events of a live process, as they come.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use nettrace_reader::{ErrorKind, Event};
use nettrace_views::text::{Detail, EventType, Lines, Look, Payload};

use super::{
    ProcessChoice, find,
    session::{Session, Signals},
    tell_unmatched, wanted_by,
    watch::OutputSurface,
    whole_spans,
};
use crate::{
    color::ColorOption,
    dump::{Facts, each},
    failure::Failure,
    filter::FilterOptions,
    nanoseconds::duration,
    output::Output,
    read_options::ReadOptions,
    source::Source,
    standard_error::say,
    wrap::wrap,
};

/// What to show, of which process, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TailOptions {
    #[command(flatten)]
    which: ProcessChoice,
    #[command(flatten)]
    filter: FilterOptions,
    /// Several lines for each event: also its place in the source code, and the spans around it
    #[arg(long)]
    pretty: bool,
    /// Show fields without a value, too, and all of long texts
    #[arg(long)]
    full: bool,
    /// Show the place of each event in the source code
    #[arg(long)]
    places: bool,
    #[command(flatten)]
    color: ColorOption,
    /// How long: seconds, or with a unit (500ms, 10s, 5m, 1h) [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// The memory for events in the process, in MB
    #[arg(long, value_name = "MB", default_value_t = 64)]
    buffer: u32,
}

pub(crate) fn run(
    options: &TailOptions,
    limits: ReadOptions,
    out: &mut Output,
) -> Result<(), Failure> {
    // From here on a signal ends the trace, not this process.
    let signals = Signals::new().map_err(Failure::Output)?;
    let target = find(&options.which)?;
    let asked = wanted_by(&options.filter.events);
    let live = target.collect(&asked, options.buffer)?;
    if !options.filter.events.provider.is_empty() || options.filter.events.level.is_some() {
        tell_unmatched(&target, &asked, &live).map_err(Failure::Output)?;
    }
    let end = options.duration.map(|duration| Instant::now() + duration);
    let session = Session::new(target, live, &signals, end)?;
    // It must look at signals and the time also while nobody takes the output.
    let source = Source::new(session).at_once();
    let source = source.before_waiting(out.shown_before_waiting());
    let look = if options.pretty { Look::Pretty } else { Look::Compact };
    let detail = if options.full { Detail::Full } else { Detail::Short };
    let lines = Lines::new(look, options.color.is_wanted());
    let mut lines = lines.detail(detail).places(options.places);
    let wanted = &options.filter;
    let mut whole = Vec::new();
    let mut show = |event: &Event<'_>,
                    ty: &EventType,
                    payload: &Payload<'_>,
                    facts: &Facts,
                    shown: &mut Vec<u8>| {
        whole.clear();
        lines.lost(facts.lost, &mut whole)?;
        lines.event(event, ty, payload, facts.clock, &mut whole)?;
        match OutputSurface::of_stdout() {
            OutputSurface::Screen(_, columns) => {
                for line in String::from_utf8_lossy(&whole).split_inclusive('\n') {
                    let indent = 4 + line.len() - line.trim_start_matches(' ').len();
                    wrap(line, columns, indent, shown);
                }
            }
            OutputSurface::Lines => shown.extend_from_slice(&whole),
        }
        Ok(())
    };
    let result = match wanted.events.asks_of_spans() {
        true => whole_spans::each(source, limits, wanted, out, &mut show),
        false => each(source, limits, wanted, false, out, &mut show).map(drop),
    };
    match result {
        Err(Failure::Trace(error))
            if matches!(error.kind(), ErrorKind::Truncated { .. } | ErrorKind::NoEndOfStream) =>
        {
            out.flush()?;
            Ok(say(Some("the process has ended; it has not sent its last events"))?)
        }
        result => result,
    }
}
