//! Runs `nettrace convert` as a user does: output files, refusals, damaged input, exit codes.

use std::{fs, path::Path};

use nettrace_reader::Options;
use testkit::{
    effort::left_out,
    streams::{EventType, Row, Stream, samples, v5::Objects, v5_samples},
};

use crate::{
    convert_support::{self, convert, events, items, lost, read_on},
    program::{nettrace, stderr},
};

const FORMATS: [&str; 4] = ["v6", "v5", "v4", "heph"];

/// The arguments of one conversion.
fn task<'a>(from: &'a Path, out: &'a Path, to: &'a str) -> Vec<&'a str> {
    vec!["convert", from.to_str().unwrap(), out.to_str().unwrap(), "--to", to]
}

/// The names in a directory, including hidden ones.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn files_and_pipes_give_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (from, out) = (dir.path().join("from"), dir.path().join("out"));
    for bytes in [samples::flushes(), samples::arrays(), v5_samples::activities()] {
        fs::write(&from, &bytes).unwrap();
        for to in FORMATS {
            let (piped, said) = convert(&bytes, to);
            let output = nettrace(&task(&from, &out, to), b"");
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert_eq!(stderr(&output), said);
            assert!(output.stdout.is_empty());
            assert!(fs::read(&out).unwrap() == piped, "{to}");
            fs::remove_file(&out).unwrap();
        }
    }
    assert_eq!(names(dir.path()), ["from"]);
}

#[test]
fn what_exists_is_replaced_only_by_force() {
    let dir = tempfile::tempdir().unwrap();
    let (from, out) = (dir.path().join("from"), dir.path().join("out"));
    fs::write(&from, samples::order()).unwrap();
    fs::write(&out, b"precious").unwrap();
    let refused = nettrace(&task(&from, &out, "v6"), b"");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("it exists; --force replaces it"), "{}", stderr(&refused));
    assert_eq!(fs::read(&out).unwrap(), b"precious");

    let forced = [&task(&from, &out, "v6")[..], &["--force"]].concat();
    assert_eq!(nettrace(&forced, b"").status.code(), Some(0));
    assert_eq!(items(&fs::read(&out).unwrap()), items(&samples::order()));

    // The result can replace its source.
    let in_place = [&task(&from, &from, "v5")[..], &["--force"]].concat();
    assert_eq!(nettrace(&in_place, b"").status.code(), Some(0));
    assert!(fs::read(&from).unwrap() == convert(&samples::order(), "v5").0);

    // If the source is no trace, the existing file stays.
    fs::write(&from, b"no trace").unwrap();
    let before = fs::read(&out).unwrap();
    let failed = nettrace(&forced, b"");
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
    assert!(fs::read(&out).unwrap() == before);
    assert_eq!(names(dir.path()), ["from", "out"]);
}

#[cfg(unix)]
#[test]
fn a_new_file_is_private_and_no_link_is_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let dir = tempfile::tempdir().unwrap();
    let (from, out) = (dir.path().join("from"), dir.path().join("out"));
    fs::write(&from, samples::order()).unwrap();
    assert_eq!(nettrace(&task(&from, &out, "v6"), b"").status.code(), Some(0));
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o600);

    let link = dir.path().join("link");
    symlink(dir.path().join("absent"), &link).unwrap();
    for force in [&[][..], &["--force"]] {
        let output = nettrace(&[&task(&from, &link, "v6")[..], force].concat(), b"");
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("it is a symbolic link"), "{}", stderr(&output));
        let output = nettrace(&[&task(&from, dir.path(), "v6")[..], force].concat(), b"");
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("it is a directory"), "{}", stderr(&output));
    }
    assert_eq!(names(dir.path()), ["from", "link", "out"]);
    // A device is written to, not replaced.
    let output = nettrace(&task(&from, Path::new("/dev/null"), "v6"), b"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn what_was_readable_is_in_a_complete_result() {
    if left_out() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (from, out) = (dir.path().join("from"), dir.path().join("out"));
    let mut cuts = 0;
    for bytes in [samples::flushes(), samples::losses(), v5_samples::order()] {
        let begun = (0..bytes.len()).find(|&end| Options::default().open(&bytes[..end]).is_ok());
        for end in (begun.unwrap()..bytes.len()).step_by(7) {
            let cut = &bytes[..end];
            let (readable, is_whole) = read_on(cut, Options::default());
            if is_whole {
                break; // what stands behind the end of stream does not matter
            }
            fs::write(&from, cut).unwrap();
            for to in FORMATS {
                let output = nettrace(&task(&from, &out, to), b"");
                assert_eq!(output.status.code(), Some(1), "{end} {to}");
                assert!(stderr(&output).contains(": at byte "), "{}", stderr(&output));
                let counted = format!("# events={readable} ");
                assert!(stderr(&output).contains(&counted), "{counted} {}", stderr(&output));
                let result = fs::read(&out).unwrap();
                if to != "heph" {
                    assert_eq!(
                        read_on(&result, Options::default()),
                        (readable, true),
                        "{end} {to}"
                    );
                }
                fs::remove_file(&out).unwrap();
                cuts += 1;
            }
        }
    }
    assert!(cuts > 100, "{cuts}");
    // If the middle is damaged, the result has what comes before.
    let mut bytes = samples::order();
    let at = bytes.len() - 40;
    bytes[at..].fill(0xFF);
    let (readable, _) = read_on(&bytes, Options::default());
    let output = nettrace(&["convert", "-", "-", "--to", "v6"], &bytes);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(read_on(&output.stdout, Options::default()), (readable, true));
    assert!(readable > 0);
}

/// For any bytes there is either an error or a readable result, and never a panic.
#[test]
fn damage_of_chance() {
    let mut random = testkit::streams::random::Random::new(7);
    let samples = samples::all().into_iter().chain(v5_samples::all()).collect::<Vec<_>>();
    let (mut whole, mut damaged) = (0, 0);
    for (round, to) in (0..160).zip(FORMATS.into_iter().cycle()) {
        let (name, bytes) = &samples[random.below(samples.len() as u64) as usize];
        let mut bytes = bytes.clone();
        for _ in 0..=random.below(4) {
            let at = 20 + random.below(bytes.len() as u64 - 20) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        let output = nettrace(&["convert", "-", "-", "--to", to], &bytes);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1 | 3)), "{round} {name} {to}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{name} {to}: {}", stderr(&output));
        (whole, damaged) =
            (whole + u32::from(code != Some(1)), damaged + u32::from(code == Some(1)));
        if to != "heph" && !output.stdout.is_empty() && !stderr(&output).contains("cannot be conv")
        {
            assert!(read_on(&output.stdout, Options::default()).1, "{round} {name} {to}");
        }
    }
    assert!(whole > 20 && damaged > 20, "{whole} {damaged}");
}

#[test]
fn what_no_byte_of_can_be_read_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (from, out) = (dir.path().join("from"), dir.path().join("out"));
    let old = b"\x14\0\0\0!FastSerialization.1\x05\x05\x01\x03\0\0\0".repeat(4);
    for (bytes, code, why) in [
        (&b"no trace"[..], 1, "this is no NetTrace stream"),
        (b"", 1, "the stream is empty"),
        (&old, 1, "NetTrace version 3 "),
    ] {
        fs::write(&from, bytes).unwrap();
        let output = nettrace(&task(&from, &out, "v6"), b"");
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{why}: {}", stderr(&output));
        assert_eq!(names(dir.path()), ["from"]);
    }
    let absent = dir.path().join("no").join("such");
    for (from, out) in [(&absent, &out), (&from, &absent)] {
        fs::write(dir.path().join("from"), samples::order()).unwrap();
        assert_eq!(nettrace(&task(from, out, "v6"), b"").status.code(), Some(2));
    }
    for args in [&["convert", "-", "-"][..], &["convert", "-", "-", "--to", "v7"], &["convert"]] {
        assert_eq!(nettrace(args, b"").status.code(), Some(2), "{args:?}");
    }
}

/// What a version cannot store is counted by kind.
#[test]
fn what_is_left_out_is_listed() {
    let said = |bytes: &[u8], to: &str| convert(bytes, to).1;
    let contains =
        |said: &str, line: &str| assert!(said.lines().any(|it| it == line), "{line}\n{said}");
    let mut stream = Stream::with_keys(&[("ProcessId", "1"), ("host", "h")]);
    let ty = EventType::new(1, "P", 1, "E").field("n", &[21]).field("list", &[19, 6]);
    stream.metadata(&ty.optional_text(4, &["{n}"]));
    // The place of a type is nothing to tell: no session of the other formats says it either.
    let far = EventType::new(2, "P", 70_000, "Far").optional_text(6, &["module", "shop::cart"]);
    stream.metadata(&far.optional_text(6, &["file", "c.rs"]).optional_text(6, &["line", "7"]));
    stream.thread(5).thread_row(&[9, 2, 1, 4, 1, b'k', 1, b'v']);
    stream.label_lists(1, &[&[[&[5, 1, b'k'][..], &[1, b'v']].concat(), vec![7, 3]]]);
    stream.events(&[Row::new(5, 1, 1000).payload(&[7, 1, 0, 9]).labels(1)]);
    // A payload that is shorter than its fields, and one that would become too long.
    stream.events(&[Row::new(5, 2, 1001).payload(&[7])]);
    let long = [&[7, 0xF0, 0xFF][..], &[200; 0xFFF0]].concat();
    stream.events(&[Row::new(9, 4, 1002).payload(&long)]);
    let bytes = stream.end();
    let v5 = said(&bytes, "v5");
    for line in [
        "1 events whose payload would be too large",
        "1 events whose payload does not fit their type",
    ] {
        contains(&v5, &format!("could not be converted: {line}"));
    }
    for line in [
        "2 labels of events",
        "1 names of threads",
        "1 key-values of threads",
        "1 processes of threads",
        "1 key-values of the trace",
        "1 event types' texts, key-values, opcodes or GUIDs",
    ] {
        contains(&v5, &format!("left out, because NetTrace V5 cannot express it: {line}"));
    }
    assert!(v5.contains("# events=3 lost=3 left_out=9 "), "{v5}");
    let heph = said(&bytes, "heph");
    assert!(!heph.contains("names of threads"), "{heph}");
    assert!(heph.contains("# events=3 lost=3 "), "{heph}");
    assert!(said(&bytes, "v6").contains("# events=3 lost=3 left_out=0 "));
}

/// Blocks that are legal in the older versions, but not in version 6.
#[test]
fn large_blocks_are_cut() {
    let mut objects = Objects::new();
    objects.metadata(&[testkit::streams::v5::simple_type(1)]);
    let rows: Vec<_> =
        (1..=500).map(|i| Row::new(5, i, 1000 + u64::from(i)).payload(&[3; 60_000])).collect();
    objects.events(&rows);
    let bytes = objects.end();
    assert!(bytes.len() > 29_000_000);
    let show = |event: &nettrace_reader::Event<'_>, number| {
        format!("{number} {} {}", event.header.timestamp, event.payload.len())
    };
    for to in ["v6", "v5"] {
        let (converted, _) = convert(&bytes, to);
        assert_eq!(events(&bytes, show), events(&converted, show), "{to}");
        assert!(convert_support::is_sound(&converted), "{to}");
    }
}

/// Threads whose ids other threads have, had or will have.
#[test]
fn ids_of_threads_are_unique_in_the_older_versions() {
    let mut stream = Stream::new();
    stream.simple_metadata(1);
    let tid = |index: u8, tid: u8| vec![index, 3, tid];
    // Threads 5 and 6 have the same id at the same time. Thread 7 gets it when both have ended.
    // Threads 8 and 9 have no id.
    stream.thread_row(&tid(5, 100)).thread_row(&tid(6, 100));
    stream.events(&[Row::new(5, 1, 1000), Row::new(5, 2, 1001)]);
    stream.events(&[Row::new(6, 3, 1002), Row::new(6, 4, 1003)]);
    stream.sequence_point(1010, 0, &[(5, 2), (6, 4)]);
    stream.remove_thread(5, 4).remove_thread(6, 4);
    stream.thread_row(&tid(7, 100)).thread_row(&[8]).thread_row(&[9]);
    stream.events(&[Row::new(7, 1, 1020), Row::new(7, 3, 1021)]);
    stream.events(&[Row::new(8, 1, 1022)]);
    // All events of thread 9 are lost.
    stream.sequence_point(1030, 0, &[(7, 3), (8, 1), (9, 7)]);
    // All events of thread 10 are lost too. Then thread 11 gets its id.
    stream.thread_row(&tid(10, 50)).remove_thread(10, 6).thread_row(&tid(11, 50));
    stream.events(&[Row::new(11, 1, 1040), Row::new(11, 2, 1041)]);
    let bytes = stream.end();
    assert_eq!(lost(&bytes), 2 + 2 + 1 + 7 + 6);
    for to in ["v5", "v4"] {
        let (converted, said) = convert(&bytes, to);
        assert_eq!(lost(&converted), lost(&bytes), "{to}");
        assert!(convert_support::is_sound(&converted), "{to}");
        let threads = events(&converted, |event, _| event.header.capture_thread.to_string());
        assert_eq!(threads[0], "100");
        assert_ne!(threads[2], "100");
        assert_eq!(threads[4], "100");
        assert!(said.contains("1 ids of threads"), "{said}");
    }
    let (converted, _) = convert(&bytes, "heph");
    let mut reader = nettrace_reader::heph::Options::default().open(&*converted);
    while reader.next_event().unwrap().is_some() {}
    assert_eq!((reader.totals().events, reader.totals().lost), (9, lost(&bytes)));
}

/// If the numbers of a thread begin again, those in version 6 go on.
#[test]
fn an_id_that_another_thread_gets_is_no_loss() {
    let mut objects = Objects::new();
    objects.metadata(&[testkit::streams::v5::simple_type(1)]);
    objects.events(&[Row::new(5, 1, 1000), Row::new(5, 2, 1001)]);
    objects.events(&[Row::new(5, 1, 1002), Row::new(5, 3, 1003)]);
    objects.sequence_point(1010, &[(5, 4)]);
    let bytes = objects.end();
    assert_eq!(lost(&bytes), 2);
    let (converted, said) = convert(&bytes, "v6");
    assert_eq!(lost(&converted), 2);
    assert!(said.contains("1 threads' numbers"), "{said}");
    assert!(convert_support::is_sound(&bytes) && convert_support::is_sound(&converted));
    let (converted, _) = convert(&bytes, "v5");
    assert_eq!(lost(&converted), lost(&bytes));
}

/// A sequence point states a lower bound, which the reference reader takes for the last number. If
/// the bound is less than the last number, the result has the last number instead.
#[test]
fn a_sequence_point_behind_the_events_is_no_loss() {
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    stream.events(&[Row::new(5, 1, 1000), Row::new(5, 2, 1001), Row::new(5, 3, 1002)]);
    stream.sequence_point(1010, 0, &[(5, 1)]).events(&[Row::new(5, 5, 1011)]);
    let bytes = stream.end();
    let reference = |bytes: &[u8]| {
        let options = nettrace_reader::Options::default();
        let options = options.dialect(nettrace_reader::Dialect::Reference);
        let mut reader = options.open(bytes).unwrap();
        reader.read_to_end().unwrap();
        reader.totals().lost
    };
    assert_eq!((lost(&bytes), reference(&bytes)), (1, (1 << 31) - 1 + 3));
    for to in ["v5", "v4"] {
        let (converted, _) = convert(&bytes, to);
        assert_eq!((lost(&converted), reference(&converted)), (1, 1), "{to}");
    }
}

/// A stack that would crash readers of version 6 is replaced by none.
#[test]
fn stacks_that_are_too_deep_are_left_out() {
    let deep = [7_u64; 9000];
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1).stacks(1, &[&[1, 2], &deep, &[3]]);
    let rows = [1, 2, 3].map(|i| Row { stack: i, ..Row::new(5, i, 1000 + u64::from(i)) });
    stream.events(&rows).sequence_point(1010, 0, &[(5, 3)]).stacks(2, &[&[4]]);
    stream.events(&[Row { stack: 2, ..Row::new(5, 4, 1011) }]);
    let bytes = stream.end();
    for to in ["v6", "v5", "v4"] {
        let (converted, said) = convert(&bytes, to);
        assert!(said.contains(": 1 stacks\n"), "{said}");
        assert!(convert_support::is_sound(&converted), "{to}");
        let stacks = events(&converted, |event, _| {
            format!("{:?}", event.stack().map(|stack| stack.addresses().collect::<Vec<_>>()))
        });
        assert_eq!(stacks, ["Some([1, 2])", "None", "Some([3])", "Some([4])"], "{to}");
    }
}

/// If the result cannot be written, that is an error of the output, and leaves no file.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    fs::write(&from, samples::order()).unwrap();
    let output = nettrace(&task(&from, Path::new("/dev/full"), "v6"), b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot write /dev/full: "), "{}", stderr(&output));
    assert_eq!(names(dir.path()), ["from"]);
}

/// The memory does not depend on the length of the trace. Measured where the system reports it.
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods)] // a pipe has to be written and read at once
#[test]
fn memory_does_not_grow_with_the_trace() {
    if left_out() {
        return;
    }
    use std::{
        io::{self, Write},
        process::{Command, Stdio},
    };

    const BLOCKS: u32 = 1_000;
    const ROWS: u32 = 100;
    for to in FORMATS {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nettrace"))
            .args(["convert", "-", "-", "--to", to])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || io::copy(&mut stdout, &mut io::sink()).unwrap());
        let mut stdin = child.stdin.take().unwrap();
        let mut stream = Stream::new();
        stream.thread(5).simple_metadata(1);
        stdin.write_all(&stream.bytes).unwrap();
        for block in 0..BLOCKS {
            let rows: Vec<_> = (0..ROWS)
                .map(|row| block * ROWS + row)
                .map(|i| Row::new(5, i + 1, 1000 + u64::from(i)).payload(&[0; 500]))
                .map(|row| Row { stack: 1, ..row }.labels(1))
                .collect();
            let mut stream = Stream { bytes: Vec::new() };
            stream.stacks(1, &[&[u64::from(block); 100]]).label_lists(1, &[&[vec![7, 3]]]);
            let time = 1000 + u64::from((block + 1) * ROWS);
            stream.events(&rows).sequence_point(time, 0, &[(5, (block + 1) * ROWS)]);
            stdin.write_all(&stream.bytes).unwrap();
        }
        // Everything except the pipe's content was read.
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        stdin.write_all(&[0; 4]).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let written = reader.join().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains("# events=100000 lost=0 "), "{}", stderr(&output));
        assert!(written > 50_000_000, "{written}");
        assert!(peak < 40 << 10, "{to}: {peak} KiB");
    }
}

/// An endless number of types reaches the limit, because each type lives as long as the process.
#[test]
fn types_are_bounded() {
    let mut stream = Stream::new();
    for i in 1..20_000 {
        stream.metadata(&EventType::new(i, "P", i, &format!("an event of the name {i}")));
        stream.sequence_point(1000 + i, 2, &[]);
    }
    let bytes = stream.end();
    let args = ["convert", "-", "-", "--to", "v5", "--definitions-limit", "4"];
    let output = nettrace(&args, &bytes);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("event types exceed 4194304"), "{}", stderr(&output));
    // A type that is repeated counts once.
    let mut stream = Stream::new();
    for i in 1..20_000 {
        stream.metadata(&EventType::new(i, "P", 7, "the same"));
        stream.sequence_point(1000 + i, 2, &[]);
    }
    let output = nettrace(&args, &stream.end());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn help_and_completion_know_it() {
    let help = nettrace(&["convert", "--help"], b"").stdout;
    let help = String::from_utf8(help).unwrap();
    for word in ["--to", "--force", "v6", "v5", "v4", "heph"] {
        assert!(help.contains(word), "{word}\n{help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = nettrace(&["completions", shell], b"").stdout;
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("convert") && script.contains("heph"), "{shell}");
    }
}

/// The fields of unknown types are left out, but the payloads stay. Parts of threads and event
/// types that are newer than the command are left out too.
#[test]
fn what_is_unknown_stays_in_payloads() {
    let event = testkit::streams::EventType::new(1, "P", 1, "E").field("a", &[6]).field("b", &[99]);
    let mut stream = Stream::new();
    stream.thread_row(&[5, 77, 1, 2]).metadata(&event.optional(&[77, 1]));
    let bytes = stream.events(&[Row::new(5, 1, 1000).payload(&[1, 2, 3])]).end();
    for (to, payload) in [("v6", &[1, 2, 3][..]), ("v5", &[1, 2, 3])] {
        let (converted, said) = convert(&bytes, to);
        let payloads = events(&converted, |event, _| format!("{:?}", event.payload));
        assert_eq!(payloads, [format!("{payload:?}")], "{to}");
        assert!(said.contains("2 parts of unknown kinds of threads and event types"), "{said}");
        assert!(said.contains("1 descriptions of event types' fields"), "{said}");
    }
}
