//! The command `tail`: the events of a live process, as they come.

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

use nettrace_diagnostics::client::Wanted;
use nettrace_reader::ErrorKind;
use nettrace_views::text::{Detail, Lines, Look, wants_colors};

use super::{
    Provider, Which,
    collect::duration,
    find,
    session::{Session, Signals},
    tell_unmatched,
};
use crate::{
    dump::each, failure::Failure, filter::FilterOptions, limits::Limits, output::Output,
    source::Source, summary::say,
};

/// What to show, of which process, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TailOptions {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    filter: FilterOptions,
    /// Several lines for each event: also its place in the source code, and the spans around it
    #[arg(long)]
    pretty: bool,
    /// Show fields without a value, too, and all of long texts
    #[arg(long)]
    full: bool,
    /// Whether lines have colors. auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    color: Color,
    /// How long: seconds, or with a unit (500ms, 10s, 5m, 1h) [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// The memory for events in the process, in MB
    #[arg(long, value_name = "MB", default_value_t = 64)]
    buffer: u32,
}

/// When lines have colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    fn is_wanted(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => wants_colors(&io::stdout()),
        }
    }
}

pub(crate) fn run(options: &TailOptions, limits: Limits, out: &mut Output) -> Result<(), Failure> {
    // From here on a signal ends the trace, not this process.
    let signals = Signals::new().map_err(Failure::Output)?;
    let target = find(&options.which)?;
    let asked = wanted(&options.filter);
    let live = target.collect(&asked, options.buffer)?;
    if !options.filter.provider.is_empty() || options.filter.level.is_some() {
        tell_unmatched(&target, &asked, &live).map_err(Failure::Output)?;
    }
    let end = options.duration.map(|duration| Instant::now() + duration);
    let session = Session::new(target, live, &signals, end)?;
    let source = Source::new(session).map_err(Failure::Output)?;
    let source = source.before_waiting(out.shown_before_waiting());
    let look = if options.pretty { Look::Pretty } else { Look::Compact };
    let detail = if options.full { Detail::Full } else { Detail::Short };
    let mut lines = Lines::new(look, options.color.is_wanted()).detail(detail);
    let wanted = &options.filter;
    let result = each(source, limits, wanted, false, out, |event, ty, payload, facts, line| {
        lines.lost(facts.lost, line)?;
        lines.event(event, ty, payload, facts.clock, line)
    });
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

/// What the process is asked for. It sends nothing else.
fn wanted(filter: &FilterOptions) -> Vec<Wanted> {
    let mut names: Vec<_> = filter.provider.iter().map(ToString::to_string).collect();
    if names.is_empty() {
        names.push("*".to_owned());
    }
    let level = filter.level.map_or(5, u32::from);
    names.iter().map(|name| Wanted { level, ..Provider::all_of(name).0 }).collect()
}
