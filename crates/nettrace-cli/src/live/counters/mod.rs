//! The command `counters`: the meters and EventCounters of a live process.

mod decode;
mod missing;
mod show;

use std::{
    collections::{BTreeMap, HashSet},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::Write,
    str::FromStr,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use nettrace_diagnostics::client::Wanted;
use nettrace_reader::Event;

use self::{
    decode::{CounterReport, METRICS, SESSION, Sample, Series, report},
    missing::MissingCounters,
    show::Style,
};
use super::{
    ProcessChoice, find, name_of,
    session::Signals,
    watch::{OutputSurface, TraceView, WatchOptions, draw},
};
use crate::{failure::Failure, nanoseconds::duration, read_options::ReadOptions, standard_error};

/// The events of a meter that have values.
const TIME_SERIES: u64 = 2;
/// The events that name the instruments of a process, whatever the client wants of them.
const PUBLISHING: u64 = 4;
/// The shortest interval of a process, whatever it is asked for.
const SHORTEST: Duration = Duration::from_millis(100);
/// Time after the first interval from which a name without values is perhaps an oversight.
const GRACE: Duration = Duration::from_millis(500);
/// The shortest interval between lines, if values can come more often.
const MOST_OFTEN: Duration = Duration::from_millis(200);

/// The memory for values in the process, in MB.
const BUFFER: u32 = 16;

/// Which counters to show, of which process, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CountersOptions {
    #[command(flatten)]
    which: ProcessChoice,
    /// Meters, and providers of EventCounters, each perhaps with a list of what to show of it:
    /// NAME[INSTRUMENT,…] [default: all meters]
    names: Vec<CounterName>,
    /// How often the process reports values: seconds, or with a unit (500ms, 10s)
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    interval: Duration,
    /// How long: seconds, or with a unit [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Print each value as a JSON object, on a line of its own
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print each value as lines of CSV, after a line with the names of the columns
    #[arg(long)]
    csv: bool,
    /// The most time series that the process reports
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    max_series: u32,
    /// The most histograms that the process reports
    #[arg(long, value_name = "N", default_value_t = 20)]
    max_histograms: u32,
}

/// A meter or provider, and which of its instruments are shown. None: all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CounterName {
    name: String,
    instruments: Vec<String>,
}

impl FromStr for CounterName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('[').unwrap_or((text, "]"));
        let list = rest.strip_suffix(']').ok_or_else(|| format!("`{text}` does not end in `]`"))?;
        if name.is_empty() || name.contains([';', ',', '=']) {
            return Err(format!("`{name}` is not the name of a meter or provider"));
        }
        let instruments = list.split(',').map(str::trim).filter(|one| !one.is_empty());
        let instruments = instruments.map(str::to_owned).collect();
        Ok(Self { name: name.to_owned(), instruments })
    }
}

impl CounterName {
    /// Whether values of an instrument are shown.
    fn selects(&self, provider: &str, instrument: &str) -> bool {
        self.is_of(provider)
            && (self.instruments.is_empty()
                || self.instruments.iter().any(|one| one.eq_ignore_ascii_case(instrument)))
    }

    /// Whether a meter or provider has this name.
    fn is_of(&self, provider: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(prefix) => {
                let start = provider.get(..prefix.len());
                start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
            }
            None => provider.eq_ignore_ascii_case(&self.name),
        }
    }
}

/// The providers to ask the process for: its meters, and the counters of each provider.
fn wanted(options: &CountersOptions, names: &[CounterName]) -> Vec<Wanted> {
    let seconds = options.interval.as_secs_f64();
    let list: Vec<_> = names.iter().map(|name| &*name.name).collect();
    let hasher = || RandomState::new().build_hasher().finish();
    let client = format!("{:016x}{:016x}", hasher(), hasher());
    let metrics = Wanted {
        name: METRICS.to_owned(),
        keywords: TIME_SERIES | PUBLISHING,
        level: 4,
        arguments: format!(
            "SessionId={SESSION};Metrics={};RefreshInterval={seconds};MaxTimeSeries={};\
             MaxHistograms={};ClientId={client}",
            list.join(","),
            options.max_series,
            options.max_histograms
        ),
    };
    // Of such a provider, only the values: they pass at every level.
    let counters = |name: &&str| Wanted {
        name: (*name).to_owned(),
        keywords: u64::MAX,
        level: 1,
        arguments: format!("EventCounterIntervalSec={seconds}"),
    };
    let named = list.iter().filter(|name| !name.ends_with('*')).map(counters);
    [metrics].into_iter().chain(named).collect()
}

/// The values of a process.
#[derive(Debug, Default)]
struct ProcessCounters {
    names: Vec<CounterName>,
    /// The interval of the process.
    interval: Duration,
    /// The last value of each series, for the table.
    last: BTreeMap<Series, Sample>,
    /// Values that are not printed yet, and when they came, for lines.
    new: Option<Vec<(Timestamp, Sample)>>,
    /// Meters that report. Their EventCounters would show the same again.
    meters: HashSet<String>,
    notes: Vec<String>,
    said: HashSet<String>,
    missing: MissingCounters,
}

impl TraceView for ProcessCounters {
    fn event(&mut self, event: &Event<'_>) {
        let Some(report) = report(event) else { return };
        let is_meter = &*event.metadata().provider == METRICS;
        self.take(report, is_meter);
    }
}

impl ProcessCounters {
    /// Keeps what the user should know, once.
    fn note(&mut self, note: String) {
        if self.said.insert(note.clone()) {
            self.notes.push(note);
        }
    }

    fn take(&mut self, report: CounterReport, is_meter: bool) {
        match report {
            CounterReport::Begins { provider } => {
                self.last
                    .retain(|series, last| series.provider != provider || last.kind.is_of_meter());
                self.meters.insert(provider);
            }
            CounterReport::Ends { provider, name } => {
                self.last
                    .retain(|series, _| (&series.provider, &series.name) != (&provider, &name));
            }
            CounterReport::Ended(series) => drop(self.last.remove(&series)),
            CounterReport::Published { meter, instrument } => {
                self.missing.publish(meter, instrument)
            }
            CounterReport::Note(note) => self.note(note),
            CounterReport::Value(mut sample) => {
                if is_meter {
                    sample.divide_rate(self.interval);
                }
                let Series { provider, name, .. } = &sample.series;
                let is_again = !is_meter && self.meters.contains(provider);
                let mut is_wanted = false;
                for (index, _) in
                    self.names.iter().enumerate().filter(|(_, one)| one.selects(provider, name))
                {
                    is_wanted = true;
                    self.missing.see(index);
                }
                if is_again || !is_wanted {
                    return;
                }
                match &mut self.new {
                    Some(new) => new.push((Timestamp::now(), sample)),
                    None => drop(self.last.insert(sample.series.clone(), sample)),
                }
            }
        }
    }
}

/// Shows counters until the end.
pub(crate) fn run(
    options: &CountersOptions,
    limits: ReadOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let target = find(&options.which)?;
    let title = format!("{} {}", name_of(&target.info()?), target.pid);
    let mut names = options.names.clone();
    if names.is_empty() {
        names.push(CounterName { name: "*".to_owned(), instruments: Vec::new() });
    }
    let style = match (options.json, options.csv, OutputSurface::of_stdout()) {
        (true, ..) => Style::Json,
        (_, true, _) => Style::Csv,
        (.., OutputSurface::Screen(..)) => Style::Table,
        (.., OutputSurface::Lines) => Style::Lines,
    };
    let is_table = matches!(style, Style::Table);
    // From here on a signal ends the trace, not this process.
    let signals = Signals::new().map_err(Failure::Output)?;
    let live = target.collect(&wanted(options, &names), BUFFER)?;
    let watch = WatchOptions {
        target: &target,
        signals: &signals,
        interval: if is_table { options.interval } else { options.interval.min(MOST_OFTEN) },
        duration: options.duration,
        limits,
    };
    let (new, interval) = ((!is_table).then(Vec::new), options.interval.max(SHORTEST));
    let values = ProcessCounters { names, interval, new, ..ProcessCounters::default() };
    if let Style::Csv = style {
        writeln!(out, "{}", show::CSV_COLUMNS)?;
        out.flush()?;
    }
    let begun = Instant::now();
    watch.run(live, values, &mut |values| {
        if begun.elapsed() >= interval + GRACE {
            for note in values.missing.tell(&values.names) {
                values.note(note);
            }
        }
        if let (OutputSurface::Screen(rows, columns), None) =
            (OutputSurface::of_stdout(), &values.new)
        {
            let lines = show::table(&title, values.last.values());
            draw(out, &lines, &values.notes, rows, columns)?;
            return Ok(out.flush()?);
        }
        for note in values.notes.drain(..) {
            standard_error::say(Some(format_args!("nettrace: {note}")))?;
        }
        if let Some(new) = &mut values.new {
            for (time, sample) in new.drain(..) {
                style.write(out, time, &sample)?;
            }
        }
        Ok(out.flush()?)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Number;

    use super::{decode::CounterKind, *};

    #[test]
    fn names_have_lists_of_instruments() {
        let read = |text: &str| text.parse::<CounterName>();
        let name = |name: &str, list: &[&str]| {
            let instruments = list.iter().map(|one| (*one).to_owned()).collect();
            Ok(CounterName { name: name.to_owned(), instruments })
        };
        assert_eq!(read("Shop"), name("Shop", &[]));
        assert_eq!(
            read("System.Runtime[cpu-usage, x]"),
            name("System.Runtime", &["cpu-usage", "x"])
        );
        for text in ["", "[x]", "A[x", "A[x]y", "A;B", "A=B"] {
            read(text).unwrap_err();
        }
        let shop = read("Shop[orders]").unwrap();
        assert!(shop.selects("shop", "Orders"));
        assert!(!shop.selects("Shop", "other") && !shop.selects("Shop2", "orders"));
        assert!(read("Sh*").unwrap().selects("shop", "any"));
    }

    fn sample(provider: &str, kind: CounterKind, value: i64) -> Sample {
        let series = Series {
            provider: provider.to_owned(),
            name: "n".to_owned(),
            tags: String::new(),
            unit: String::new(),
        };
        let value = Some(Number::from(value));
        Sample { series, kind, value, rate: None, count: None, sum: None, quantiles: Vec::new() }
    }

    #[test]
    fn a_series_has_its_last_value_until_it_ends() {
        let names = vec![CounterName { name: "*".to_owned(), instruments: Vec::new() }];
        let interval = Duration::from_secs(2);
        let mut values = ProcessCounters { names, interval, ..ProcessCounters::default() };
        let gauge = sample("Shop", CounterKind::Gauge, 1);
        values.take(CounterReport::Value(gauge.clone()), true);
        values.take(CounterReport::Value(sample("Shop", CounterKind::Gauge, 2)), true);
        // A provider whose counters and meter have the same name shows the meter.
        values.take(CounterReport::Value(sample("System.Runtime", CounterKind::Mean, 3)), false);
        assert_eq!(values.last.len(), 2);
        let begins = || CounterReport::Begins { provider: "System.Runtime".to_owned() };
        values.take(begins(), true);
        values.take(CounterReport::Value(sample("System.Runtime", CounterKind::Mean, 3)), false);
        let shown: Vec<_> = values.last.values().map(|one| one.value.clone()).collect();
        assert_eq!(shown, [Some(Number::from(2))]);
        values.take(CounterReport::Ended(gauge.series.clone()), true);
        assert!(values.last.is_empty());
        values.take(CounterReport::Value(gauge), true);
        let ends = CounterReport::Ends { provider: "Shop".to_owned(), name: "n".to_owned() };
        values.take(ends, true);
        assert!(values.last.is_empty());
        // Rates are those of a second, though meters report those of an interval.
        for (kind, is_meter, rate) in
            [(CounterKind::Counter, true, 1.5), (CounterKind::Sum, false, 3.0)]
        {
            let mut rated = sample("Fabrikam", kind, 9);
            rated.rate = Some(Number::from(3));
            values.take(CounterReport::Value(rated), is_meter);
            let last = values.last.values().next().unwrap();
            assert_eq!(last.rate.as_ref().and_then(Number::as_f64), Some(rate), "{last:?}");
        }
        // A note is said once.
        values.take(CounterReport::Note("full".to_owned()), true);
        values.take(CounterReport::Note("full".to_owned()), true);
        assert_eq!(values.notes, ["full"]);
    }
}
