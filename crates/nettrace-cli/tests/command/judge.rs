//! Compares this command with the reference reader on the same streams, event by event.
#![allow(clippy::disallowed_methods, reason = "several threads start the reference reader")]

use std::{num::NonZero, path::Path, process::Command, thread};

use testkit::{
    agreed::Agreed,
    effort::left_out,
    reference::judge,
    streams::{random, samples, unusual, v5_random, v5_samples},
};

use crate::{
    program::{self, nettrace},
    reference::{assert_same_output, our_totals, views},
};

/// Which comparisons of hundreds of streams came out well before. Streams by hand are always
/// compared.
const AGREED: &str = "tests/command/reference/judge.agreed";

/// Compares the headers, values and totals of one stream.
fn compare(dir: &Path, name: &str, bytes: &[u8], agreed: Option<&Agreed>) {
    let file = dir.join(name);
    std::fs::write(&file, bytes).unwrap();
    let views = views(bytes);
    for (args, reference) in [(&["headers"][..], "headers"), (&["dump", "--json"], "events")] {
        let ours = nettrace(&[args, &["--reference", file.to_str().unwrap()]].concat(), b"");
        let code = ours.status.code();
        let ours = (program::stdout(&ours), program::summary(&ours));
        let ask = || {
            let Some(judge) = judge() else { return false };
            let theirs = Command::new(judge).arg(reference).arg(&file).output().unwrap();
            // The reference says nothing of a second trace behind the first.
            let expected = if name == "twice" { Some(1) } else { theirs.status.code() };
            assert_eq!(code, expected, "{name} {reference}");
            let theirs = String::from_utf8(theirs.stdout).unwrap();
            assert_same_output(name, reference, ours, &theirs, &views);
            true
        };
        let Some(agreed) = agreed else {
            ask();
            continue;
        };
        // The totals without the time that it took.
        let rest = format!("{code:?} {:?} {views:?}", our_totals(ours.1));
        let parts = [reference.as_bytes(), ours.0.as_bytes(), rest.as_bytes(), bytes];
        agreed.or_ask(&parts, ask);
    }
}

#[test]
fn samples_by_hand() {
    if left_out() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let early = ("early", samples::early());
    for (name, bytes) in samples::all().into_iter().chain(v5_samples::all()).chain([early]) {
        compare(dir.path(), name, &bytes, None);
    }
}

#[test]
fn streams_of_chance() {
    let agreed = Agreed::open(AGREED);
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..12 {
        let made = random::make(seed, 10 + seed * 8);
        compare(dir.path(), &format!("seed-{seed}"), &made.bytes, Some(&agreed));
        let made = v5_random::make(seed, 10 + seed * 8);
        compare(dir.path(), &format!("v5-seed-{seed}"), &made.bytes, Some(&agreed));
    }
}

/// Legal streams that nobody writes, except those that the reference misreads.
#[test]
fn odd_streams() {
    let agreed = Agreed::open(AGREED);
    let dir = tempfile::tempdir().unwrap();
    // If a payload ends within a field, the reference shows the bytes after it, or an exception.
    let misread = ["type-short", "v5-short-payload"];
    let streams: Vec<_> =
        unusual::all().into_iter().filter(|(name, _)| !misread.contains(&&**name)).collect();
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let share = streams.len().div_ceil(processors);
    let compare = |streams: &[(String, Vec<u8>)]| {
        for (name, bytes) in streams {
            compare(dir.path(), name, bytes, Some(&agreed));
        }
    };
    thread::scope(|scope| {
        for streams in streams.chunks(share) {
            scope.spawn(|| compare(streams));
        }
    });
}
