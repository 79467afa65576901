//! `killme`: killed at a random moment, its file is complete, and lacks only what is younger than a
//! flush interval and a write.
#![cfg(unix)]

mod support;

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io::{BufReader, Read},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nettrace_reader::{Reader, Value};

use crate::support::{
    KILLME, assert_holds, directory, dotnet_trace_opens, number, open, run,
};

/// How much later than it should a flush may come on a machine that has other things to do.
const NOISE: Duration = Duration::from_millis(900);

/// How many times: `NETTRACE_KILLS`, else 20.
#[test]
fn a_killed_program_leaves_a_complete_file() {
    let kills: u32 = std::env::var("NETTRACE_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let directory = directory();
    let mut ages = Vec::new();
    let mut without_file = 0;
    for kill in 0..kills {
        // Short intervals, too: then more of the kills meet a write.
        let interval = [100, 2][kill as usize % 2];
        let trace = directory.path().join(format!("{kill}.nettrace"));
        match kill_once(&trace, interval, random(1..400)) {
            Some(age) => ages.push((interval, age)),
            None => without_file += 1,
        }
        let _ = std::fs::remove_file(&trace);
    }
    println!("{kills} kills, {without_file} of them before the file");
    for interval in [100, 2] {
        let mut ages: Vec<_> =
            ages.iter().filter(|(of, _)| *of == interval).map(|(_, age)| *age).collect();
        ages.sort();
        let Some(most) = ages.last() else { continue };
        let median = ages[ages.len() / 2];
        println!("interval {interval} ms: the oldest missing event {median:?} old, {most:?} at most");
        assert!(*most < Duration::from_millis(interval) + NOISE, "{ages:?}");
        assert!(median < Duration::from_millis(interval + 50), "{ages:?}");
    }
}

/// Says how old the oldest missing event is; `None` if there is no file yet.
fn kill_once(trace: &Path, interval: u64, delay: Duration) -> Option<Duration> {
    let mut program = Command::new(KILLME)
        .args(["--flush-interval", &interval.to_string(), "--out"])
        .arg(trace)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(delay);
    program.kill().unwrap();
    assert!(program.wait().unwrap().code().is_none(), "it ended before it was killed");
    let mut said = String::new();
    program.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    if !trace.exists() {
        assert!(said.is_empty(), "{said}");
        return None;
    }

    let workers = last_events(trace);
    let written: u64 = workers.iter().map(|worker| worker.number).sum();
    assert_holds(trace, written, 0);
    // The last line may be cut.
    let Some(line) = said.rsplit_once('\n').and_then(|(lines, _)| lines.lines().last()) else {
        return Some(Duration::ZERO);
    };
    let line = serde_json::from_str(line).unwrap();
    assert!(written >= number(&line, "written"), "the file has less than was said: {line}");
    let at_nanos = number(&line, "at_nanos");
    let mut age = 0;
    for (worker, last) in workers.iter().enumerate() {
        if last.number < line["emitted"][worker].as_u64().unwrap() {
            // The first that is missing was emitted after the last that is there.
            age = age.max(at_nanos.saturating_sub(last.at_nanos));
        }
    }
    Some(Duration::from_nanos(age))
}

#[derive(Clone, Copy, Default)]
struct Last {
    number: u64,
    at_nanos: u64,
}

/// The last event of each thread; all before it must be there.
fn last_events(trace: &Path) -> [Last; 2] {
    let mut last = [Last::default(); 2];
    let mut reader = Reader::new(BufReader::new(open(trace))).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let fields: Vec<_> = event.fields().map(|field| field.unwrap().1).collect();
        let [Value::U32(worker), Value::U64(number), Value::U64(at_nanos)] = fields[..] else {
            panic!("{fields:?}");
        };
        let last = &mut last[worker as usize];
        assert_eq!(number, last.number + 1, "an event is missing before another");
        *last = Last { number, at_nanos };
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

/// So many milliseconds.
fn random(range: std::ops::Range<u64>) -> Duration {
    let number = RandomState::new().build_hasher().finish();
    Duration::from_micros(range.start * 1_000 + number % ((range.end - range.start) * 1_000))
}
