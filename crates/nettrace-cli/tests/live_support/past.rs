//! The past and the future of a flight recorder, for tools that attach.

use std::{fs, path::Path, process, thread, time::Duration};

use nettrace_reader::Reader;
use nettrace_writer::{Emit as _, Keep, Session, TraceEvent};

use super::{Here, complete, text};
use crate::live_support::{interrupt, nettrace, succeeded, until};

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Past")]
struct Kept {
    number: u64,
}

/// The numbers in a file, in the order of time. They must follow one another.
fn numbers(path: &Path) -> std::ops::Range<u64> {
    let bytes = fs::read(path).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let mut numbers = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        numbers.push(u64::from_le_bytes(event.payload[..8].try_into().unwrap()));
    }
    let all = numbers[0]..numbers[0] + numbers.len() as u64;
    assert_eq!(numbers, all.clone().collect::<Vec<_>>());
    all
}

#[test]
fn the_past_is_collected_and_what_comes() {
    let here = Here::new();
    let (folder, pid) = (here.folder.path(), process::id().to_string());
    let collect = |more: &[&str]| {
        let arguments = [&["collect", "-p", &pid, "-o", "t.nettrace", "--force"], more].concat();
        nettrace(folder, &arguments)
    };
    let refused = |more: &[&str], words: &str| {
        let output = collect(more).output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    };
    refused(&["--past", "10s"], "no session of this process is a flight recorder");
    refused(&["--past", "10s", "--providers", "Contoso-Past"], "cannot be used with");
    refused(&["--past", "soon"], "does not begin with a number");

    // Also on a machine that is busy otherwise. What a dump begins with is a second old, or less.
    let session = Session::builder().flight_recorder(Keep::last(Duration::from_secs(3_600)));
    let session = session.provider("Contoso-Past").start().unwrap();
    for (more, words) in [
        ("NetTrace-FlightRecorder:0:5:Past=-1", "has the argument Past=SECONDS"),
        ("NetTrace-FlightRecorder:0:5:Future=1", "has the argument Past=SECONDS"),
        ("NetTrace-FlightRecorder,Contoso-Past", "comes alone"),
    ] {
        refused(&["--providers", more], words);
    }
    let mut number = 0;
    let mut emit = |count: u64| {
        (0..count).for_each(|_| {
            Kept { number }.emit();
            number += 1;
        });
        number
    };
    emit(1_000);
    let path = folder.join("t.nettrace");
    // All that is there, and nothing of what comes later.
    succeeded(&collect(&["--past", "1h", "--duration", "0"]).output().unwrap());
    assert_eq!((complete(&path), numbers(&path)), (1_000, 0..1_000));
    // What comes, too.
    fs::remove_file(&path).unwrap();
    let child = collect(&["--past", "1h"]).spawn().unwrap();
    let mut emitted = 0;
    until("events come", || {
        emitted = emit(100);
        fs::metadata(&path).is_ok_and(|file| file.len() > 60_000)
    });
    interrupt(&child);
    succeeded(&child.wait_with_output().unwrap());
    assert_eq!((complete(&path), numbers(&path)), (emitted, 0..emitted));
    // A part of it. Events go on, because a machine can take longer than this to start a program.
    let mut all = 0;
    for _ in 0..30 {
        thread::sleep(Duration::from_millis(100));
        all = emit(1);
    }
    let mut child = collect(&["--past", "200ms", "--duration", "0"]).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(10));
        all = emit(1);
    }
    let output = child.wait_with_output().unwrap();
    succeeded(&output);
    let part = numbers(&path);
    assert!(part.end <= all, "{part:?}");
    assert!(part.start > 0, "{part:?}");
    let lost = format!("{} events, {} lost or before these", part.end - part.start, part.start);
    assert!(text(&output.stderr).contains(&lost), "{}", text(&output.stderr));
    // The session ends first.
    fs::remove_file(&path).unwrap();
    let child = collect(&["--past", "1h"]).spawn().unwrap();
    until("the trace has begun", || fs::metadata(&path).is_ok_and(|file| file.len() > 10_000));
    session.finish().unwrap();
    succeeded(&child.wait_with_output().unwrap());
    assert_eq!((complete(&path), numbers(&path)), (all, 0..all));
}
