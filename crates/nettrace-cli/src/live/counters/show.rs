//! The display of counters: a table, lines, JSON and CSV.

use std::{fmt::Write as _, io::Write};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Number;

use super::decode::{CounterKind, Sample};
use crate::{
    csv_cell,
    failure::Failure,
    spelling::{OneLine, to_json},
};

/// The columns of CSV.
pub(super) const CSV_COLUMNS: &str = "time,provider,name,tags,unit,kind,value,rate";

/// The style in which values are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Table,
    Lines,
    Json,
    Csv,
}

impl Style {
    /// Writes a value that has come at a time.
    pub(super) fn write(
        self,
        out: &mut impl Write,
        time: Timestamp,
        sample: &Sample,
    ) -> Result<(), Failure> {
        match self {
            Self::Table => {}
            Self::Json => {
                let time = format!("{time:.3}");
                to_json(&mut *out, &TimedSample { time: &time, sample })?;
                out.write_all(b"\n")?;
            }
            Self::Lines => {
                for (label, value, rate) in rows(sample) {
                    let provider = OneLine(&sample.series.provider);
                    write!(out, "{time:.3} {provider}/{} {value}", OneLine(label))?;
                    match rate {
                        Some(rate) => writeln!(out, " ({rate}/s)")?,
                        None => writeln!(out)?,
                    }
                }
            }
            Self::Csv => write_csv(out, time, sample)?,
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct TimedSample<'a> {
    time: &'a str,
    #[serde(flatten)]
    sample: &'a Sample,
}

/// A number for people: integers as they are, others with at most four places.
fn short(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer.to_string(),
        (None, Some(float)) if float.abs() >= 1e15 => format!("{float:e}"),
        (None, Some(float)) => {
            let text = format!("{float:.4}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => number.to_string(),
    }
}

/// The rows of a sample: name with tags and unit, value, rate. A histogram has one for each
/// quantile, and others for its count and sum.
fn rows(sample: &Sample) -> Vec<(String, String, Option<String>)> {
    let series = &sample.series;
    let mut label = series.name.clone();
    if !series.tags.is_empty() {
        let _ = write!(label, "[{}]", series.tags);
    }
    let unit = if series.unit.is_empty() { String::new() } else { format!(" ({})", series.unit) };
    if sample.kind != CounterKind::Histogram {
        let value = sample.value.as_ref().map_or_else(String::new, short);
        return vec![(label + &unit, value, sample.rate.as_ref().map(short))];
    }
    let quantile = |(quantile, value): &(Number, Number)| {
        (format!("{label} quantile {quantile}{unit}"), short(value), None)
    };
    let mut rows: Vec<_> = sample.quantiles.iter().map(quantile).collect();
    let totals = [("count", "", &sample.count), ("sum", &*unit, &sample.sum)];
    rows.extend(totals.into_iter().filter_map(|(what, unit, number)| {
        Some((format!("{label} {what}{unit}"), short(number.as_ref()?), None))
    }));
    rows
}

/// A table of values, under a title.
pub(super) fn table<'a>(title: &str, samples: impl Iterator<Item = &'a Sample>) -> Vec<String> {
    let mut provider = None;
    let mut rows_of = Vec::new();
    for sample in samples {
        if provider != Some(&sample.series.provider) {
            provider = Some(&sample.series.provider);
            rows_of.push((sample.series.provider.clone(), None));
        }
        rows_of.extend(rows(sample).into_iter().map(|(label, value, rate)| {
            (format!("  {label}"), Some((value, rate.unwrap_or_default())))
        }));
    }
    let width = rows_of.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0).max(30);
    let mut lines = vec![format!("{title:width$} {:>18} {:>16}", "value", "a second")];
    if rows_of.is_empty() {
        lines.push("no values yet".to_owned());
    }
    lines.extend(rows_of.into_iter().map(|(label, values)| match values {
        Some((value, rate)) => format!("{label:width$} {value:>18} {rate:>16}").trim_end().into(),
        None => label,
    }));
    lines
}

fn write_csv(out: &mut impl Write, time: Timestamp, sample: &Sample) -> std::io::Result<()> {
    let series = &sample.series;
    let start = [&series.provider, &series.name, &series.tags, &series.unit]
        .map(|text| csv_cell::CsvCell(text).to_string());
    let start = format!("{time:.3},{}", start.join(","));
    let all = |number: &Option<Number>| number.as_ref().map_or_else(String::new, Number::to_string);
    if sample.kind != CounterKind::Histogram {
        let (value, rate) = (all(&sample.value), all(&sample.rate));
        return writeln!(out, "{start},{},{value},{rate}", sample.kind.name());
    }
    for (quantile, value) in &sample.quantiles {
        writeln!(out, "{start},quantile {quantile},{value},")?;
    }
    for (kind, number) in [("count", &sample.count), ("sum", &sample.sum)] {
        if number.is_some() {
            writeln!(out, "{start},{kind},{},", all(number))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::decode::Series, *};

    fn sample(kind: CounterKind) -> Sample {
        let series = Series {
            provider: "Shop".to_owned(),
            name: "orders".to_owned(),
            tags: "country=de,city=\"x\"".to_owned(),
            unit: "{order}".to_owned(),
        };
        let number = |float| Number::from_f64(float);
        let is_histogram = kind == CounterKind::Histogram;
        let pair = || (number(0.5).unwrap(), Number::from(51));
        Sample {
            series,
            kind,
            value: number(1.25).filter(|_| !is_histogram),
            rate: number(100.123_456).filter(|_| !is_histogram),
            count: is_histogram.then(|| Number::from(3)),
            sum: is_histogram.then(|| Number::from(7)),
            quantiles: is_histogram.then(pair).into_iter().collect(),
        }
    }

    fn written(style: Style, kind: CounterKind) -> String {
        let mut out = Vec::new();
        style.write(&mut out, Timestamp::UNIX_EPOCH, &sample(kind)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_lines_json_and_csv() {
        const TIME: &str = "1970-01-01T00:00:00.000Z";
        assert_eq!(
            written(Style::Lines, CounterKind::Counter),
            format!("{TIME} Shop/orders[country=de,city=\"x\"] ({{order}}) 1.25 (100.1235/s)\n")
        );
        let tags = "\"country=de,city=\"\"x\"\"\"";
        assert_eq!(
            written(Style::Csv, CounterKind::Counter),
            format!("{TIME},Shop,orders,{tags},{{order}},counter,1.25,100.123456\n")
        );
        assert_eq!(
            written(Style::Csv, CounterKind::Histogram),
            format!(
                "{TIME},Shop,orders,{tags},{{order}},quantile 0.5,51,\n\
                 {TIME},Shop,orders,{tags},{{order}},count,3,\n\
                 {TIME},Shop,orders,{tags},{{order}},sum,7,\n"
            )
        );
        let object: serde_json::Value =
            serde_json::from_str(&written(Style::Json, CounterKind::Histogram)).unwrap();
        assert_eq!(object["time"], TIME);
        assert_eq!((&object["provider"], &object["kind"]), (&"Shop".into(), &"histogram".into()));
        assert_eq!(object["quantiles"], serde_json::json!([[0.5, 51]]));
        assert!(object.get("value").is_none() && object["count"] == 3);
        assert_eq!(written(Style::Lines, CounterKind::Histogram).lines().count(), 3);
    }

    #[test]
    fn a_table_groups_by_provider() {
        let lines =
            table("shop 7", [sample(CounterKind::Counter), sample(CounterKind::Histogram)].iter());
        assert!(lines[0].starts_with("shop 7 ") && lines[0].ends_with("a second"), "{lines:?}");
        assert_eq!(lines[1], "Shop");
        assert!(lines[2].ends_with(" 1.25         100.1235"), "{lines:?}");
        assert_eq!(lines.len(), 6);
        assert_eq!(table("x", [].iter())[1], "no values yet");
    }

    #[test]
    fn numbers_are_short() {
        for (float, text) in [(0.1, "0.1"), (100.0, "100"), (1e20, "1e20"), (0.000_01, "0")] {
            assert_eq!(short(&Number::from_f64(float).unwrap()), text);
        }
        assert_eq!(short(&Number::from(-7)), "-7");
    }
}
