//! The cost of commands is bounded by the bytes of the files, whatever program wrote them.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use testkit::streams::{EventType, Row, Stream};

use crate::{json, number, run, text};

/// Long enough for a busy machine. What is quadratic takes several times as long.
const MOST: Duration = Duration::from_secs(100);

#[track_caller]
fn soon<T>(run: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = run();
    assert!(begun.elapsed() < MOST, "{:?}", begun.elapsed());
    result
}

/// Some bytes refer to a list of megabytes, so it cannot be looked at for each event.
#[test]
fn long_label_lists_are_decoded_once() {
    const ROWS: u32 = 60_000;
    let directory = tempfile::tempdir().unwrap();
    let label = |key: &str, len: usize| {
        let mut label = vec![5];
        testkit::streams::string(&mut label, key);
        testkit::streams::string(&mut label, &"v".repeat(len));
        label
    };
    // A text, and many labels.
    let texts = [label("k", 4_000_000)];
    let levels: Vec<_> = (0..1_000_000).map(|level| vec![9, level as u8]).collect();
    let mut paths = Vec::new();
    for (name, lists) in [("a", &texts[..]), ("b", &levels)] {
        let mut stream = Stream::new();
        stream.thread(1).simple_metadata(1).label_lists(1, &[lists]);
        for first in (1..ROWS).step_by(1_000) {
            let rows = first..(first + 1_000).min(ROWS + 1);
            let row = |number| Row::new(1, number, 2_000 + u64::from(number)).labels(1);
            stream.events(&rows.map(row).collect::<Vec<_>>());
        }
        let path = directory.path().join(name);
        fs::write(&path, stream.end()).unwrap();
        paths.push(path);
    }
    for path in &paths {
        let info = soon(|| json(&["info", "--json", text(path)]));
        assert_eq!(info["events"], ROWS);
    }
    let merged = directory.path().join("merged");
    let merged = text(&merged);
    let output = soon(|| run(&["merge", text(&paths[0]), text(&paths[1]), "-o", merged]));
    assert_eq!(number(&output, "events"), 2 * u64::from(ROWS));
    // The lists are not repeated for each batch of small events.
    let size: u64 = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(fs::metadata(merged).unwrap().len() < 2 * size);
    let csv = directory.path().join("lines.csv");
    let output = soon(|| crate::nettrace(&["convert", text(&paths[0]), text(&csv)], b""));
    let said = crate::program::stderr(&output);
    assert!(said.contains("long label lists of events"), "{said}");
    assert!(fs::metadata(&csv).unwrap().len() < 40 * size);
}

#[test]
fn processes_with_one_id_are_told_apart_soon() {
    const PROCESSES: u64 = 40_000;
    let directory = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for name in ["a", "b"] {
        let mut stream = Stream::new();
        stream.simple_metadata(1);
        for index in 1..=PROCESSES {
            let mut row = Vec::new();
            testkit::streams::varuint(&mut row, index);
            row.push(2);
            testkit::streams::varuint(&mut row, 1 + index * 10_000_000);
            stream.thread_row(&row);
            stream.events(&[Row::new(index, 1, 2_000 + index)]);
        }
        let path = directory.path().join(name);
        fs::write(&path, stream.end()).unwrap();
        paths.push(path);
    }
    let merged = directory.path().join("merged");
    let output = soon(|| run(&["merge", text(&paths[0]), text(&paths[1]), "-o", text(&merged)]));
    assert_eq!(number(&output, "events"), 2 * PROCESSES);
}

/// A block has 16 MiB at most, and a batch of a merged trace ends between two times.
#[test]
fn many_events_of_one_time_are_merged() {
    const ROWS: u32 = 400;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut stream = Stream::new();
    stream.thread(1).simple_metadata(1);
    let payload = vec![7; 60_000];
    for first in (1..ROWS).step_by(100) {
        let row = |number| Row::new(1, number, 5_000).payload(&payload);
        stream.events(&(first..first + 100).map(row).collect::<Vec<_>>());
    }
    fs::write(path("same"), stream.end()).unwrap();
    let mut small = Stream::new();
    small.thread(1).simple_metadata(1).events(&[Row::new(1, 1, 5_000)]);
    fs::write(path("small"), small.end()).unwrap();
    let merged = path("merged");
    let output = run(&["merge", text(&path("same")), text(&path("small")), "-o", text(&merged)]);
    assert_eq!(number(&output, "events"), u64::from(ROWS) + 1);
    run(&["verify", "--strict", text(&merged)]);
}

/// Versions of a type have one event id and other fields. Types with other names need other ids.
#[test]
fn versions_of_a_type_keep_their_event_id() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (file, name) in [("a", "Sold"), ("b", "Sold"), ("c", "Other")] {
        let mut stream = Stream::new();
        stream.thread(1);
        for version in 0..2 {
            let ty = EventType::new(u64::from(version) + 1, "Shop", 7, name);
            let ty = (0..=version).fold(ty, |ty, at| ty.field(&format!("f{at}"), &[5]));
            stream.metadata(&ty.optional(&[9, version]));
            let row = Row::new(1, u32::from(version) + 1, 2_000 + u64::from(version));
            let payload = vec![3; 4 * (1 + usize::from(version))];
            stream.events(&[row.metadata(u32::from(version) + 1).payload(&payload)]);
        }
        let path = directory.path().join(file);
        fs::write(&path, stream.end()).unwrap();
        paths.push(path);
    }
    let paths: Vec<_> = paths.iter().map(|path| text(path)).collect();
    let output = run(&[&["dump", "--json"], &paths[..]].concat());
    let events: Vec<_> = crate::program::stdout(&output).lines().map(crate::strict_json).collect();
    assert_eq!(events.len(), 6);
    let others = events.iter().filter(|event| event["name"] == "Other");
    let others: BTreeSet<_> = others.map(|event| event["id"].as_u64()).collect();
    assert_eq!(others.len(), 1, "{others:?}");
    for event in events {
        let version = event["version"].as_u64().unwrap();
        assert_eq!(event["fields"].as_object().unwrap().len() as u64, version + 1, "{event}");
        let other = match event["name"].as_str().unwrap() {
            "Sold" => event["id"] == 7,
            _ => event["id"] != 7,
        };
        assert!(other, "{event}");
    }
}
