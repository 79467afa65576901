//! Traces of forms that few producers write: what is legal is called legal, and what is not does
//! not shift what follows.

use std::{fs, path::Path};

use serde_json::json;
use testkit::{
    reference::{Trace, ask, format_cases},
    streams::{EventType, Row, Stream, samples},
};

use crate::{
    convert_support::{convert, heph_events},
    program::{nettrace, stderr, stdout, strict_json},
};

const BOOLEAN: u8 = 3;
const BYTE: u8 = 6;
const INT32: u8 = 9;
const REL_LOC: u8 = 24;

/// The fields of each event, as `dump --json` shows them.
fn fields(trace: &[u8]) -> Vec<serde_json::Value> {
    let output = nettrace(&["dump", "--json", "-"], trace);
    stdout(&output).lines().map(|line| strict_json(line)["fields"].clone()).collect()
}

fn code(args: &[&str], trace: &[u8]) -> (Option<i32>, String) {
    let output = nettrace(args, trace);
    (output.status.code(), stdout(&output).to_owned() + stderr(&output))
}

/// What a profiler of .NET writes: its last field is a Boolean of one byte.
#[test]
fn a_boolean_of_one_byte() {
    let mut stream = Stream::new();
    let ty = EventType::new(1, "P", 1, "Allocated").field("n", &[BYTE]);
    stream.thread(5).metadata(&ty.field("is_pinned", &[BOOLEAN]));
    let two = EventType::new(2, "P", 2, "Two").field("a", &[BOOLEAN]).field("b", &[BOOLEAN]);
    stream.metadata(&two);
    let row = |number, payload: &[u8]| Row::new(5, number, 1000).payload(payload);
    let rows = [
        row(1, &[7, 1]),
        row(2, &[7, 0]),
        row(3, &[7, 1, 0, 0, 0]),
        // Only the last field can have one.
        row(4, &[1, 1]).metadata(2),
        row(5, &[1, 0, 0, 0, 1]).metadata(2),
    ];
    let trace = stream.events(&rows).end();
    let expected = [
        json!({"n": 7, "is_pinned": true}),
        json!({"n": 7, "is_pinned": false}),
        json!({"n": 7, "is_pinned": true}),
        json!({"a": null, "b": null}),
        json!({"a": true, "b": true}),
    ];
    assert_eq!(fields(&trace), expected);
    // The format has four bytes, which this project promises.
    let (strict, said) = code(&["verify", "--strict", "-"], &trace);
    assert_eq!(strict, Some(1), "{said}");
    assert_eq!(said.matches("a Boolean, has one byte instead of four").count(), 3, "{said}");
    assert_eq!(code(&["verify", "-"], &trace).0, Some(0));
    for to in ["v6", "v5", "v4"] {
        assert_eq!(fields(&convert(&trace, to).0)[..3], expected[..3], "{to}");
    }
    if let Some(verdict) = ask(&["events"], Trace::Bytes(&trace)) {
        let lines = verdict.lines.iter().filter(|line| line.starts_with('{'));
        let shown: Vec<_> = lines.map(|line| strict_json(line)["fields"].clone()).collect();
        assert_eq!(shown[..3], expected[..3]);
        assert_eq!(shown[4], expected[4]);
    }
}

/// Data that does not fit concerns its own field, in whatever form events are shown.
#[test]
fn located_data_that_does_not_fit() {
    let mut stream = Stream::new();
    let ty = EventType::new(1, "P", 1, "Located").field("a", &[BYTE]);
    let ty = ty.field("list", &[REL_LOC, INT32]).field("z", &[BYTE]);
    stream.thread(5).metadata(&ty);
    let row = |number, payload: &[u8]| Row::new(5, number, 1000).payload(payload);
    let rows = [
        row(1, &[1, 1, 0, 4, 0, 7, 5, 0, 0, 0]),
        // Three bytes are no number of 32 bits.
        row(2, &[2, 1, 0, 3, 0, 8, 5, 0, 0]),
        // It would be behind the payload.
        row(3, &[3, 1, 0, 4, 0, 9]),
    ];
    let trace = stream.events(&rows).end();
    let expected = [
        json!({"a": 1, "list": [5], "z": 7}),
        json!({"a": 2, "list": null, "z": 8}),
        json!({"a": 3, "list": null, "z": 9}),
    ];
    assert_eq!(fields(&trace), expected);
    let (_, text) = code(&["dump", "-"], &trace);
    assert!(text.contains(" a=2 z=8 (`list` cannot be decoded: "), "{text}");
    let csv = code(&["convert", "-", "-", "--to", "csv"], &trace).1;
    assert!(csv.contains(r#""{""a"":2,""list"":null,""z"":8}""#), "{csv}");
    let chrome = code(&["convert", "-", "-", "--to", "chrome"], &trace).1;
    assert!(chrome.contains(r#""z":8"#) && chrome.contains(r#""z":9"#), "{chrome}");
}

/// Which violations are of the format, and which of what this project promises beyond it.
#[test]
fn legal_heph_traces() {
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    let row = |number, time| Row::new(5, number, time).payload(&[1, 0, 0, 0]);
    let (heph, _) = convert(&stream.events(&[row(1, 1010), row(2, 1020)]).end(), "heph");
    assert_eq!(heph_events(&heph).len(), 2);
    let epoch: usize = 23;
    let size = u32::from_be_bytes(heph[epoch + 4..][..4].try_into().unwrap()) as usize;
    let (first, second) = heph[epoch..].split_at(size);
    let late = [&heph[..epoch], second, first].concat();
    let mut at_epoch = heph.clone();
    at_epoch[epoch + 24..][..16].fill(0);
    let mut reversed = heph.clone();
    reversed[epoch + 24..][..8].copy_from_slice(&u64::MAX.to_be_bytes());
    for (trace, why) in [
        (&late, "comes after a later one"),
        (&at_epoch, "is as old as the epoch"),
        (&reversed, "ends before it starts"),
    ] {
        let (lenient, said) = code(&["verify", "-"], trace);
        let remark = "(the format allows it, this project does not)";
        assert!(said.contains(why) && said.contains(remark), "{said}");
        assert!(lenient == Some(0) && said.contains(" of_format=0"), "{said}");
        assert_eq!(code(&["verify", "--strict", "-"], trace).0, Some(1), "{why}");
        let json = strict_json(code(&["verify", "--json", "-"], trace).1.lines().next().unwrap());
        assert_eq!(json["violations"][0]["basis"], "project");
    }
    let two_epochs = [&heph[..], &heph[..epoch - 1], &[1], &heph[epoch..]].concat();
    let (lenient, said) = code(&["verify", "-"], &two_epochs);
    assert!(lenient == Some(1) && said.contains("the epoch is not the one"), "{said}");
}

/// A second trace in a file is told. It is not waited for behind a pipe.
#[test]
fn two_traces_in_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("two.nettrace");
    let one = samples::order();
    fs::write(&path, [&*one, &*one].concat()).unwrap();
    let out = dir.path().join("out.nettrace");
    let (file, to) = (path.to_str().unwrap(), out.to_str().unwrap());
    let why = format!("at byte {}: behind the end of the stream another one begins", one.len());
    for args in [&["dump", file][..], &["info", file], &["convert", file, to, "--to", "v6"]] {
        let (code, said) = code(args, b"");
        assert!(code == Some(1) && said.contains(&why), "{args:?}: {code:?} {said}");
    }
    // What stands before is in the result.
    assert_eq!(fields(&fs::read(&out).unwrap()), fields(&one));
    let (lenient, said) = code(&["verify", file], b"");
    assert!(lenient == Some(0) && said.contains("alone: behind the end"), "{said}");
    assert_eq!(code(&["verify", "--strict", file], b"").0, Some(1));
    // A writer leaves other bytes there.
    fs::write(&path, [&*one, &one[4..]].concat()).unwrap();
    assert_eq!(code(&["dump", file], b"").0, Some(0));
    let (piped, _) = code(&["dump", "-"], &[&*one, &*one].concat());
    assert_eq!(piped, Some(0));
}

/// A second Trace block is passed over, and the events behind it are there.
#[test]
fn a_second_trace_block() {
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    let row = |number, time| Row::new(5, number, time).payload(&[number as u8, 0, 0, 0]);
    stream.events(&[row(1, 1010)]);
    let trace_block = samples::order();
    let size = u32::from_le_bytes([trace_block[20], trace_block[21], trace_block[22], 0]) as usize;
    stream.block(1, &trace_block[24..24 + size]).events(&[row(2, 1020)]);
    let trace = stream.end();
    let (code, said) = code(&["dump", "-"], &trace);
    assert!(code == Some(1) && said.contains("it is the second one"), "{said}");
    assert_eq!(fields(&trace).len(), 2);
}

/// Files that were made by hand from the specifications, and which of them break it.
#[test]
fn the_cases_by_hand() {
    const ILLEGAL: [&str; 29] = [
        "damaged_row_in_the_middle.nettrace",
        "damaged_row_size_0.nettrace",
        "event_41.heph",
        "event_size_larger.nettrace",
        "event_size_smaller.nettrace",
        "eventid_same_other_types.nettrace",
        "header_only.nettrace",
        "header_size_8.nettrace",
        "label_count_short.nettrace",
        "label_redefined.nettrace",
        "label_unknown_kind.nettrace",
        "metadata_redefined_same_id.nettrace",
        "no_blocks_after_trace.nettrace",
        "no_end.nettrace",
        "remove_large_number.nettrace",
        "remove_number_64bit.nettrace",
        "second_trace_block.nettrace",
        "size_7.heph",
        "sp_middle_earlier_event.nettrace",
        "stack_not_multiple.nettrace",
        "stack_redefined.nettrace",
        "trailing_bytes.heph",
        "type_0x85.heph",
        "type_26_27.nettrace",
        "v5_block_min_3.nettrace",
        "v5_first_not_trace.nettrace",
        "v5_netperf.nettrace",
        "v5_seq_wrap.nettrace",
        "v5_sp_back.nettrace",
    ];
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let cases = format_cases();
    let is_illegal =
        |path: &&std::path::PathBuf| code(&["verify", path.to_str().unwrap()], b"").0 != Some(0);
    let found: Vec<_> = cases.iter().filter(is_illegal).map(|path| name(path)).collect();
    if !cases.is_empty() {
        assert_eq!(found, ILLEGAL);
    }
}
