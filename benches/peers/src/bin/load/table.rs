//! The results of the runs of a way, beside those without a recorder.

use serde_json::{Map, Value, json};

/// The head of the table.
pub(crate) const HEAD: &str = "\
| recorder | requests a second | of none | processor time a request, µs | of none \
| 99th percentile, µs | of none | peak memory, MiB | written a request, B | rows a request | lost |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

/// The runs of a way, one a round: the last lines of the service's output.
#[derive(Clone, Default)]
pub(crate) struct Runs(Vec<Value>);

/// A column that is compared with the same without a recorder.
struct Compared {
    name: &'static str,
    of: fn(&Value) -> f64,
}

const COMPARED: [Compared; 3] = [
    Compared { name: "requests_per_second", of: |run| number(run, "requests_per_second") },
    Compared { name: "cpu_us", of: |run| number(run, "cpu_seconds") * 1e6 / requests(run) },
    Compared { name: "p99_us", of: |run| number(run, "p99_us") },
];

impl Runs {
    pub(crate) fn push(&mut self, run: Value) {
        self.0.push(run);
    }

    /// A row of the table.
    pub(crate) fn row(&self, what: &str, without: &Self) -> String {
        let mut row = format!("| {what} ");
        for column in &COMPARED {
            let [first, middle, third] = self.ratios(column.of, without);
            let value = self.median(column.of);
            row += &format!("| {value:.0} | {middle:.3} ({first:.3} to {third:.3}) ");
        }
        let [memory, bytes, rows, lost] = self.others();
        let text = |value: f64| if rows > 0.0 { format!("{value:.1}") } else { "–".to_owned() };
        let lost = if rows > 0.0 { format!("{:.1} %", lost * 100.0) } else { "–".to_owned() };
        // A service of an earlier state does not say what memory it takes.
        let memory = if memory.is_nan() { "–".to_owned() } else { format!("{memory:.0}") };
        row + &format!("| {memory} | {bytes:.0} | {} | {lost} |", text(rows))
    }

    /// The same figures for a program.
    pub(crate) fn figures(&self, without: &Self) -> Value {
        let mut figures = Map::new();
        for column in &COMPARED {
            let [first, middle, third] = self.ratios(column.of, without);
            figures.insert(column.name.to_owned(), json!(self.median(column.of)));
            figures.insert(format!("{}_of_none", column.name), json!(middle));
            figures.insert(format!("{}_of_none_quartiles", column.name), json!([first, third]));
        }
        let [memory, bytes, rows, lost] = self.others();
        figures.insert("peak_mib".to_owned(), json!(memory));
        figures.insert("bytes_a_request".to_owned(), json!(bytes));
        figures.insert("rows_a_request".to_owned(), json!(rows));
        figures.insert("lost".to_owned(), json!(lost));
        figures.insert("recorder_cpu_seconds".to_owned(), {
            json!(self.median(|run| number(run, "recorder_cpu_seconds")))
        });
        Value::Object(figures)
    }

    /// Memory, bytes and rows of a request, and the part of what should be in the trace and is not.
    fn others(&self) -> [f64; 4] {
        let lost = |run: &Value| {
            let (rows, lost) = (number(run, "events"), number(run, "dropped"));
            if lost > 0.0 { lost / (rows + lost) } else { 0.0 }
        };
        [
            self.median(|run| number(run, "peak_kib") / 1024.0),
            self.median(|run| number(run, "bytes") / requests(run)),
            self.median(|run| number(run, "events") / requests(run)),
            self.median(lost),
        ]
    }

    fn median(&self, of: impl Fn(&Value) -> f64) -> f64 {
        let [_, median, _] = quartiles(self.0.iter().map(of).collect());
        median
    }

    /// Quartiles of the ratios to the runs of the same rounds.
    fn ratios(&self, of: fn(&Value) -> f64, without: &Self) -> [f64; 3] {
        let pairs = self.0.iter().zip(&without.0);
        quartiles(pairs.map(|(run, without)| of(run) / of(without)).collect())
    }
}

fn requests(run: &Value) -> f64 {
    number(run, "requests")
}

fn number(run: &Value, key: &str) -> f64 {
    run[key].as_f64().unwrap_or(f64::NAN)
}

/// The first quartile, the median and the third quartile. Values that are none count as largest.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    [1, 2, 3].map(|quarter| {
        let (below, above) = (last * quarter / 4, (last * quarter).div_ceil(4));
        match (values.get(below), values.get(above)) {
            (Some(below), Some(above)) => {
                let part = (last * quarter % 4) as f64 / 4.0;
                below + (above - below) * part
            }
            _ => f64::NAN,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{HEAD, Runs, quartiles};

    #[test]
    fn quartiles_are_between_the_values_around_them() {
        assert_eq!(quartiles(vec![5.0, 1.0, 2.0, 4.0, 3.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(vec![2.0, 1.0]), [1.25, 1.5, 1.75]);
        assert_eq!(quartiles(vec![7.0]), [7.0; 3]);
        assert!(quartiles(Vec::new()).iter().all(|value| value.is_nan()));
    }

    #[test]
    fn ratios_are_those_of_one_round() {
        let run = |rate: f64, p99: u32, cpu: f64| {
            json!({
                "requests": rate * 2.0, "requests_per_second": rate, "p99_us": p99,
                "cpu_seconds": cpu, "bytes": rate * 700.0, "events": rate * 18.0,
                "dropped": rate * 2.0, "peak_kib": 2048,
            })
        };
        // The machine is half as fast in the second round.
        let without = Runs(vec![run(1_000.0, 200, 2.0), run(500.0, 400, 2.0)]);
        let row = Runs(vec![run(900.0, 220, 2.25), run(450.0, 440, 2.25)]).row("x", &without);
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let ratio = "0.900 (0.900 to 0.900)";
        assert_eq!(cells[1..4], ["x", "675", ratio]);
        assert_eq!(
            cells[4..8],
            ["1875", "1.250 (1.250 to 1.250)", "330", "1.100 (1.100 to 1.100)"]
        );
        assert_eq!(cells[8..], ["2", "350", "9.0", "10.0 %", ""]);
        for line in HEAD.lines() {
            assert_eq!(line.matches('|').count(), row.matches('|').count(), "{line}");
        }
    }

    #[test]
    fn what_nobody_records_is_not_lost() {
        let run = json!({ "requests": 10, "events": 0, "dropped": 0 });
        assert!(Runs(vec![run]).row("none", &Runs::default()).ends_with("| – | – |"));
    }
}
