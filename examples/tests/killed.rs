//! `killme`: when it is killed at a random moment, its file is complete. It lacks only events that
//! are younger than one flush interval and one write.
#![cfg(unix)]

mod support;

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io::{BufRead, BufReader},
    ops::Range,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nettrace_reader::{Reader, Value, heph};

use crate::support::{
    KILLME, assert_holds, directory, dotnet_trace_opens, is_heph, number, open, run,
};

/// How much later than promised a flush may come on a busy machine.
const NOISE: Duration = Duration::from_millis(900);

/// How often the ages are measured again if they are too high, because the machine may have been
/// busy. All other assertions about a file must hold the first time.
const SERIES: u32 = 3;

/// A file is complete in every format.
const FORMATS: [&str; 4] = ["v6", "heph", "v5", "v4"];

/// The formats take turns. The age of a missing event depends on the machine, so it is not
/// asserted.
#[test]
fn a_killed_program_leaves_a_complete_file() {
    // Each row has every format. They mostly wait.
    thread::scope(|scope| {
        for row in 0..testkit::effort::all_or(3, 1) {
            scope.spawn(move || {
                if let Err(late) = kill_many(8 * row..8 * (row + 1)) {
                    println!("late: {late}");
                }
            });
        }
    });
}

/// Kills `NETTRACE_KILLS` times, or 60 times.
#[test]
#[ignore = "measures ages: wants an optimised build, and a machine with little else to do"]
fn what_a_killed_program_leaves_is_young() {
    let kills: u32 = std::env::var("NETTRACE_KILLS").map_or(60, |kills| kills.parse().unwrap());
    let late: Vec<_> = (0..SERIES).map_while(|_| kill_many(0..kills).err()).collect();
    assert!(late.len() < SERIES as usize, "in {SERIES} series: {late:#?}");
}

/// Returns an error if missing events were older than promised.
fn kill_many(kills: Range<u32>) -> Result<(), String> {
    let directory = directory();
    let mut ages = Vec::new();
    let mut without_file = 0;
    let count = kills.len();
    for kill in kills {
        // Short intervals and many events, so that more kills interrupt a write.
        let (interval, rate, delay) =
            [(100, 100_000, 40..400), (1, 1_000_000, 40..200)][kill as usize % 2].clone();
        let trace = directory.path().join(format!("{kill}.nettrace"));
        let format = FORMATS[kill as usize / 2 % 4];
        match kill_once(&trace, format, interval, rate, random(delay)) {
            // Without optimization the flusher cannot write Heph packets as fast as these threads
            // emit.
            Some(_) if format == "heph" && rate > 100_000 => {}
            Some(age) => ages.push((interval, age)),
            None => without_file += 1,
        }
        let _ = std::fs::remove_file(&trace);
    }
    println!("{count} kills, {without_file} of them before the first event was spoken of");
    for interval in [100, 1] {
        let mut ages: Vec<_> =
            ages.iter().filter(|(of, _)| *of == interval).map(|(_, age)| *age).collect();
        ages.sort();
        let Some(most) = ages.last() else { continue };
        let median = ages[ages.len() / 2];
        println!(
            "interval {interval} ms: what is missing is younger than {median:?}, {most:?} at most"
        );
        let bounds =
            [Duration::from_millis(interval + 50), Duration::from_millis(interval) + NOISE];
        if median >= bounds[0] || *most >= bounds[1] {
            return Err(format!("interval {interval} ms: {ages:?}"));
        }
    }
    Ok(())
}

/// Returns the greatest age that a missing event can have; `None` if there is no file yet.
fn kill_once(
    trace: &Path,
    format: &str,
    interval: u64,
    rate: u64,
    delay: Duration,
) -> Option<Duration> {
    let mut program = Command::new(KILLME)
        .args(["--flush-interval", &interval.to_string()])
        .args(["--format", format, "--rate", &rate.to_string(), "--out"])
        .arg(trace)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = program.stdout.take().unwrap();
    let said = thread::spawn(|| {
        let lines = BufReader::new(stdout).lines().map(|line| (line.unwrap(), Instant::now()));
        // The last line may be incomplete.
        lines.filter_map(|(line, at)| Some((serde_json::from_str(&line).ok()?, at))).last()
    });
    thread::sleep(delay);
    let killed = Instant::now();
    program.kill().unwrap();
    assert!(program.wait().unwrap().code().is_none(), "it ended before it was killed");
    let said: Option<(serde_json::Value, Instant)> = said.join().unwrap();
    if !trace.exists() {
        assert!(said.is_none(), "{said:?}");
        return None;
    }

    let workers = last_events(trace);
    let written: u64 = workers.iter().map(|worker| worker.number).sum();
    assert_holds(trace, written, 0);
    let (line, heard) = said?;
    assert!(written >= number(&line, "written"), "the file has less than was said: {line}");
    // The program's clock at the moment of the kill, estimated from outside.
    let killed = number(&line, "at_nanos") + killed.duration_since(heard).as_nanos() as u64;
    let age = workers.iter().map(|last| killed.saturating_sub(last.at_nanos)).max().unwrap();
    Some(Duration::from_nanos(age))
}

#[derive(Clone, Copy, Default)]
struct Last {
    number: u64,
    at_nanos: u64,
}

/// The last event of each thread. All events before it must be there.
fn last_events(trace: &Path) -> [Last; 2] {
    let mut last = [Last::default(); 2];
    let mut see = |worker: u64, number, at_nanos| {
        let last = &mut last[worker as usize];
        assert_eq!(number, last.number + 1, "an event is missing before another");
        *last = Last { number, at_nanos };
    };
    let source = BufReader::new(open(trace));
    if is_heph(trace) {
        let mut reader = heph::Reader::new(source);
        while let Some(event) = reader.next_event().unwrap() {
            let attributes: Vec<_> = event.attributes().map(|field| field.unwrap().1).collect();
            match attributes[attributes.len() - 3..] {
                [heph::Value::U64(worker), heph::Value::U64(number), heph::Value::U64(at)] => {
                    see(worker, number, at);
                }
                _ => panic!("{attributes:?}"),
            }
        }
        return last;
    }
    let mut reader = Reader::new(source).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let fields: Vec<_> = event.fields().map(|field| field.unwrap().1).collect();
        match fields[..] {
            [Value::U32(worker), Value::U64(number), Value::U64(at)] => {
                see(worker.into(), number, at);
            }
            _ => panic!("{fields:?}"),
        }
    }
    last
}

#[test]
fn it_can_end_by_itself() {
    let directory = directory();
    let trace = directory.path().join("alive.nettrace");
    let ran = run(KILLME, &["--seconds", "0.2", "--rate", "20000"], &trace).well().balanced();
    assert!(ran.number("written") > 0);
    assert_holds(&trace, ran.number("written"), ran.number("dropped"));
    dotnet_trace_opens(&trace);
}

/// A random number of milliseconds.
fn random(range: Range<u64>) -> Duration {
    let number = RandomState::new().build_hasher().finish();
    Duration::from_micros(range.start * 1_000 + number % ((range.end - range.start) * 1_000))
}
