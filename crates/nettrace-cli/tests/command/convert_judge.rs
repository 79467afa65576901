//! Compares converted traces with their sources, as the reference reader shows them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use testkit::{
    agreed::Agreed,
    reference::{dotnet_traces, judge},
    streams::{random, samples, v5_random, v5_samples},
};

use crate::convert_support::{convert, lost};

/// The reference reader's output for a file, without the time that it took, and its exit code.
fn lines(judge: &Path, command: &str, file: &Path) -> (Option<i32>, Vec<String>) {
    let output = Command::new(judge).arg(command).arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| line.split(" read_ms=").next().unwrap().to_owned());
    (output.status.code(), lines.collect())
}

/// A trace and its conversion, in files.
struct Pair {
    judge: PathBuf,
    _dir: tempfile::TempDir,
    from: PathBuf,
    out: PathBuf,
}

impl Pair {
    /// The reference reader's output for the trace, and for its conversion.
    fn both(&self, command: &str) -> [(Option<i32>, Vec<String>); 2] {
        [&self.from, &self.out].map(|file| lines(&self.judge, command, file))
    }
}

/// Converts `bytes` to the version `to`, and calls `compare` unless this comparison, which is named
/// `name`, came out well before.
fn converted(agreed: &Agreed, name: &str, bytes: &[u8], to: &str, compare: impl FnOnce(Pair)) {
    let (result, _) = convert(bytes, to);
    agreed.or_ask(&[name.as_bytes(), to.as_bytes(), bytes, &result], || {
        let Some(judge) = judge() else { return false };
        let dir = tempfile::tempdir().unwrap();
        let (from, out) = (dir.path().join("from"), dir.path().join("out"));
        fs::write(&from, bytes).unwrap();
        fs::write(&out, &result).unwrap();
        compare(Pair { judge, _dir: dir, from, out });
        true
    });
}

fn agreed() -> Agreed {
    Agreed::open("tests/command/reference/convert.agreed")
}

fn older() -> Vec<(String, Vec<u8>)> {
    let by_hand = v5_samples::all().into_iter().map(|(name, bytes)| (name.to_owned(), bytes));
    let by_chance = (0..2).map(|i| (format!("v5 seed {i}"), v5_random::make(i, 10 + i * 8).bytes));
    let real = dotnet_traces().into_iter().map(|path| {
        (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())
    });
    by_hand.chain(by_chance).chain(real).collect()
}

fn current() -> Vec<(String, Vec<u8>)> {
    let by_hand = samples::all().into_iter().map(|(name, bytes)| (name.to_owned(), bytes));
    let by_chance = (0..2).map(|i| (format!("seed {i}"), random::make(i, 10 + i * 8).bytes));
    by_hand.chain(by_chance).collect()
}

#[test]
fn version_6_to_6_is_the_same_to_it() {
    let agreed = agreed();
    for (name, bytes) in current() {
        converted(&agreed, "6 to 6", &bytes, "v6", |pair| {
            for command in ["headers", "events"] {
                let [before, after] = pair.both(command);
                for (before, after) in before.1.iter().zip(&after.1) {
                    assert_eq!(before, after, "{name} {command}");
                }
                assert_eq!(before, after, "{name} {command}");
            }
        });
    }
}

#[test]
fn versions_5_and_4_to_6_are_the_same_to_it() {
    let agreed = agreed();
    for (name, bytes) in older() {
        converted(&agreed, "older to 6", &bytes, "v6", |pair| is_the_same(&pair, &name, &bytes));
    }
}

fn is_the_same(pair: &Pair, name: &str, bytes: &[u8]) {
    let [mut before, after] = pair.both("headers");
    let last = before.1.last_mut().unwrap();
    *last = with_losses(last, lost(bytes));
    for (before, after) in before.1.iter().zip(&after.1) {
        // If an event of an older version is about another thread than the one that recorded it,
        // the reference does not show the processor. The trace has it, and in version 6 it is
        // shown.
        let without_processor = |line: &str| -> Vec<String> {
            let columns = line.split('\t').enumerate().filter(|(i, _)| *i != 7);
            columns.map(|(_, column)| column.to_owned()).collect()
        };
        assert_eq!(without_processor(before), without_processor(after), "{name}");
    }
    assert_eq!((before.0, before.1.len()), (after.0, after.1.len()), "{name}");
    if name.ends_with(".nettrace") {
        let [before, after] = pair.both("stacks");
        assert!(before == after, "{name}");
    }
    // For version 6 the reference adds labels in place of the ids of rows.
    let [before, after] = pair.both("events");
    for (before, after) in before.1.iter().zip(&after.1) {
        let fields = |line: &str| line.split(",\"fields\":").nth(1).map(str::to_owned);
        assert_eq!(fields(before), fields(after), "{name}");
        let ticks = |line: &str| line.split("\"ticks\":").nth(1).map(|it| it[..8].to_owned());
        assert_eq!(ticks(before), ticks(after), "{name}");
    }
}

/// Replaces the losses in the reference's last line by those of the specification. For older
/// versions the reference counts no losses before a thread's first number or after number 0.
fn with_losses(line: &str, lost: u64) -> String {
    let words = line.split(' ').map(|word| match word.starts_with("lost=") {
        // The reference counts modulo 2^32.
        true => format!("lost={}", lost as i32),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Converts to the older versions. All events arrive in order, and no new losses appear.
#[test]
fn the_older_versions_are_whole_to_it() {
    let agreed = agreed();
    let word = |line: &str, key: &str| {
        line.split(' ').find_map(|word| word.strip_prefix(key).map(str::to_owned)).unwrap()
    };
    // Each stream is converted to only one of them, because each call takes a while.
    let all = current().into_iter().chain(older()).zip(["v5", "v4"].into_iter().cycle());
    for ((name, bytes), to) in all {
        converted(&agreed, "to older", &bytes, to, |pair| {
            let [before, after] = pair.both("headers");
            assert_eq!(after.0, Some(0), "{name} {to}");
            let (before, after) = (before.1.last().unwrap(), after.1.last().unwrap());
            for key in ["events=", "lost=", "unsorted=", "ptr=", "cpus=", "start=", "duration_ms="]
            {
                assert_eq!(word(before, key), word(after, key), "{name} {to} {key}");
            }
        });
    }
}
