//! Compares this command with the reference reader on the same streams, event by event.
#![allow(clippy::disallowed_methods, reason = "several threads start the reference reader")]

mod program;
mod reference;

use std::{num::NonZero, path::Path, process::Command, thread};

use program::nettrace;
use reference::{assert_same_output, views};
use testkit::{
    reference::judge,
    streams::{odd, random, samples, v5_random, v5_samples},
};

/// Compares the headers, values and totals of one stream.
fn compare(judge: &Path, dir: &Path, name: &str, bytes: &[u8]) {
    let file = dir.join(name);
    std::fs::write(&file, bytes).unwrap();
    let views = views(bytes);
    for (args, reference) in [(&["headers"][..], "headers"), (&["dump", "--json"], "events")] {
        let ours = nettrace(&[args, &["--reference", file.to_str().unwrap()]].concat(), b"");
        let theirs = Command::new(judge).arg(reference).arg(&file).output().unwrap();
        assert_eq!(ours.status.code(), theirs.status.code(), "{name} {reference}");
        let theirs = String::from_utf8(theirs.stdout).unwrap();
        let ours = (program::stdout(&ours), program::summary(&ours));
        assert_same_output(name, reference, ours, &theirs, &views);
    }
}

#[test]
fn samples_by_hand() {
    let Some(judge) = judge() else { return };
    let dir = tempfile::tempdir().unwrap();
    let early = ("early", samples::early());
    for (name, bytes) in samples::all().into_iter().chain(v5_samples::all()).chain([early]) {
        compare(&judge, dir.path(), name, &bytes);
    }
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

/// Legal streams that nobody writes, except those that the reference misreads.
#[test]
fn odd_streams() {
    let Some(judge) = judge() else { return };
    let dir = tempfile::tempdir().unwrap();
    // If a payload ends within a field, the reference shows the bytes after it, or an exception.
    let misread = ["type-short", "v5-short-payload"];
    let streams: Vec<_> =
        odd::all().into_iter().filter(|(name, _)| !misread.contains(&&**name)).collect();
    // The reference reader takes longer to start than to read, some 400 times.
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let share = streams.len().div_ceil(processors);
    let compare = |streams: &[(String, Vec<u8>)]| {
        for (name, bytes) in streams {
            compare(&judge, dir.path(), name, bytes);
        }
    };
    thread::scope(|scope| {
        for streams in streams.chunks(share) {
            scope.spawn(|| compare(streams));
        }
    });
}
