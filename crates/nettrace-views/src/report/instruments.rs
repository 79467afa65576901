//! The values of instruments over time: what the trace has recorded of counters, gauges and
//! histograms.

use std::{collections::BTreeMap, ops::AddAssign};

use foldhash::HashMap;
use nettrace_reader::Event;
use serde::Serialize;

use crate::{
    model::{
        Clock, Instrument, InstrumentEvent, Measured, Processes, Reported, clip, interval,
        process_id, reported,
    },
    report::timeline::Timeline,
};

/// How many series are kept: an instrument with its tags. Each takes some KiB.
const MOST_SERIES: usize = 1000;

/// How many series a page has, and of how many it has the values over time.
const MOST_ROWS: usize = 200;
const MOST_LINES: usize = 150;

/// How many processes are remembered with the length of their intervals.
const MOST_PROCESSES: usize = 4096;

/// How many characters of a name, of tags or of a unit are shown.
const MOST_NAME: usize = 200;

/// What tells series apart: process, client, source, name and tags.
type Key = (Option<u64>, [Box<str>; 4]);

/// All series so far.
#[derive(Debug, Default)]
pub(crate) struct Instruments {
    series: BTreeMap<Key, Series>,
    timeline: Timeline<Cell>,
    /// How long the interval is whose values come, in seconds, by process.
    intervals: HashMap<Option<u64>, f64>,
    /// Values of series beyond the limit.
    beyond: u64,
}

/// The values of a series in an interval of the timeline.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    values: u32,
    sum: f64,
    /// The highest one, if there is one.
    highest: f64,
}

impl AddAssign for Cell {
    fn add_assign(&mut self, more: Self) {
        self.highest = match (self.values, more.values) {
            (0, _) => more.highest,
            (_, 0) => self.highest,
            _ => self.highest.max(more.highest),
        };
        self.values = self.values.saturating_add(more.values);
        self.sum += more.sum;
    }
}

/// An instrument with its tags.
#[derive(Debug)]
struct Series {
    instrument: Instrument,
    unit: Box<str>,
    /// One row, or one for each percentile.
    rows: [usize; 3],
    last: f64,
    total: Option<f64>,
    /// The sum of the values, each times its weight, and that of the weights.
    sum: f64,
    weights: f64,
    lowest: f64,
    highest: f64,
    /// The highest percentiles of an interval, how many values there were, and their sum.
    percentiles: [f64; 3],
    values: Option<(f64, f64)>,
}

/// What the page shows of instruments.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    /// When the first interval begins, in nanoseconds since the start.
    first_ns: i64,
    interval_ns: f64,
    pub(crate) series: Vec<ShownSeries>,
    /// How many series are not shown.
    pub(crate) left_out: usize,
}

/// A series, as the page shows it. What it does not have is `None`.
#[derive(Debug, Serialize)]
pub(crate) struct ShownSeries {
    pub(crate) source: String,
    pub(crate) name: String,
    pub(crate) tags: String,
    pub(crate) unit: String,
    /// The process, if the trace has instruments of several.
    pub(crate) process: Option<String>,
    session: String,
    pub(crate) kind: &'static str,
    /// Of a counter, changes a second.
    pub(crate) last: Option<f64>,
    pub(crate) mean: Option<f64>,
    pub(crate) lowest: Option<f64>,
    pub(crate) highest: Option<f64>,
    /// The sum of a counter.
    pub(crate) total: Option<f64>,
    /// How many values a histogram has.
    pub(crate) values: Option<f64>,
    /// The highest ones of an interval: 50, 95 and 99 %.
    pub(crate) percentiles: Option<[f64; 3]>,
    /// Interval and value: one line, or one for each percentile.
    lines: Vec<Vec<(usize, f64)>>,
}

impl Instruments {
    /// Takes what an event says.
    pub(crate) fn take(&mut self, kind: InstrumentEvent, event: &Event<'_>, ticks: u64) {
        let process = process_id(event);
        if kind == InstrumentEvent::Interval {
            if let Some(length) = interval(event) {
                if self.intervals.len() >= MOST_PROCESSES {
                    self.intervals.clear();
                }
                self.intervals.insert(process, length);
            }
        } else if let Some(reported) = reported(kind, event) {
            self.add(process, &reported, ticks);
        }
    }

    fn add(&mut self, process: Option<u64>, reported: &Reported<'_>, ticks: u64) {
        let measured = match reported.measured {
            Measured::Growth { increase, seconds, total } => {
                let seconds = seconds.or_else(|| self.intervals.get(&process).copied());
                let seconds = seconds.unwrap_or(1.0);
                Measured::Growth { increase: increase / seconds, seconds: Some(seconds), total }
            }
            measured => measured,
        };
        if !is_finite(measured) {
            return;
        }
        let Reported { session, source, name, tags, .. } = reported;
        let texts = [session, source, name, tags].map(|text| clip(text, MOST_NAME).into());
        let key = (process, texts);
        let Self { series, timeline, beyond, .. } = self;
        if series.len() >= MOST_SERIES && !series.contains_key(&key) {
            *beyond += 1;
            return;
        }
        let one = series.entry(key).or_insert_with(|| Series::new(reported, timeline));
        match measured {
            Measured::Growth { increase, seconds, total } => {
                one.value(increase, seconds.unwrap_or(1.0), [increase; 2]);
                one.total = total.filter(|total| total.is_finite()).or(one.total);
                timeline.add(ticks, [(one.rows[0], Cell::of(increase))]);
            }
            Measured::Value { value, lowest, highest } => {
                one.value(value, 1.0, [lowest, highest]);
                timeline.add(ticks, [(one.rows[0], Cell::of(value))]);
            }
            Measured::Distribution { percentiles, values } => {
                for (highest, value) in one.percentiles.iter_mut().zip(percentiles) {
                    *highest = highest.max(value);
                }
                if let Some((count, sum)) = values {
                    let (counts, sums) = one.values.get_or_insert((0.0, 0.0));
                    *counts += count;
                    *sums += sum;
                }
                let [p50, p95, p99] = percentiles.map(Cell::of);
                let [a, b, c] = one.rows;
                timeline.add(ticks, [(a, p50), (b, p95), (c, p99)]);
            }
        }
    }

    /// How many values are of series that are not kept.
    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// What the page shows; `None` if the trace has no values.
    pub(crate) fn shown(&self, clock: &Clock, names: &Processes) -> Option<Shown> {
        let mut processes = self.series.keys().map(|(process, _)| process);
        let first = processes.next()?;
        let has_several = processes.any(|process| process != first);
        let (first_tick, length) = self.timeline.intervals();
        let mut ordered: Vec<_> = self.series.iter().collect();
        ordered.sort_by_key(|((_, [_, source, ..]), _)| is_of_process(source));
        let shown = ordered.into_iter().take(MOST_ROWS).enumerate();
        Some(Shown {
            first_ns: clock.since_start(first_tick),
            interval_ns: clock.length(length),
            series: shown
                .map(|(place, (key, series))| ShownSeries {
                    process: key.0.filter(|_| has_several).map(|id| names.spelled(id).into_owned()),
                    lines: match place < MOST_LINES {
                        true => series.lines(&self.timeline),
                        false => Vec::new(),
                    },
                    ..series.shown(key)
                })
                .collect(),
            left_out: self.series.len().saturating_sub(MOST_ROWS),
        })
    }
}

/// Whether a source is about the process as such: its tracer, its memory, its runtime. Those of the
/// application come before.
fn is_of_process(source: &str) -> bool {
    source.starts_with("NetTrace.") || source == "System.Runtime"
}

fn is_finite(measured: Measured) -> bool {
    match measured {
        Measured::Growth { increase, .. } => increase.is_finite(),
        Measured::Value { value, lowest, highest } => {
            [value, lowest, highest].iter().all(|number| number.is_finite())
        }
        Measured::Distribution { percentiles, .. } => {
            percentiles.iter().all(|number| number.is_finite())
        }
    }
}

/// A unit of UCUM, without the braces around what is counted: `{request}`.
fn counted(unit: &str) -> &str {
    unit.strip_prefix('{').and_then(|unit| unit.strip_suffix('}')).unwrap_or(unit)
}

impl Cell {
    fn of(value: f64) -> Self {
        Self { values: 1, sum: value, highest: value }
    }
}

impl Series {
    fn new(reported: &Reported<'_>, timeline: &mut Timeline<Cell>) -> Self {
        let row = timeline.add_row();
        let rows = match reported.instrument {
            Instrument::Histogram => [row, timeline.add_row(), timeline.add_row()],
            _ => [row; 3],
        };
        Self {
            instrument: reported.instrument,
            unit: clip(counted(&reported.unit), MOST_NAME).into(),
            rows,
            last: 0.0,
            total: None,
            sum: 0.0,
            weights: 0.0,
            lowest: f64::INFINITY,
            highest: f64::NEG_INFINITY,
            percentiles: [f64::NEG_INFINITY; 3],
            values: None,
        }
    }

    fn value(&mut self, value: f64, weight: f64, [lowest, highest]: [f64; 2]) {
        self.last = value;
        self.sum += value * weight;
        self.weights += weight;
        self.lowest = self.lowest.min(lowest);
        self.highest = self.highest.max(highest);
    }

    /// The points of a line: the mean of an interval, and of a percentile the highest one.
    fn lines(&self, timeline: &Timeline<Cell>) -> Vec<Vec<(usize, f64)>> {
        let is_histogram = self.instrument == Instrument::Histogram;
        let rows = if is_histogram { &self.rows[..] } else { &self.rows[..1] };
        let points = |row: &usize| {
            let cells = timeline.row(*row).into_iter().enumerate();
            let taken = cells.filter(|(_, cell)| cell.values > 0);
            let point = |cell: Cell| match is_histogram {
                true => cell.highest,
                false => cell.sum / f64::from(cell.values),
            };
            taken.map(|(at, cell)| (at, point(cell))).collect()
        };
        rows.iter().map(points).collect()
    }

    fn shown(&self, (_, [session, source, name, tags]): &Key) -> ShownSeries {
        let is_histogram = self.instrument == Instrument::Histogram;
        let of_values = |number: f64| Some(number).filter(|_| !is_histogram);
        let (values, sum) = self.values.unzip();
        ShownSeries {
            source: source.to_string(),
            name: name.to_string(),
            tags: tags.to_string(),
            unit: self.unit.to_string(),
            process: None,
            session: session.to_string(),
            kind: self.instrument.name(),
            last: of_values(self.last),
            mean: match is_histogram {
                true => sum.zip(values).map(|(sum, count)| sum / count),
                false => Some(self.sum / self.weights),
            },
            lowest: of_values(self.lowest),
            highest: of_values(self.highest),
            total: self.total,
            values,
            percentiles: is_histogram.then_some(self.percentiles),
            lines: Vec::new(),
        }
    }
}
