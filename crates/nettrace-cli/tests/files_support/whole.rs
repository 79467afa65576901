//! Each event of a folder is read once: whatever else is in it that has some of them.

use std::{fs, path::Path, time::Duration};

use nettrace_reader::Reader;
use nettrace_writer::{Emit, Session, sink::RotationOptions, tail::Tail};
use testkit::process;

use crate::{Sold, Written, json, number, program::stderr, run, text, write};

/// Writes rotated files behind a tail decision. Returns how many events they have.
fn write_behind_a_tail(folder: &Path) -> u64 {
    let _alone = process::one_at_a_time();
    let files = RotationOptions::new(folder, "tail").file_size(20_000).build().unwrap();
    let sink = Tail::new(files).window(Duration::ZERO);
    let session = Session::builder().sink(sink).provider("Files-Shop").start().unwrap();
    for request in 0..20_000 {
        Sold { request, text: "some text that fills the files" }.emit();
    }
    let stats = session.finish().unwrap();
    assert_eq!((stats.written, stats.dropped()), (20_000, 0));
    stats.written
}

#[test]
fn files_behind_a_tail_decision_are_one_recording() {
    let directory = tempfile::tempdir().unwrap();
    let folder = text(directory.path());
    let events = write_behind_a_tail(directory.path());
    let files = fs::read_dir(folder).unwrap().count();
    assert!(files > 10, "{files}");
    let output = run(&["info", "--json", folder]);
    assert!(!stderr(&output).contains("copy"), "{}", stderr(&output));
    let info = json(&["info", "--json", folder]);
    assert_eq!((&info["events"], &info["lost"]), (&events.into(), &0.into()));
    assert_eq!(info["recordings"].as_array().unwrap().len(), 1);
    assert_eq!(info["recordings"][0]["numbers"], serde_json::json!([[1, files]]));
    assert_eq!(info["threads"].as_array().unwrap().len(), 1);
    let merged = directory.path().join("merged");
    let output = run(&["merge", folder, "-o", text(&merged)]);
    assert_eq!((number(&output, "events"), number(&output, "lost")), (events, 0));
}

/// The value of a key of a trace.
fn value(path: &Path, key: &str) -> Option<String> {
    let bytes = fs::read(path).unwrap();
    Reader::new(&bytes[..]).unwrap().trace().value(key).map(str::to_owned)
}

/// Files that older tail decisions wrote had one number, and anybody can write a file that has it.
#[test]
fn a_longer_file_of_the_same_number_displaces_nothing() {
    const REQUESTS: u64 = 1_500;
    let Written { folder, files, .. } = &write(REQUESTS, 100 << 10);
    let events = |folder: &str| json(&["info", "--json", folder])["events"].as_u64().unwrap();
    assert_eq!(events(text(folder)), 6 * REQUESTS);

    // What was copied while the file grew: nothing is behind, or the next block is on its way.
    let whole = fs::read(&files[1]).unwrap();
    let mut cuts = vec![whole.len() - 4];
    let mut at = 20;
    while whole[at + 3] != 0 {
        cuts.push(at);
        at += 4
            + usize::from(whole[at])
            + (usize::from(whole[at + 1]) << 8)
            + (usize::from(whole[at + 2]) << 16);
    }
    let cut = cuts[cuts.len() / 2];
    let copies = [
        whole.clone(),
        whole[..cut + 2].to_vec(),
        [&whole[..cut], &[0; 4]].concat(),
        [&whole[..cut], &[0; 4], &[7; 50], &[0; 4]].concat(),
        [&whole[..], b"behind the end"].concat(),
    ];
    let copy = folder.join("a-copy.nettrace");
    for bytes in copies {
        fs::write(&copy, bytes).unwrap();
        let output = run(&["info", "--json", text(folder)]);
        assert_eq!(stderr(&output).matches(" is a copy of ").count(), 1, "{}", stderr(&output));
        assert_eq!(events(text(folder)), 6 * REQUESTS);
    }

    // A longer file with the first block of another one, which says who it is.
    let first = 20 + 4 + usize::from(whole[20]) + (usize::from(whole[21]) << 8);
    let other = fs::read(&files[3]).unwrap();
    let first_of_other = 20 + 4 + usize::from(other[20]) + (usize::from(other[21]) << 8);
    fs::write(&copy, [&whole[..first], &other[first_of_other..], &[0; 1 << 20]].concat()).unwrap();
    assert_eq!(value(&copy, "nettrace.file"), value(&files[1], "nettrace.file"));
    let of_other = events(text(&files[3]));
    let output = run(&["info", "--json", text(folder)]);
    assert!(!stderr(&output).contains(" is a copy of "), "{}", stderr(&output));
    assert_eq!(events(text(folder)), 6 * REQUESTS + of_other);
}

#[test]
fn what_was_made_of_others_is_read_once() {
    const REQUESTS: u64 = 1_500;
    let Written { folder, files, one, .. } = &write(REQUESTS, 100 << 10);
    let inside = folder.join("all.nettrace");
    let (folder_text, all) = (text(folder), text(&inside));
    let events = || json(&["info", "--json", folder_text])["events"].as_u64().unwrap();

    // Its own result is one of the files that it reads.
    for turn in 0..3 {
        let output = run(&["merge", folder_text, "-o", all, "--force"]);
        assert_eq!(number(&output, "events"), 6 * REQUESTS);
        assert_eq!(number(&output, "files"), files.len() as u64);
        let said = format!("{all} was made of files that are read; it is left out");
        assert_eq!(stderr(&output).contains(&said), turn > 0, "{}", stderr(&output));
        assert_eq!(events(), 6 * REQUESTS);
    }

    // Another recording, and a result of a result.
    let other = folder.join("other.nettrace");
    fs::copy(one, &other).unwrap();
    assert_eq!(events(), 12 * REQUESTS);
    let both = folder.join("both.nettrace");
    run(&["merge", all, text(&other), "-o", text(&both)]);
    assert_eq!(events(), 12 * REQUESTS);

    // What is left of the files that it was made of is in the result.
    fs::remove_file(&files[0]).unwrap();
    let output = run(&["info", "--json", folder_text]);
    let said = format!("{} is contained in {}; it is left out", text(&files[1]), text(&both));
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    let said = format!("{all} is contained in {}; it is left out", text(&both));
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    assert_eq!(events(), 12 * REQUESTS);
    fs::remove_file(&both).unwrap();
    assert_eq!(events(), 12 * REQUESTS);
    fs::remove_file(&other).unwrap();
    assert_eq!(events(), 6 * REQUESTS);

    // What other commands write says so, too, whatever they left out.
    fs::remove_file(&inside).unwrap();
    let left = events();
    assert!(left < 6 * REQUESTS);
    let last = files.last().unwrap();
    for (args, name) in [
        (&["convert", "--to", "v6", folder_text][..], "converted.nettrace"),
        (&["convert", "--to", "v6", text(last)], "last.nettrace"),
        (&["redact", text(&files[1]), "--fields", "text", "-o"], "redacted.nettrace"),
    ] {
        run(&[args, &[text(&folder.join(name))]].concat());
        assert_eq!(events(), left, "{name}");
        assert!(value(&folder.join(name), "nettrace.contains").is_some(), "{name}");
    }
    let info = run(&["info", text(&folder.join("converted.nettrace"))]);
    assert!(!crate::program::stdout(&info).contains("nettrace.contains"));
}
