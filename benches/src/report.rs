//! Prints results. Each result is a line `ratio NAME VALUE`, which `cargo xtask bench` collects.
//! The last line is one JSON object with all results and the figures behind them.

use serde_json::{Map, Value};

/// Results so far.
#[derive(Debug, Default)]
pub struct Report {
    figures: Map<String, Value>,
}

impl Report {
    /// Prints a result. Not every result is a ratio; its name says what it is.
    pub fn ratio(&mut self, name: &str, value: f64) {
        println!("ratio {name} {value}");
        self.figure(name, value);
    }

    /// Keeps a figure for the JSON object.
    pub fn figure(&mut self, name: &str, value: impl Into<Value>) {
        self.figures.insert(name.to_owned(), value.into());
    }

    /// Says why a scenario has no result.
    pub fn skip(&self, name: &str, why: &str) {
        println!("skipped: {name}: {why}");
    }

    /// Prints the JSON object, unless there is nothing in it.
    pub fn finish(self) {
        if !self.figures.is_empty() {
            println!("{}", Value::Object(self.figures));
        }
    }
}

/// The median: the middle value, or the mean of the two in the middle.
///
/// # Panics
/// If `values` is empty.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// The smallest of `values` that the share `share` of them does not exceed.
///
/// # Panics
/// If `values` is empty.
#[must_use]
pub fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::{median, quantile};

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 9.0, 2.0]), 3.0);
    }
    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<_> = (1..=10).map(f64::from).collect();
        assert_eq!(quantile(values.clone(), 0.9), 9.0);
        assert_eq!(quantile(values.clone(), 0.91), 10.0);
        assert_eq!(quantile(values.clone(), 0.0), 1.0);
        assert_eq!(quantile(values, 1.0), 10.0);
    }
}
