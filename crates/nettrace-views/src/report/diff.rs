//! Two reports beside each other: which spans take longer, and which events and errors are new.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
};

use serde::Serialize;

use crate::{
    model::{FullName, OneLine},
    report::{
        data::{Data, Latency},
        terminal::{MOST_ROWS, Table, time, write_more},
    },
};

/// Spans of one name before and after.
#[derive(Debug, Serialize)]
pub(crate) struct Change {
    provider: String,
    name: String,
    before: Option<Times>,
    after: Option<Times>,
}

/// How long spans of one name took.
#[derive(Clone, Copy, Debug, Serialize)]
struct Times {
    count: u64,
    p50_ns: u64,
    p99_ns: u64,
    mean_ns: f64,
    /// The part of the time of all spans, each without that of its children.
    share: f64,
}

/// Event types, or groups of errors, that one of the traces alone has.
#[derive(Debug, Serialize)]
pub(crate) struct Alone {
    kind: &'static str,
    /// Provider and name, and of an error what it says and where.
    what: String,
    /// Whether it is in the second trace.
    is_new: bool,
    count: u64,
}

/// What differs.
#[derive(Debug, Serialize)]
pub(crate) struct Diff {
    /// The names with the most time gained or lost come first.
    spans: Vec<Change>,
    others: Vec<Alone>,
    /// Errors and warnings of each trace that are of no group, because it has too many. Those that
    /// seem to be in one trace alone can be among them.
    other_errors: [u64; 2],
}

impl Diff {
    /// Compares what was before with what is after.
    pub(crate) fn of(before: &Data, after: &Data) -> Self {
        let mut changes = BTreeMap::<_, [Option<Times>; 2]>::new();
        for (side, data) in [before, after].into_iter().enumerate() {
            let total: f64 = data.latencies.iter().map(|latency| latency.own_ns).sum();
            for latency in data.latencies.iter().filter(|latency| latency.count > 0) {
                let key = (latency.provider.clone(), latency.name.clone());
                changes.entry(key).or_default()[side] = Some(Times::of(latency, total));
            }
        }
        let spans = changes.into_iter();
        let spans = spans.map(|((provider, name), [before, after])| Change {
            provider,
            name,
            before,
            after,
        });
        let mut spans: Vec<_> = spans.collect();
        // The time that all of them take more, or less, than before.
        let weight = |change: &Change| {
            let total = |times: Option<Times>| times.map_or(0.0, |it| it.mean_ns * it.count as f64);
            let weight = match (change.before, change.after) {
                (Some(before), Some(after)) => {
                    (after.mean_ns - before.mean_ns) * after.count as f64
                }
                (before, after) => total(after) - total(before),
            };
            weight.abs() as u128
        };
        spans.sort_by_key(|change| Reverse(weight(change)));
        let mut others = alone("error", before, after, errors);
        others.extend(alone("event", before, after, types));
        Self { spans, others, other_errors: [before.other_errors, after.other_errors] }
    }

    /// Writes the first names, and the first of what one trace alone has, as lines.
    pub(crate) fn write(&self, data: [&Data; 2], mut out: impl Write) -> io::Result<()> {
        let columns = ["spans", "p50", "p99", "share", "", "spans", "p50", "p99", "share"];
        let mut table = Table::new("Span, before and after", &columns, "mean");
        for change in self.spans.iter().take(MOST_ROWS) {
            let cells = |times: Option<Times>, data| match times {
                None => vec!["-".into(), String::new(), String::new(), String::new()],
                Some(Times { count, p50_ns, p99_ns, share, .. }) => vec![
                    count.to_string(),
                    time(data, p50_ns as f64),
                    time(data, p99_ns as f64),
                    format!("{:.1} %", share * 100.0),
                ],
            };
            let mut both = cells(change.before, data[0]);
            both.push("→".into());
            both.extend(cells(change.after, data[1]));
            let name = FullName(&change.provider, &change.name).to_string();
            table.row(name, both, change.factor());
        }
        if !self.spans.is_empty() {
            table.write(&mut out)?;
            let more = self.spans.len().saturating_sub(MOST_ROWS);
            write_more(more, "names", &mut out)?;
        }
        let mut table = Table::new("In one trace alone", &["", "", "count"], "");
        for Alone { kind, what, is_new, count } in self.others.iter().take(MOST_ROWS) {
            let is_new = if *is_new { "new" } else { "gone" };
            let cells = vec![(*kind).into(), is_new.into(), count.to_string()];
            table.row(OneLine(what).to_string(), cells, String::new());
        }
        if !self.others.is_empty() {
            table.write(&mut out)?;
            let more = self.others.len().saturating_sub(MOST_ROWS);
            write_more(more, "errors and events", &mut out)?;
        }
        for (which, more) in ["before", "after"].into_iter().zip(self.other_errors) {
            if more > 0 {
                writeln!(
                    out,
                    "{which}, {more} more errors and warnings are of other kinds, beyond 500: what \
                     seems to be in one trace alone can be among them"
                )?;
            }
        }
        Ok(())
    }
}

impl Change {
    /// By how much the mean has changed.
    fn factor(&self) -> String {
        match (self.before, self.after) {
            (None, _) => "new".into(),
            (_, None) => "gone".into(),
            (Some(before), Some(after)) if before.mean_ns > 0.0 => {
                format!("×{:.2}", after.mean_ns / before.mean_ns)
            }
            _ => String::new(),
        }
    }
}

impl Times {
    fn of(latency: &Latency, total_own: f64) -> Self {
        let Latency { count, p50_ns, p99_ns, total_ns, own_ns, .. } = *latency;
        let share = if total_own > 0.0 { own_ns / total_own } else { 0.0 };
        Self { count, p50_ns, p99_ns, mean_ns: total_ns / count as f64, share }
    }
}

/// How many of which errors there are.
fn errors(data: &Data) -> Vec<(String, u64)> {
    let errors = data.errors.iter().map(|wrong| {
        let mut what = format!("{}/{}", wrong.provider, wrong.name);
        for (before, more) in [(": ", Some(&wrong.shape)), (" in ", wrong.place.as_ref())] {
            if let Some(more) = more.filter(|more| !more.is_empty()) {
                what = format!("{what}{before}{more}");
            }
        }
        (what, wrong.count)
    });
    errors.collect()
}

/// How many events there are of which type.
fn types(data: &Data) -> Vec<(String, u64)> {
    data.all_types
        .iter()
        .map(|(provider, name, events)| (format!("{provider}/{name}"), *events))
        .collect()
}

/// What one of two traces has and the other one has not: what is new first, and the most frequent.
fn alone(
    kind: &'static str,
    before: &Data,
    after: &Data,
    of: impl Fn(&Data) -> Vec<(String, u64)>,
) -> Vec<Alone> {
    let [before, after] = [of(before), of(after)];
    let only = |these: &[(String, u64)], others: &[(String, u64)], is_new| {
        let others: BTreeSet<_> = others.iter().map(|(what, _)| what).collect();
        let mut counts = BTreeMap::<_, u64>::new();
        for (what, count) in these.iter().filter(|(what, _)| !others.contains(what)) {
            *counts.entry(what.clone()).or_default() += count;
        }
        let alone = counts.into_iter().map(|(what, count)| Alone { kind, what, is_new, count });
        let mut alone: Vec<_> = alone.collect();
        alone.sort_by_key(|alone| Reverse(alone.count));
        alone
    };
    let mut all = only(&after, &before, true);
    all.extend(only(&before, &after, false));
    all
}
