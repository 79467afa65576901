//! `killme --persistent`: when it is killed at a random moment, its trace and its recorder file
//! have every event whose `emit` has returned, or count it as lost. For each thread: recovered +
//! lost = returned, or one more.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nettrace_format::{
    recorder::{Recorder, Seen},
    v6::{END_OF_STREAM, read},
};
use nettrace_reader::{Options, Trace, Value, verify};

use crate::support::{KILLME, directory, judged};

/// A way in which the program records.
#[derive(Clone, Copy, Debug)]
struct Case {
    threads: usize,
    rate: u64,
    interval: u64,
    budget: usize,
    file_size: Option<u64>,
    /// It is a flight recorder.
    keeps: bool,
    /// Where there is no memory, threads wait.
    blocks: bool,
    /// It ends by itself after so many milliseconds.
    ends: Option<u64>,
    /// The kill comes after so many milliseconds.
    delay: (u64, u64),
}

const CASE: Case = Case {
    threads: 1,
    rate: 0,
    interval: 100,
    budget: 16 << 20,
    file_size: None,
    keeps: false,
    blocks: false,
    ends: None,
    delay: (20, 250),
};

const CASES: [Case; 10] = [
    CASE,
    Case { threads: 4, interval: 1, budget: 2 << 20, delay: (20, 200), ..CASE },
    Case { threads: 64, rate: 200, budget: 8 << 20, delay: (30, 300), ..CASE },
    Case {
        threads: 8,
        rate: 50_000,
        interval: 5,
        budget: 8 << 20,
        file_size: Some(64 << 10),
        delay: (30, 300),
        ..CASE
    },
    Case { threads: 64, interval: 20, budget: 4 << 20, delay: (50, 300), ..CASE },
    Case { threads: 2, rate: 50, interval: 10, budget: 4 << 20, delay: (50, 400), ..CASE },
    Case { threads: 3, interval: 10, keeps: true, delay: (50, 900), ..CASE },
    Case { threads: 40, rate: 2_000, budget: 8 << 20, keeps: true, delay: (50, 3_000), ..CASE },
    Case { threads: 16, budget: 1 << 20, blocks: true, delay: (30, 300), ..CASE },
    Case { threads: 8, budget: 8 << 20, ends: Some(100), delay: (100, 200), ..CASE },
];

#[test]
fn nothing_is_lost_when_it_is_killed() {
    kill_many(testkit::effort::all_or(20, CASES.len()));
}

/// Kills `NETTRACE_KILLS` times, or 50 times.
#[test]
#[ignore = "takes minutes"]
fn nothing_is_lost_when_it_is_killed_often() {
    kill_many(std::env::var("NETTRACE_KILLS").map_or(50, |kills| kills.parse().unwrap()));
}

/// Kills several beside each other, because each lives for a while before.
fn kill_many(kills: usize) {
    const ROWS: usize = 4;
    let row = |row: usize| -> [u64; 2] {
        let killed = (row..kills).step_by(ROWS).map(|kill| kill_once(CASES[kill % CASES.len()]));
        killed.fold([0; 2], |[events, rest], [whole, part]| [events + whole, rest + part])
    };
    let sums = thread::scope(|scope| {
        let rows: Vec<_> = (0..ROWS).map(|at| scope.spawn(move || row(at))).collect();
        rows.into_iter().map(|row| row.join().unwrap()).collect::<Vec<_>>()
    });
    let [events, rest] = [0, 1].map(|at| sums.iter().map(|sum| sum[at]).sum::<u64>());
    println!("{kills} kills, {events} events, {rest} of them from recorder files");
    assert!(rest > 0);
}

/// Returns how many events there were, and how many of them were in the recorder file alone.
fn kill_once(case: Case) -> [u64; 2] {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    let (recorder, counts) = (at("killme.recorder"), at("counts"));
    let mut command = Command::new(KILLME);
    for (option, value) in [
        ("--threads", case.threads as u64),
        ("--rate", case.rate),
        ("--flush-interval", case.interval),
        ("--budget", case.budget as u64),
    ] {
        command.arg(option).arg(value.to_string());
    }
    if let Some(size) = case.file_size {
        command.arg("--file-size").arg(size.to_string());
    }
    if case.keeps {
        command.args(["--keep", "1"]);
    }
    if case.blocks {
        command.args(["--policy", "block"]);
    }
    if let Some(millis) = case.ends {
        command.arg("--seconds").arg((millis as f64 / 1e3).to_string());
    }
    command.arg("--persistent").arg(&recorder).arg("--counts").arg(&counts);
    command.arg("--out").arg(at("killme.nettrace")).stdout(Stdio::null());
    let mut program = command.spawn().unwrap();
    thread::sleep(random(case.delay));
    program.kill().unwrap();
    let code = program.wait().unwrap().code();
    assert!(code.is_none() || case.ends.is_some(), "it ended before it was killed");
    if !counts.exists() {
        return [0; 2];
    }

    let mut streams: Vec<(u64, PathBuf)> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "nettrace"))
        .map(|path| (stream_number(&path), path))
        .collect();
    streams.sort();
    assert_eq!(streams.is_empty(), case.keeps, "the session has begun");
    let seen = streams.last().map(|(last, path)| {
        let mut seen = Seen::new(*last);
        see(&fs::read(path).unwrap(), &mut seen);
        seen
    });
    let mut rest = 0;
    // A session that has ended leaves none.
    if recorder.exists() || case.ends.is_none() {
        let bytes = fs::read(&recorder).unwrap();
        let recovered = Recorder::open(&bytes).unwrap().recover(seen.as_ref()).unwrap();
        assert_eq!((recovered.damaged, recovered.without_type), (0, 0));
        let path = at("rest.nettrace");
        fs::write(&path, &recovered.stream).unwrap();
        rest = recovered.events;
        let expected = (rest, recovered.lost);
        let report = verify(&recovered.stream[..]).unwrap();
        assert!(report.is_sound(), "{case:?}: {:#?}", report.violations);
        assert_eq!((report.events, report.lost), expected, "{case:?}");
        if let Some(verdict) = judged("summary", &path) {
            assert_eq!((verdict.events, verdict.lost), expected, "{case:?}");
        }
        streams.push((u64::MAX, path));
    }

    let mut threads = BTreeMap::<String, Had>::new();
    for (_, path) in &streams {
        add(path, &mut threads);
    }
    let counts = fs::read(&counts).unwrap();
    let returned = counts.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap()));
    let mut events = 0;
    for (worker, returned) in returned.enumerate() {
        let of = threads.remove(&format!("killme-{worker}")).unwrap_or_default();
        let attempted = of.events + of.lost;
        assert!(
            attempted == returned || attempted == returned + 1,
            "{case:?}: thread {worker}: {} events and {} lost, but {returned} have returned",
            of.events,
            of.lost,
        );
        events += of.events;
    }
    [events, rest]
}

/// What the streams have of a thread.
#[derive(Default)]
struct Had {
    events: u64,
    lost: u64,
    /// The number of the last event.
    last: u64,
}

/// Adds the events of a stream. None comes twice, and what is missing between two is lost.
fn add(path: &Path, threads: &mut BTreeMap<String, Had>) {
    let file = std::io::BufReader::new(fs::File::open(path).unwrap());
    let mut reader = Options::default().keep_thread_totals(true).open(file).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let fields: Vec<_> = event.fields().map(|field| field.unwrap().1).collect();
        let [Value::U32(worker), Value::U64(number), Value::U64(_)] = fields[..] else {
            panic!("{fields:?}")
        };
        let of = threads.entry(format!("killme-{worker}")).or_default();
        assert!(number > of.last, "{}: event {number} again", path.display());
        of.last = number;
        of.events += 1;
    }
    let totals: Vec<_> = reader.live_threads().chain(reader.finished_threads()).cloned().collect();
    for of in totals.iter().filter(|of| of.lost > 0) {
        let name = of.thread.name.clone().unwrap_or_default();
        threads.entry(name).or_default().lost += of.lost;
    }
}

fn stream_number(path: &Path) -> u64 {
    let reader = Options::default().open(fs::File::open(path).unwrap()).unwrap();
    reader.trace().value(Trace::FILE).unwrap().parse().unwrap()
}

/// Adds the blocks of a stream, which begins with 20 bytes.
fn see(stream: &[u8], seen: &mut Seen) {
    let mut rest = &stream[20..];
    while !rest.starts_with(&END_OF_STREAM) {
        let len = 4 + (u32::from_le_bytes(rest[..4].try_into().unwrap()) & 0xff_ffff) as usize;
        let block = read::blocks(&rest[..len]).next().unwrap().unwrap();
        seen.add(&block).unwrap();
        rest = &rest[len..];
    }
}

/// A random number of milliseconds.
fn random((least, most): (u64, u64)) -> Duration {
    use std::{
        collections::hash_map::RandomState,
        hash::{BuildHasher as _, Hasher as _},
    };

    let number = RandomState::new().build_hasher().finish();
    Duration::from_micros(least * 1_000 + number % ((most - least) * 1_000))
}
