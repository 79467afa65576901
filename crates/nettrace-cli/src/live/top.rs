//! The command `top`: the rates of a live process's events.

use std::{
    collections::HashMap,
    io::Write,
    time::{Duration, Instant},
};

use nettrace_diagnostics::client::Wanted;
use nettrace_reader::{Event, Totals, Trace};
use nettrace_views::{model::PerType, text::EventType};
use serde::Serialize;

use super::{
    ProcessChoice, Provider, find, name_of,
    session::Signals,
    unmatched, wanted_by,
    watch::{OutputSurface, TraceView, WatchOptions, draw},
};
use crate::{
    excerpt::Filters,
    failure::Failure,
    filter::EventFilter,
    nanoseconds::duration,
    read_options::ReadOptions,
    spelling::{self, OneLine},
    standard_error,
};

/// What to watch, of which process, and how it is shown.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TopOptions {
    #[command(flatten)]
    which: ProcessChoice,
    /// What to watch: NAME[:KEYWORDS[:LEVEL[:ARGUMENTS]]], separated by commas [default:
    /// everything]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    providers: Vec<Provider>,
    /// How often: seconds, or with a unit (500ms, 10s)
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    interval: Duration,
    /// How long: seconds, or with a unit [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Show at most so many rows at a time, those with the most events
    #[arg(long, value_name = "N", default_value_t = 50)]
    rows: usize,
    /// Print one JSON object for each interval, on a line of its own
    #[arg(long)]
    json: bool,
    /// The memory for events in the process, in MB
    #[arg(long, value_name = "MB", default_value_t = 64)]
    buffer: u32,
    #[command(flatten)]
    filter: EventFilter,
}

/// Events and bytes of one type, in this interval and before.
#[derive(Clone, Copy, Debug, Default)]
struct TypeCount {
    events: u64,
    bytes: u64,
    all: u64,
}

/// The counts by provider and name.
#[derive(Default)]
struct TypeRates {
    options: EventFilter,
    /// What is counted, if not everything is.
    filters: Option<Filters>,
    shown: PerType<EventType>,
    types: HashMap<String, HashMap<String, TypeCount>>,
    lost: u64,
    lost_before: u64,
}

impl TraceView for TypeRates {
    fn begin(&mut self, trace: &Trace, version: u32) -> Result<(), Failure> {
        if self.options.is_given() {
            self.filters = Some(Filters::new(&self.options, trace, version)?);
        }
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Some(filters) = &mut self.filters {
            let ty = self.shown.of(event, EventType::of);
            // Memory takes what is written of the event.
            if !filters.pass(event, ty).unwrap_or_default() {
                return;
            }
        }
        let metadata = event.metadata();
        let names = match self.types.get_mut(&*metadata.provider) {
            Some(names) => names,
            None => self.types.entry(metadata.provider.to_string()).or_default(),
        };
        let name = spelling::event_name(metadata);
        let count = match names.get_mut(&*name) {
            Some(count) => count,
            None => names.entry(name.into_owned()).or_default(),
        };
        count.events += 1;
        count.all += 1;
        count.bytes += event.payload.len() as u64;
    }

    fn totals(&mut self, totals: &Totals) {
        self.lost = totals.lost;
    }
}

/// One row, with rates a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct TopRow {
    provider: String,
    name: String,
    events_per_second: f64,
    bytes_per_second: f64,
    events: u64,
}

/// The rows of one interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct TopInterval {
    /// Seconds since the start.
    seconds: f64,
    events_per_second: f64,
    bytes_per_second: f64,
    lost: u64,
    lost_before: u64,
    types: Vec<TopRow>,
}

impl TypeRates {
    /// The rates of an interval of so many seconds, those with the most events first. Begins the
    /// next interval.
    fn take(&mut self, seconds: f64, since_start: f64, rows: usize) -> TopInterval {
        let rate = |count: u64| (count as f64 / seconds * 10.0).round() / 10.0;
        let mut types: Vec<TopRow> = Vec::new();
        let mut total = TypeCount::default();
        for (provider, names) in &mut self.types {
            for (name, count) in names {
                total.events += count.events;
                total.bytes += count.bytes;
                types.push(TopRow {
                    provider: provider.clone(),
                    name: name.clone(),
                    events_per_second: rate(count.events),
                    bytes_per_second: rate(count.bytes),
                    events: count.all,
                });
                (count.events, count.bytes) = (0, 0);
            }
        }
        let key = |row: &TopRow| (row.events_per_second, row.events as f64);
        types.sort_by(|a, b| {
            let by_rate = key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal);
            by_rate.then_with(|| (&a.provider, &a.name).cmp(&(&b.provider, &b.name)))
        });
        types.truncate(rows);
        let lost = self.lost - self.lost_before;
        let lost_before = std::mem::replace(&mut self.lost_before, self.lost);
        TopInterval {
            seconds: (since_start * 10.0).round() / 10.0,
            events_per_second: rate(total.events),
            bytes_per_second: rate(total.bytes),
            lost,
            lost_before,
            types,
        }
    }
}

impl TopInterval {
    fn lines(&self, title: &str) -> Vec<String> {
        let Self { seconds, events_per_second, bytes_per_second, lost, lost_before, .. } = self;
        let mut lines = vec![
            format!(
                "{title}: {seconds:.1} s, {events_per_second:.0} events/s, \
                 {bytes_per_second:.0} bytes/s, {} lost",
                lost + lost_before
            ),
            format!("{:>12} {:>14} {:>12}  event", "events/s", "bytes/s", "events"),
        ];
        lines.extend(self.types.iter().map(|row| {
            format!(
                "{:>12.1} {:>14.0} {:>12}  {}/{}",
                row.events_per_second, row.bytes_per_second, row.events, row.provider, row.name
            )
        }));
        lines
    }
}

/// Shows rates until the end.
pub(crate) fn run(
    options: &TopOptions,
    limits: ReadOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let target = find(&options.which)?;
    let title = format!("{} {}", name_of(&target.info()?), target.pid);
    let providers = options.providers.iter().map(|provider| provider.0.clone());
    let mut wanted: Vec<Wanted> = providers.collect();
    if wanted.is_empty() {
        wanted = wanted_by(&options.filter);
    }
    // From here on a signal ends the trace, not this process.
    let signals = Signals::new().map_err(Failure::Output)?;
    let live = target.collect(&wanted, options.buffer)?;
    let filter = &options.filter;
    let asks_for_all = filter.provider.is_empty() && filter.level.is_none();
    let mut notes = match options.providers[..] {
        [] if asks_for_all => Vec::new(),
        _ => unmatched(&target, &wanted, &live),
    };
    if options.json || matches!(OutputSurface::of_stdout(), OutputSurface::Lines) {
        notes.drain(..).try_for_each(|note| standard_error::say(Some(note)))?;
    }
    let watch = WatchOptions {
        target: &target,
        signals: &signals,
        interval: options.interval.max(Duration::from_millis(50)),
        duration: options.duration,
        limits,
    };
    let begun = Instant::now();
    let mut last = begun;
    let rates = TypeRates { options: filter.clone(), ..TypeRates::default() };
    watch.run(live, rates, &mut |rates| {
        let now = Instant::now();
        let seconds = now.duration_since(last).as_secs_f64();
        let since_start = now.duration_since(begun).as_secs_f64();
        last = now;
        let shown = rates.take(seconds.max(0.001), since_start, options.rows);
        if options.json {
            spelling::to_json(&mut *out, &shown)?;
            out.write_all(b"\n")?;
            return Ok(out.flush()?);
        }
        match OutputSurface::of_stdout() {
            OutputSurface::Screen(rows, columns) => {
                draw(out, &shown.lines(&title), &notes, rows, columns)?
            }
            OutputSurface::Lines => {
                for line in shown.lines(&title) {
                    writeln!(out, "{}", OneLine(line))?;
                }
            }
        }
        Ok(out.flush()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_their_interval_and_the_most_come_first() {
        let mut rates = TypeRates::default();
        let add = |rates: &mut TypeRates, name: &str, events, bytes| {
            let names = rates.types.entry("Contoso".to_owned()).or_default();
            let count = names.entry(name.to_owned()).or_default();
            count.events += events;
            count.all += events;
            count.bytes += bytes;
        };
        add(&mut rates, "Few", 1, 8);
        add(&mut rates, "Many", 10, 160);
        rates.lost = 3;
        let shown = rates.take(2.0, 2.0, 50);
        let names: Vec<_> = shown.types.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["Many", "Few"]);
        assert_eq!(
            (shown.types[0].events_per_second, shown.types[0].bytes_per_second),
            (5.0, 80.0)
        );
        assert_eq!((shown.events_per_second, shown.lost, shown.lost_before), (5.5, 3, 0));
        add(&mut rates, "Few", 4, 32);
        let shown = rates.take(1.0, 3.0, 1);
        assert_eq!((shown.types.len(), &*shown.types[0].name), (1, "Few"));
        assert_eq!((shown.types[0].events_per_second, shown.types[0].events), (4.0, 5));
        assert_eq!((shown.lost, shown.lost_before), (0, 3));
        let lines = shown.lines("shop 7");
        assert_eq!(lines[0], "shop 7: 3.0 s, 4 events/s, 32 bytes/s, 3 lost");
        assert!(lines[2].ends_with("4.0             32            5  Contoso/Few"), "{lines:?}");
    }
}
