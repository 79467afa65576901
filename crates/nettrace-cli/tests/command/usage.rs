//! Runs the command as a user does: on files and pipes. Checks exit codes and output.

use std::{
    io::Read,
    process::{Command, Output, Stdio},
};

use testkit::{
    effort::left_out,
    streams::{
        EventType, Row, Stream, hostile, samples, utf16z,
        v5::{self, Objects},
        v5_samples,
    },
};

use crate::{
    escapes::assert_printable,
    program::{nettrace, stderr, stdout},
};

#[test]
fn a_file_and_a_pipe_give_the_same() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in samples::all().into_iter().chain(v5_samples::all()) {
        let path = dir.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        for args in [
            &["headers"][..],
            &["dump"],
            &["dump", "--json"],
            &["info"],
            &["info", "--json"],
            &["verify"],
            &["verify", "--json"],
        ] {
            let from_file = nettrace(&[args, &[path.to_str().unwrap()]].concat(), b"");
            let from_pipe = nettrace(&[args, &["-"]].concat(), &bytes);
            assert_eq!(from_file.status.code(), Some(0), "{name} {args:?}");
            assert_eq!(stdout(&from_file), stdout(&from_pipe), "{name} {args:?}");
            let without_time = |output: &Output| {
                let text = stderr(output).to_owned();
                text.split(" read_ms=").next().unwrap().to_owned()
            };
            assert_eq!(without_time(&from_file), without_time(&from_pipe), "{name} {args:?}");
            // A stream may have no events.
            assert!(!from_file.stdout.is_empty() || stderr(&from_file).contains("# events=0 "));
        }
    }
}

/// A message may name a field as often as it likes, and a field may have many elements of no bytes.
/// What is shown of an event is bounded by its bytes, and says what it lacks.
#[test]
fn few_bytes_are_not_shown_as_many() {
    let template = "{f}".repeat(10_000);
    let empty = [19, 1, 0, 0];
    let ty = EventType::new(1, "P", 1, "E").optional_text(4, &[&template]);
    let ty = ty.field("f", &[18]).field("empty", &empty).field("last", &[6]);
    let text = "x".repeat(20_000);
    let payload = [&*utf16z(&text), &[0xFF, 0xFF, 7]].concat();
    let mut stream = Stream::new();
    stream.thread(5).metadata(&ty).label_lists(1, &[&[[&[4][..], &[9; 8]].concat()]]);
    let start = EventType::new(2, "P", 2, "SpanStart").optional(&[1, 1]);
    let rows = [
        Row::new(5, 1, 1001).metadata(2).labels(1),
        Row::new(5, 2, 1002).metadata(1).labels(1).payload(&payload),
    ];
    let bytes = stream.metadata(&start).events(&rows).end();
    for args in [
        &["dump", "-"][..],
        &["dump", "--json", "-"],
        &["tree", "--full", "-"],
        &["tree", "--json", "-"],
        &["report", "-", "-o", "-"],
        &["convert", "-", "-", "--to", "jsonl"],
        &["convert", "-", "-", "--to", "csv"],
        &["convert", "-", "-", "--to", "chrome"],
        &["convert", "-", "-", "--to", "firefox"],
    ] {
        let output = nettrace(args, &bytes);
        assert_eq!(output.status.code(), Some(0), "{args:?} {}", stderr(&output));
        assert!(output.stdout.len() < 2_000_000, "{args:?} {}", output.stdout.len());
        let text = stdout(&output);
        if matches!(args[0], "dump" | "tree") {
            assert!(text.contains("… (cut)"), "{args:?}");
            assert!(text.contains("… and 65519 more elements of no bytes"), "{args:?}");
            assert!(text.contains("last=7") || text.contains("\"last\":7"), "{args:?}");
        }
    }
}

/// A type that is nested too deep, and one whose description is damaged: each event says it, the
/// summary counts it, and `verify` names it. What is readable is shown, also that behind.
#[test]
fn types_that_are_not_read_are_told() {
    let deep = [&[19; 60][..], &[6]].concat();
    let ty = EventType::new(1, "P", 1, "Deep").field("a", &[6]).field("b", &deep);
    let payload = [&[7, 1][..], &[0; 3]].concat();
    let mut stream = Stream::new();
    stream.thread(5).metadata(&ty.field("c", &[6]));
    let bytes = stream.events(&[Row::new(5, 1, 1001).payload(&payload)]).end();
    let dumped = nettrace(&["dump", "-"], &bytes);
    assert_eq!(dumped.status.code(), Some(0));
    assert!(stdout(&dumped).contains(" a=7 "), "{}", stdout(&dumped));
    assert!(stdout(&dumped).contains("more than 48 levels deep"), "{}", stdout(&dumped));
    assert!(stderr(&dumped).contains(" payload_errors=1 "), "{}", stderr(&dumped));
    let json = nettrace(&["dump", "--json", "-"], &bytes);
    assert!(stdout(&json).contains("\"fields_error\":"), "{}", stdout(&json));
    let info = nettrace(&["info", "-"], &bytes);
    assert!(stdout(&info).contains("\ndeep types          1; "), "{}", stdout(&info));
    let (decoded, described) = ("events' fields", "descriptions of event types' fields");
    for (what, to) in [
        (decoded, &["chrome", "perfetto", "csv", "jsonl"]),
        (described, &["v6", "v5", "v4", "heph"]),
    ] {
        for to in to {
            let said = nettrace(&["convert", "-", "-", "--to", to], &bytes);
            let line = format!("could not be converted: 1 {what} that cannot be decoded");
            assert!(stderr(&said).contains(&line), "{to}: {}", stderr(&said));
            assert_eq!(said.status.code(), Some(3), "{to}");
        }
    }
    let verified = nettrace(&["verify", "-"], &bytes);
    // The format has no such limit.
    assert_eq!(verified.status.code(), Some(0));
    assert!(stdout(&verified).contains("48 levels"), "{}", stdout(&verified));

    let damaged = EventType::new(1, "P", 1, "Damaged").field("a", &[6]).field("b", &[24, 18]);
    let mut stream = Stream::new();
    stream.thread(5).metadata(&damaged).metadata(&EventType::new(2, "P", 2, "Behind"));
    let rows = [Row::new(5, 1, 1001).payload(&[7, 0]), Row::new(5, 2, 1002).metadata(2)];
    let bytes = stream.events(&rows).end();
    let dumped = nettrace(&["dump", "-"], &bytes);
    assert_eq!(dumped.status.code(), Some(1));
    assert!(stdout(&dumped).contains("P/Damaged a=7 "), "{}", stdout(&dumped));
    assert!(stdout(&dumped).contains("P/Behind"), "{}", stdout(&dumped));
    assert!(stderr(&dumped).contains("description of an event type is damaged"));
    let info = nettrace(&["info", "-"], &bytes);
    assert!(stdout(&info).contains("\ndamaged types       1; "), "{}", stdout(&info));
    let verified = nettrace(&["verify", "-"], &bytes);
    assert_eq!(verified.status.code(), Some(1));
    assert!(stdout(&verified).contains("in a block of kind Metadata"), "{}", stdout(&verified));
    for to in ["v6", "v5", "v4", "heph", "chrome", "csv"] {
        let output = nettrace(&["convert", "-", "-", "--to", to], &bytes);
        assert_eq!(output.status.code(), Some(1), "{to}");
        assert!(stderr(&output).contains("# events=2 "), "{to} {}", stderr(&output));
        assert!(!output.stdout.is_empty(), "{to}");
    }
}

#[test]
fn versions_4_and_5() {
    let info = |bytes: &[u8]| stdout(&nettrace(&["info", "-"], bytes)).to_owned();
    let text = info(&v5_samples::losses());
    for line in [
        "format                  NetTrace V4",
        "ProcessId               77",
        "lost events             220",
        "           3             16  process 77 tid 5",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let text = info(&v5_samples::tags());
    assert!(text.starts_with("format                  NetTrace V5\n"), "{text}");
    let output = nettrace(&["dump", "-"], &v5_samples::activities());
    let line = stdout(&output).lines().nth(1).unwrap();
    let expected = "2026-03-04T05:06:07.089020000Z   0.000020000 s INFO  [5] \
        Test/WorkStart [04030201-0605-0807-090a-0b0c0d0e0f10]";
    assert!(line.starts_with(expected), "{line}");
    // Events without a description are shown by provider and id.
    let output = nettrace(&["dump", "-"], &v5_samples::scalars());
    let line = stdout(&output).lines().nth(2).unwrap();
    assert!(line.ends_with(" 0.000030000 s INFO  [5] Test/EventID(3)"), "{line}");
    let old =
        [b"\x14\0\0\0!FastSerialization.1\x05\x05\x01\x03\0\0\0".as_slice(), &[0; 90]].concat();
    let output = nettrace(&["headers", "-"], &old);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("NetTrace version 3 "), "{}", stderr(&output));
}

#[test]
fn info_names_what_was_lost() {
    let output = nettrace(&["info", "-"], &samples::losses());
    let text = stdout(&output);
    for line in [
        "events              11",
        "lost events         4294967400",
        "started             2026-03-04T05:06:07.0890000Z",
        "          11              0    0.0%  Test/E1 (id 1)",
        "           1            110  process 77 tid 1006 \"worker 6\"",
        "           0              0  process 77 tid 1007 \"worker 7\"",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

/// A long name moves all values, up to a limit.
#[test]
fn the_values_of_info_stand_below_each_other() {
    let long = "n".repeat(40);
    for (key, column) in [("k", 17), ("HardwareThreadCount", 20), (&long, 33)] {
        let trace = Stream::with_keys(&[("ProcessId", "77"), (key, "value")]).end();
        let output = nettrace(&["info", "-"], &trace);
        let text = stdout(&output);
        for (name, value) in [("format", "NetTrace"), ("ProcessId", "77"), ("sequence points", "0")]
        {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            assert_eq!(line.find(value), Some(column), "{text}");
        }
        assert!(text.contains(&format!("\n{key:<width$} value\n", width = column - 1)), "{text}");
    }
}

/// Streams of versions 4 and 5 with one mistake after three events.
#[test]
fn damage_is_said_behind_what_was_readable() {
    let mut stream = Objects::new();
    stream.metadata(&[v5::simple_type(1)]);
    stream.events(&[Row::new(5, 1, 2000), Row::new(5, 2, 2001), Row::new(5, 3, 2002)]);
    let sound = stream.bytes;
    let begun = |name| Objects { bytes: sound.clone() }.start(name, 2, 2).bytes.clone();
    let block = |size: i32, body: &[u8]| {
        let mut bytes = begun(v5::STACKS);
        bytes.extend(size.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(body);
        bytes
    };
    let cases = [
        ("ends without its end-of-stream block", sound.clone()),
        ("ends in the middle of a block, 3 bytes short", block(100, &[0; 97])),
        ("a block has a negative size", block(-1, &[0; 97])),
        ("one block would take more than 67108864 bytes", block(i32::MAX, &[0; 97])),
        ("an object does not end behind its content", block(8, &[0; 9])),
        ("an object is of the unknown type \"Novelty\"", [begun("Novelty"), vec![0]].concat()),
        ("neither an object nor the end of the stream", [sound.clone(), vec![9]].concat()),
    ];
    for (says, bytes) in cases {
        for (args, last) in [
            (&["headers"][..], "Test\t1\t"),
            (&["dump"], "2026-03-04T05:06:07."),
            (&["dump", "--json"], "{"),
            (&["info"], "The trace is damaged; this is what could be read."),
        ] {
            let output = nettrace(&[args, &["-"]].concat(), &bytes);
            assert_eq!(output.status.code(), Some(1), "{says} {args:?}");
            let errors = stderr(&output).lines().last().unwrap();
            let summary = stderr(&output).lines().any(|it| it.starts_with("# events=3 shown=3 "));
            assert_eq!(summary, args != ["info"], "{errors}");
            let (place, what) = errors.split_once(": ").unwrap().1.split_once(": ").unwrap();
            let offset: usize = place.strip_prefix("at byte ").unwrap().parse().unwrap();
            assert!((sound.len()..=bytes.len()).contains(&offset), "{errors}");
            assert!(what.contains(says), "{errors}");
            let shown = stdout(&output);
            assert!(shown.lines().last().unwrap().starts_with(last), "{says} {args:?}\n{shown}");
            let events = shown.lines().filter(|line| line.contains("E1")).count();
            let expected = match args {
                ["info"] => 1,
                ["headers"] => 0,
                _ => 3,
            };
            assert_eq!(events, expected, "{says} {args:?}\n{shown}");
        }
        let output = nettrace(&["verify", "-"], &bytes);
        assert_eq!(output.status.code(), Some(1), "{says}");
        let report = stdout(&output);
        assert!(report.contains(": readable: ") && report.contains(says), "{report}");
        assert!(report.contains("# violations=1 events=3 "), "{report}");
    }
}

#[test]
fn exit_codes() {
    let whole = samples::order();
    let cut = &whole[..whole.len() - 4];
    for args in [&["headers", "-"][..], &["dump", "-"], &["dump", "--json", "-"], &["info", "-"]] {
        let output = nettrace(args, cut);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains("ends without its end-of-stream block"), "{args:?}");
        // Everything before the damage was shown.
        assert!(stdout(&output).lines().count() > 12, "{args:?}");
        assert_eq!(nettrace(args, b"no trace").status.code(), Some(1), "{args:?}");
    }
    let output = nettrace(&["verify", "-"], cut);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains(": readable: "));
    assert!(stdout(&output).contains("# violations=1 events=17 lost=0"));
    for args in [&["headers", "/no/such/file"][..], &["verify", "/"], &["dance", "-"], &[]] {
        let output = nettrace(args, b"");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
    assert!(stdout(&nettrace(&["--help"], b"")).contains("Exit codes:"));
}

#[test]
fn folders_in_a_folder_are_not_its_traces() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| {
        let folder = dir.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("a.nettrace"), samples::order()).unwrap();
        folder.to_str().unwrap().to_owned()
    };
    let folders = [of("shop"), of("stock")];
    let outer = dir.path().to_str().unwrap();
    let output = nettrace(&["tree", outer], b"");
    assert_eq!(output.status.code(), Some(2));
    let pattern = dir.path().join("*");
    let pattern = pattern.to_str().unwrap();
    let says = format!("no file in it is a trace; for the folders in it, name '{pattern}'");
    assert!(stderr(&output).contains(&says), "{}", stderr(&output));
    let output = nettrace(&["info", pattern], b"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // A report of several is called by the first one that was named.
    let args = ["report", "--text", &folders[0], &folders[1]];
    let report = nettrace(&args, b"");
    assert!(stdout(&report).starts_with("shop and 1 more, "), "{}", stdout(&report));
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_tables_says_so() {
    let trace = samples::order();
    let output = nettrace(&["convert", "-", "out", "--to", "parquet"], &trace);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--features parquet"), "{}", stderr(&output));
    let output = nettrace(&["convert", "-", "out.parquet"], &trace);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("lacks the feature `parquet`"), "{}", stderr(&output));
}

#[test]
fn a_message_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.nettrace");
    let file = path.to_str().unwrap();
    let whole = samples::order();
    let says = |args: &[&str], bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let output = nettrace(args, bytes);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}");
        stderr(&output).lines().last().unwrap().to_owned()
    };
    for (args, bytes, text) in [
        (&["info"][..], &b""[..], "at byte 0: the stream is empty"),
        (&["dump"], b"no trace", "at byte 0: this is no NetTrace stream"),
        (&["headers"], &whole[..whole.len() - 1], "short; what stands before was delivered"),
        (&["verify"], b"", "the trace breaks 1 rule of the format"),
    ] {
        let said = says(&[args, &[file]].concat(), bytes);
        assert!(said.starts_with(&format!("nettrace: {file}: ")) && said.contains(text), "{said}");
        let said = says(&[args, &["-"]].concat(), bytes);
        let rest = said.strip_prefix("nettrace: ").unwrap();
        assert!(!said.contains(file) && !rest.starts_with('-') && said.contains(text), "{said}");
    }
    // A message that names a file itself names no second one.
    let absent = dir.path().join("absent");
    let said = says(&["info", absent.to_str().unwrap()], b"");
    assert_eq!(said.matches("absent").count(), 1, "{said}");
    let out = dir.path().join("no").join("out");
    let said = says(&["convert", file, out.to_str().unwrap(), "--to", "v5"], &whole);
    assert!(said.contains("cannot write ") && !said.contains("cut.nettrace"), "{said}");
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    let rows: Vec<_> = (1..50_000).map(|i| Row::new(5, i, 1000 + u64::from(i))).collect();
    stream.events(&rows);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.nettrace");
    std::fs::write(&path, stream.end()).unwrap();
    for command in [&["headers"][..], &["dump"], &["dump", "--json"], &["completions", "bash"]] {
        let file = path.to_str().unwrap();
        let file: &[&str] = if command[0] == "completions" { &[] } else { &[file] };
        let mut child = Command::new(env!("CARGO_BIN_EXE_nettrace"))
            .args(command)
            .args(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{command:?}");
        assert_eq!(said, "", "{command:?}");
    }
}

/// What is lost must not look like success.
#[test]
#[cfg(target_os = "linux")]
fn a_full_device_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.nettrace");
    std::fs::write(&path, samples::order()).unwrap();
    let file = path.to_str().unwrap();
    for args in [
        &["help"][..],
        &["--help"],
        &["--version"],
        &["dump", "--help"],
        &["completions", "bash"],
        &["info", file],
        &["dump", file],
        &["dump", "--json", file],
        &["headers", file],
        &["verify", file],
        &["convert", file, "-", "--to", "v6"],
        &["convert", file, "-", "--to", "perfetto"],
        &["report", file, "-o", "-"],
    ] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nettrace"));
        let output = command.args(args).stdout(full).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?} {said}");
        assert!(said.contains("nettrace: cannot write "), "{args:?} {said}");
    }
}

#[test]
fn a_file_that_is_no_trace_is_called_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes, what) in [
        ("a.nettrace.gz", &b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], "compressed by gzip; unpack it"),
        ("a.zst", b"\x28\xb5\x2f\xfd\x04\x50", "compressed by zstd; unpack it"),
        ("a.trace.zip", b"PK\x03\x04\x14\0\0\0\x08\0", "a ZIP archive; unpack it first: unzip"),
        ("a.etl", b"\0\0\x01\0\0\0\x01\0\0\0", "a trace of Windows (.etl); PerfView"),
        ("a.speedscope.json", b"{\"a\":1}", "JSON, perhaps what a conversion has made; give"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        for command in ["info", "dump", "tree", "headers", "verify"] {
            let output = nettrace(&[command, path.to_str().unwrap()], b"");
            assert_eq!(output.status.code(), Some(1), "{command} {name}");
            let said = stderr(&output);
            let start = format!("nettrace: {}: this is no trace, but {what}", path.display());
            assert!(said.starts_with(&start), "{said}");
        }
    }
    let said = nettrace(&["info", "-"], b"\x1f\x8b");
    assert!(stderr(&said).starts_with("nettrace: this is no trace, but compressed by gzip"));
}

#[test]
fn completions() {
    for shell in ["bash", "zsh", "fish"] {
        let output = nettrace(&["completions", shell], b"");
        assert_eq!(output.status.code(), Some(0));
        for word in ["headers", "tree", "slow"] {
            assert!(stdout(&output).contains(word), "{shell} {word}");
        }
    }
}

#[test]
fn limits_are_obeyed() {
    let mut stream = Stream::new();
    stream.thread(5).thread(6).simple_metadata(1);
    for i in 0..40 {
        stream.events(&[Row::new(5, i + 1, 1000 + u64::from(i)).payload(&[0; 60_000])]);
    }
    let bytes = stream.end();
    let output = nettrace(&["headers", "-", "--sort-limit", "1"], &bytes);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("1048576 bytes"), "{}", stderr(&output));
    assert_eq!(nettrace(&["headers", "-"], &bytes).status.code(), Some(0));
}

/// Every command and format that prints text, on traces of each kind whose names, texts, templates,
/// labels, units and key-values are hostile. Its list is complete: another command fails here.
#[test]
fn names_of_a_trace_cannot_steer_a_terminal() {
    if left_out() {
        return;
    }
    let trace = hostile::trace();
    let mut sources = vec![("v6", trace.clone()), ("cut", trace[..trace.len() * 3 / 4].to_vec())];
    for to in ["v5", "v4", "heph"] {
        sources.push((to, nettrace(&["convert", "-", "-", "--to", to], &trace).stdout));
    }
    let show = "capture-thread,number,sorted,stack,description,payload";
    let mut commands = vec![
        vec!["info", "-"],
        vec!["info", "-", "--json"],
        vec!["info", "-", "--threads"],
        vec!["dump", "-"],
        vec!["dump", "-", "--json"],
        vec!["dump", "-", "--show", show],
        vec!["dump", "-", "--show", show, "--json"],
        vec!["dump", "-", "--event", "none"],
        vec!["dump", "-", "--provider", "none"],
        vec!["dump", "-", "--where", "none=1"],
        vec!["tree", "-"],
        vec!["tree", "-", "--json"],
        vec!["headers", "-"],
        vec!["verify", "-"],
        vec!["verify", "-", "--json"],
        vec!["verify", "-", "--reference"],
        vec!["report", "-", "-o", "-"],
        vec!["merge", "-", "-o", "none"],
        vec!["errors", "-"],
        vec!["schema", "-"],
        vec!["schema", "-", "--json"],
        vec!["schema", "-", "--md"],
        vec!["schema", "-", "--rust"],
        vec!["redact", "-", "-o", "none", "--fields", "none"],
    ];
    let texts = ["jsonl", "csv", "chrome", "speedscope", "firefox", "folded", "flamegraph"];
    commands.extend(texts.map(|to| vec!["convert", "-", "-", "--to", to]));
    commands.push(vec!["convert", "-", "-", "--to", "folded", "--by", "spans"]);
    commands.push(vec!["convert", "-", "-", "--to", "flamegraph", "--by", "spans"]);
    let (mut printed, folder) = (0, tempfile::tempdir().unwrap());
    for (name, source) in &sources {
        for args in &commands {
            // `headers` has columns, and pages and pictures have scripts.
            let own = if args[0] == "headers" || args.contains(&"report") { "\t" } else { "" };
            let output = nettrace(args, source);
            assert_printable(&output, own, &format!("{name} {args:?}"));
            // No event of the trace is an error.
            let shows = !args.iter().any(|arg| arg.starts_with("none") || *arg == "errors");
            let shows = shows && *name == "v6";
            assert!(!shows || !output.stdout.is_empty(), "{args:?} {}", stderr(&output));
            printed += output.stdout.len();
        }
        // What is no text says something on standard error.
        for to in ["perfetto", "pprof", "v6", "v5", "v4", "heph"] {
            let mut output = nettrace(&["convert", "-", "-", "--to", to], source);
            output.stdout.clear();
            assert_printable(&output, "", &format!("{name} {to}"));
        }
        // What compares two traces reads neither from standard input.
        let file = folder.path().join(format!("{name}.nettrace"));
        std::fs::write(&file, source).unwrap();
        let file = file.to_str().unwrap();
        assert_printable(&nettrace(&["diff", file, file], b""), "", name);
        let tables = folder.path().join(name);
        let args = ["convert", "-", tables.to_str().unwrap(), "--to", "parquet"];
        assert_printable(&nettrace(&args, source), "", name);
    }
    assert!(printed > 10_000_000, "{printed}");
    // Those that read no trace are tried on live processes, on recorder files, and in a browser.
    let elsewhere = [
        "ps",
        "collect",
        "tail",
        "select",
        "counters",
        "top",
        "view",
        "completions",
        "help",
        "convert",
        "diff",
        "recover",
    ];
    let help = nettrace(&["help"], b"");
    let list = stdout(&help).split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let all = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for command in all.filter(|command| !command.is_empty() && !elsewhere.contains(command)) {
        assert!(commands.iter().any(|args| args[0] == command), "{command} is not tried");
    }
}

/// A spreadsheet takes no text of a trace for a formula. Numbers stay numbers.
#[test]
fn csv_has_no_formulas() {
    let output = nettrace(&["convert", "-", "-", "--to", "csv"], &hostile::trace());
    let rows = testkit::csv::rows(stdout(&output));
    let mut guarded = 0;
    for cell in rows.iter().flatten() {
        let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
        assert!(!is_formula || cell.parse::<f64>().is_ok(), "{cell:?}");
        guarded += usize::from(cell.starts_with('\''));
    }
    assert!(guarded > 10, "{guarded}");
    assert_eq!(stdout(&output).lines().count(), rows.len());
}
