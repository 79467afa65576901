//! What recording an event costs in other tracing libraries, each against the floor.
//!
//! `cargo run --release` prints a table, and as its last line one JSON object: the ratio of each
//! to the floor, by name. An argument sets the number of rounds (300).
//!
//! Everybody records the same event, two 64-bit numbers of changing value, on one thread, with a
//! time stamp from the processor's counter where the library has such a clock. What happens away
//! from that thread (encoding, writing) is measured for nobody.
//!
//! Everybody is built as cargo builds a release by default. With whole-program optimisation some
//! peers do better (dial9 most of all); to see it, set `CARGO_PROFILE_RELEASE_LTO=thin` and
//! `CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1`.
//!
//! # Why not criterion
//!
//! It measures one function to the end and then the next. On a shared machine the clock rate and
//! the neighbours change in the meantime, by more than the differences looked for. Also the
//! buffers of some peers must be emptied, outside the measured time, before they are full: beyond
//! that they drop events, and dropping is quick. So here a round gives each in turn one pass of
//! [`PASS`] events, in an order that rotates; the best of all rounds stands for each, because
//! noise on such a machine only ever adds. The median is shown beside it.

mod clock;
mod dial9;
mod fast;
mod floor;
mod harness;
#[cfg(feature = "ours")]
mod ours;
mod perfetto;
mod subscriber;

use std::{env, process::ExitCode};

use harness::{Peer, Row};

/// Events of one pass; below the capacity of the smallest buffer (fastrace, 10,240 spans).
pub(crate) const PASS: u64 = 10_000;

/// Rounds unless told otherwise.
const ROUNDS: usize = 300;

fn main() -> ExitCode {
    let rounds = match env::args().nth(1).map(|text| text.parse()) {
        None => ROUNDS,
        Some(Ok(rounds)) if rounds > 0 => rounds,
        Some(_) => {
            eprintln!("error: the only argument is the number of rounds, {ROUNDS} by default");
            return ExitCode::from(2);
        }
    };
    match harness::measure(&mut peers(), rounds) {
        Ok(rows) => {
            print_table(&rows);
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Everybody, the floor first.
fn peers() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(floor::Floor::new()),
        #[cfg(feature = "ours")]
        Box::new(ours::Ours::new()),
        Box::new(dial9::Dial9),
        Box::new(perfetto::Perfetto::new()),
        Box::new(fast::Fastrace::default()),
        Box::new(subscriber::Subscriber::new()),
    ]
}

fn print_table(rows: &[Row]) {
    let floor = rows[0].best;
    println!("{:<28} {:>8} {:>8} {:>8}  what", "name", "best ns", "median", "ratio");
    for row in rows {
        let (best, median, ratio) = (row.best, row.median, row.best / floor);
        println!("{:<28} {best:>8.2} {median:>8.2} {ratio:>8.2}  {}", row.name, row.what);
    }
    println!("{}", json(rows));
}

/// Names are plain words, so nothing needs to be escaped.
fn json(rows: &[Row]) -> String {
    let ratio = |row: &Row| format!("\"{}\":{:.3}", row.name, row.best / rows[0].best);
    format!("{{{}}}", rows[1..].iter().map(ratio).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_each_ratio_by_name() {
        let row = |name, best| Row { name, what: "", best, median: best };
        let rows = [row("floor", 8.0), row("one", 12.0), row("two", 400.0)];
        assert_eq!(json(&rows), r#"{"one":1.500,"two":50.000}"#);
    }

    #[test]
    fn everybody_records_every_event_of_a_few_rounds() {
        let rows = harness::measure(&mut peers(), 3).unwrap();
        assert_eq!(rows.len(), peers().len());
        assert!(rows.iter().all(|row| row.best > 0.0 && row.best <= row.median));
    }
}
