//! The cost of recording an event in other tracing libraries, compared with the floor.
//!
//! `cargo run --release` prints a table. Its last line is one JSON object with the ratio of each
//! peer to the floor, by name. An argument sets the number of rounds (300).
//!
//! All peers record the same event on one thread: two 64-bit numbers that change from event to
//! event. They stamp it from the processor's counter if the library has such a clock. Those that
//! know spans record a span as well, which begins and ends. Work on other threads (encoding,
//! writing) is not measured for any of them.
//!
//! All peers are built with cargo's default release profile. Some do better with whole-program
//! optimisation, dial9 most of all. To see that, set `CARGO_PROFILE_RELEASE_LTO=thin` and
//! `CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1`.
//!
//! # Why not criterion
//!
//! Criterion measures one function to the end and then the next. On a shared machine the clock rate
//! and the load change in the meantime, by more than the differences between the peers. Also, some
//! peers drop events once their buffers are full, and dropping is quick. So their buffers must be
//! emptied in time, outside of the measured time.
//!
//! So this program measures in rounds. In each round every peer records [`PASS`] events, in an
//! order that rotates. The figure of a peer is its best round, because noise on such a machine only
//! adds time. The table shows the median beside it.

mod bridges;
mod clock;
mod dial9;
mod fast;
mod floor;
mod harness;
#[cfg(feature = "ours")]
mod ours;
mod perfetto;
mod registry;
mod subscriber;

use std::{env, process::ExitCode};

use harness::{Peer, Row};

/// Events of one pass: fewer than the smallest buffer holds (fastrace, 10,240 spans).
pub(crate) const PASS: u64 = 10_000;

/// The default number of rounds.
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

/// All peers, the floor first.
fn peers() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(floor::Floor::new()),
        #[cfg(feature = "ours")]
        Box::new(ours::Ours::new()),
        #[cfg(feature = "ours")]
        Box::new(ours::OurSpans::new()),
        Box::new(dial9::Dial9),
        Box::new(perfetto::Perfetto::new()),
        Box::new(fast::Fastrace::default()),
        Box::new(registry::Spans::new()),
        #[cfg(feature = "ours")]
        Box::new(bridges::Ours::new()),
        Box::new(bridges::Fastrace::new()),
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

/// The results as JSON. Names are plain words, so nothing needs escaping.
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
