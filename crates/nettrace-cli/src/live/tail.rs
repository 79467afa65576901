//! The command `tail`: the events of a live process, as they come.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use console::measure_text_width;
use nettrace_diagnostics::client::Wanted;
use nettrace_reader::ErrorKind;
use nettrace_views::text::{Detail, Lines, Look, VERBOSE};

use super::{
    ProcessChoice, Provider,
    collect::duration,
    find,
    session::{Session, Signals},
    tell_unmatched,
    watch::OutputSurface,
};
use crate::{
    color::ColorOption,
    dump::each,
    failure::Failure,
    filter::{EventFilter, FilterOptions},
    output::Output,
    read_options::ReadOptions,
    source::Source,
    standard_error::say,
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
    let asked = wanted(&options.filter.events);
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
    let result = each(source, limits, wanted, false, out, |event, ty, payload, facts, shown| {
        whole.clear();
        lines.lost(facts.lost, &mut whole)?;
        lines.event(event, ty, payload, facts.clock, &mut whole)?;
        match OutputSurface::of_stdout() {
            OutputSurface::Screen(_, columns) => {
                wrap(&String::from_utf8_lossy(&whole), columns, shown)
            }
            OutputSurface::Lines => shown.extend_from_slice(&whole),
        }
        Ok(())
    });
    match result {
        Err(Failure::Trace(error))
            if matches!(error.kind(), ErrorKind::Truncated { .. } | ErrorKind::NoEndOfStream) =>
        {
            out.flush()?;
            Ok(say(Some("the process has ended; it has not sent its last events"))?)
        }
        result => result.map(drop),
    }
}

/// Breaks lines that have more columns, at blanks. What follows is indented, so that the times of
/// events stay apart.
fn wrap(lines: &str, columns: usize, out: &mut Vec<u8>) {
    for line in lines.split_inclusive('\n') {
        let indent = 4 + line.len() - line.trim_start_matches(' ').len();
        let (mut column, mut blanks) = (0, 0);
        for word in line.split(' ') {
            let width = measure_text_width(word.trim_end());
            if width > 0 && column > indent && column + blanks + width > columns {
                out.push(b'\n');
                (column, blanks) = (0, indent);
            }
            if width > 0 {
                out.resize(out.len() + blanks, b' ');
                (column, blanks) = (column + blanks + width, 0);
            }
            out.extend_from_slice(word.as_bytes());
            blanks += 1;
        }
    }
}

/// The providers that the process is asked for. It sends nothing else.
fn wanted(filter: &EventFilter) -> Vec<Wanted> {
    let mut names: Vec<_> = filter.provider.iter().map(ToString::to_string).collect();
    if names.is_empty() {
        names.push("*".to_owned());
    }
    let level = filter.level.map_or(VERBOSE, |level| level.most).into();
    names.iter().map(|name| Wanted { level, ..Provider::all_of(name).0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[track_caller]
    fn check(line: &str, columns: usize, expected: &str) {
        let mut out = Vec::new();
        wrap(line, columns, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn lines_are_broken_at_blanks() {
        let line = "12:00  INFO   > \x1b[38;5;244mShop/Pay [id]\x1b[0m: µ is paid\n\n";
        for columns in [40, 100] {
            check(line, columns, line);
        }
        let broken = "12:00  INFO   > \x1b[38;5;244mShop/Pay [id]\x1b[0m: µ is\n    paid\n\n";
        for columns in [35, 39] {
            check(line, columns, broken);
        }
        let broken =
            "12:00  INFO\n    > \x1b[38;5;244mShop/Pay\n    [id]\x1b[0m: µ is\n    paid\n\n";
        check(line, 14, broken);
        // What has no blank is the terminal's own affair.
        let words: Vec<_> = line.split_whitespace().collect();
        check(line, 1, &(words.join("\n    ") + "\n\n"));
        // These take two columns each.
        check("12:00  支払い 済み\n", 12, "12:00\n    支払い\n    済み\n");
        check("12:00  支払い 済み\n", 13, "12:00  支払い\n    済み\n");
        check("    at shop, shop.rs:1\n", 14, "    at shop,\n        shop.rs:1\n");
    }
}
