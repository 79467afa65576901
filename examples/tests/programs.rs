//! Runs the examples as a user does. Checks what they print and what they refuse, and that all
//! readers open their traces and show the same events.

mod support;

use std::{collections::BTreeMap, fs, path::Path};

use testkit::effort::left_out;

use crate::support::{
    ALL_TYPES, DIRSCAN, KILLME, STREAM, STRESS, assert_holds, assert_same_events, directory,
    dotnet_trace_opens, judged, own_events, run,
};

/// The SHA-256 of `abc`, from the standard FIPS 180-4.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn dirscan_records_each_file_directory_and_error() {
    let directory = directory();
    let tree = directory.path().join("träd");
    fs::create_dir_all(tree.join("inner/innermost")).unwrap();
    fs::write(tree.join("abc"), b"abc").unwrap();
    fs::write(tree.join("inner/🦀.txt"), vec![7; 600_000]).unwrap();
    fs::write(tree.join("inner/innermost/empty"), b"").unwrap();
    let trace = directory.path().join("scan.nettrace");
    let (root, mut roots) = (tree.to_str().unwrap(), vec![tree.to_str().unwrap()]);
    // It can be opened, but nobody can read its first page, not even root.
    let unreadable = "/proc/self/mem";
    let errors = u64::from(Path::new(unreadable).exists());
    if errors == 1 {
        roots.push(unreadable);
    }
    let ran = run(DIRSCAN, &roots, &trace).well().balanced();
    let numbers = ["files", "directories", "errors", "file_bytes", "dropped"];
    assert_eq!(numbers.map(|key| ran.number(key)), [3, 3, errors, 600_003, 0]);
    assert_eq!(ran.number("written"), 3 + 3 + errors + 2);
    assert!(ran.stdout.contains("Scanned 3 files"), "{}", ran.stdout);
    assert!(ran.stdout.contains("To see it:"), "{}", ran.stdout);
    assert!(ran.stderr.is_empty(), "no progress where there is no terminal: {}", ran.stderr);

    assert_holds(&trace, ran.number("written"), 0);
    assert_same_events(&trace, ran.number("written"));
    dotnet_trace_opens(&trace);
    let mut files = BTreeMap::new();
    for event in own_events(&trace) {
        let fields = &event["fields"];
        match event["metadata_name"].as_str().unwrap() {
            "File" => {
                let path = fields["path"].as_str().unwrap().strip_prefix(root).unwrap().to_owned();
                files.insert(path, fields.clone());
            }
            "Unreadable" => {
                assert_eq!(fields["path"], unreadable);
                assert_eq!(fields["code"], serde_json::json!([5]), "EIO: {fields}");
            }
            _ => {}
        }
    }
    assert_eq!(files["/abc"]["sha256"], ABC);
    assert_eq!(files["/abc"]["bytes"], 3);
    assert_eq!(files["/inner/🦀.txt"]["bytes"], 600_000);
    assert_eq!(files["/inner/innermost/empty"]["bytes"], 0);
    if let Some(verdict) = judged("events", &trace) {
        let labelled = verdict.lines.iter().filter(|event| event["labels"][0][0] == "root");
        assert_eq!(labelled.count() as u64, ran.number("written") - 2, "all but start and stop");
    }
}

#[cfg(unix)]
#[test]
fn dirscan_takes_names_that_are_not_unicode() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, process::Command};

    let directory = directory();
    let tree = directory.path().join(OsStr::from_bytes(b"b\xe4um"));
    let file = tree.join(OsStr::from_bytes(b"caf\xe9"));
    if fs::create_dir(&tree).and_then(|()| fs::write(&file, b"abc")).is_err() {
        println!("skipped: the file system takes Unicode names only");
        return;
    }
    std::os::unix::fs::symlink(&tree, tree.join("link")).unwrap();
    let trace = directory.path().join(OsStr::from_bytes(b"tr\xe4d.nettrace"));
    let output = Command::new(DIRSCAN).arg(&tree).arg("--out").arg(&trace).output().unwrap();
    let ran = support::ran(output).well().balanced();
    assert_eq!(["files", "skipped", "errors"].map(|key| ran.number(key)), [1, 1, 0]);
    let events = own_events(&trace);
    let file = events.iter().find(|event| event["metadata_name"] == "File").unwrap();
    let path = file["fields"]["path"].as_str().unwrap();
    assert!(path.ends_with("b\u{fffd}um/caf\u{fffd}"), "{path}");
}

#[test]
fn dirscan_leaves_its_own_trace_alone() {
    let directory = directory();
    let trace = directory.path().join("scan.nettrace");
    let ran = run(DIRSCAN, &[directory.path().to_str().unwrap()], &trace).well();
    if cfg!(unix) {
        assert_eq!(["files", "skipped"].map(|key| ran.number(key)), [0, 1]);
    }
    assert_holds(&trace, 3, 0);
}

#[test]
fn every_reader_shows_the_same_of_each_event() {
    if left_out() {
        return;
    }
    let directory = directory();
    let string =
        ["--threads", "2", "--seconds", "0.02", "--budget", "1048576", "--event", "string"];
    let short = ["--threads", "2", "--seconds", "0.02", "--churn"];
    let two = ["--threads", "2", "--seconds", "0.02", "--budget", "600000"];
    let slow = ["--seconds", "0.1"];
    let alive = ["--seconds", "0.1", "--rate", "20000"];
    for (name, program, args) in [
        ("string", STRESS, &string[..]),
        ("short", STRESS, &short[..]),
        ("two", STRESS, &two[..]),
        ("stream", STREAM, &slow[..]),
        ("killme", KILLME, &alive[..]),
    ] {
        let trace = directory.path().join(name);
        let ran = run(program, args, &trace);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let events = own_events(&trace).len() as u64;
        assert!(events > 0);
        assert_same_events(&trace, events);
        dotnet_trace_opens(&trace);
    }
}

#[test]
fn an_existing_file_is_replaced_only_on_demand() {
    let directory = directory();
    let trace = directory.path().join("kept");
    fs::write(&trace, "kept").unwrap();
    let here = env!("CARGO_MANIFEST_DIR");
    let scan = [here];
    let short = ["--seconds", "0.01"];
    for (program, args) in [
        (DIRSCAN, &scan[..]),
        (ALL_TYPES, &[][..]),
        (STRESS, &short[..]),
        (STREAM, &short[..]),
        (KILLME, &short[..]),
    ] {
        let ran = run(program, args, &trace);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("--overwrite replaces the file"), "{}", ran.stderr);
        assert_eq!(fs::read(&trace).unwrap(), b"kept");
    }
    let ran = run(ALL_TYPES, &["--overwrite"], &trace).well();
    assert_holds(&trace, ran.number("written"), 0);
}

#[test]
fn wrong_use_is_told() {
    let directory = directory();
    let trace = directory.path().join("none");
    for (program, args, code, words) in [
        (DIRSCAN, &["/no such directory"][..], 1, "cannot scan /no such directory"),
        (DIRSCAN, &[], 2, "<PATH>"),
        (STRESS, &["--threads", "0"], 1, "at least 1"),
        (STRESS, &["--seconds=-1"], 1, "no span of time"),
        (STRESS, &["--budget", "1000"], 1, "is too small"),
        (STREAM, &["--seconds", "nan"], 1, "no span of time"),
    ] {
        let ran = run(program, args, &trace);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
        assert!(!trace.exists());
    }
}
