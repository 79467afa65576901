//! The same streams through this command and through the reference reader, line by line.

mod program;
#[path = "../../nettrace-reader/tests/support/mod.rs"]
mod support;

use std::{path::Path, process::Command};

use program::judge;
use support::{random, samples, v5_random, v5_samples};

fn lines(program: &Path, args: &[&str], file: &Path) -> (Option<i32>, Vec<String>) {
    let output = Command::new(program).args(args).arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| line.split(" read_ms=").next().unwrap().to_owned());
    (output.status.code(), lines.collect())
}

/// Compares headers and values of one stream.
fn compare(judge: &Path, dir: &Path, name: &str, bytes: &[u8]) {
    let ours = Path::new(env!("CARGO_BIN_EXE_nettrace"));
    let file = dir.join(name);
    std::fs::write(&file, bytes).unwrap();
    for (args, reference) in [(&["headers"][..], "headers"), (&["dump", "--json"], "events")] {
        let (our_code, our_lines) = lines(ours, args, &file);
        let (code, expected) = lines(judge, &[reference], &file);
        for (line, expected) in our_lines.iter().zip(&expected) {
            assert_eq!(line, expected, "{name} {reference}");
        }
        assert_eq!(our_lines.len(), expected.len(), "{name} {reference}");
        assert_eq!(our_code, code, "{name} {reference}");
    }
}

#[test]
fn samples_by_hand() {
    let Some(judge) = judge() else { return };
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in samples::all().into_iter().chain(v5_samples::all()) {
        if name == "text" {
            continue; // below
        }
        compare(&judge, dir.path(), name, &bytes);
    }
}

/// Of the text that is no Unicode the reference escapes its replacement characters; the rest is the same.
#[test]
fn text() {
    let Some(judge) = judge() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text");
    std::fs::write(&file, samples::text()).unwrap();
    let ours = lines(Path::new(env!("CARGO_BIN_EXE_nettrace")), &["dump", "--json"], &file).1;
    let mut expected = lines(&judge, &["events"], &file).1;
    assert!(expected[1].contains("\\uFFFD"));
    expected[1] = expected[1].replace("\\uFFFD", "\u{FFFD}");
    assert_eq!(ours, expected);
}

#[test]
fn streams_of_chance() {
    let Some(judge) = judge() else { return };
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..12 {
        let made = random::make(seed, 10 + seed * 8);
        compare(&judge, dir.path(), &format!("seed-{seed}"), &made.bytes);
        let made = v5_random::make(seed, 10 + seed * 8);
        compare(&judge, dir.path(), &format!("v5-seed-{seed}"), &made.bytes);
    }
}
