//! Dumps of one flight recorder, which overlap, are read as one trace.

use std::{fs, path::Path, time::Duration};

use nettrace_writer::{Dump, Keep, Past, Session, sink::FileSink};
use testkit::{process, reference::judged_of_many};

use crate::{
    json, number,
    program::{nettrace, stderr, stdout, strict_json},
    run, serve, text,
};

#[test]
fn dumps_of_one_recorder_are_one_trace() {
    // Otherwise the session records what other tests do.
    let _alone = process::one_at_a_time();
    let directory = tempfile::tempdir().unwrap();
    let folder = &directory.path().join("dumps");
    fs::create_dir(folder).unwrap();
    let keep = Keep::last(Duration::from_secs(3_600));
    let session = Session::builder().flight_recorder(keep).provider("Files-Shop").start().unwrap();
    let dump = |name: &str, past: Past| -> Dump {
        session.dump_past(past, FileSink::new(folder.join(name)), &[]).unwrap()
    };
    serve(100);
    dump("c.nettrace", Past::All);
    serve(100);
    let second = dump("b.nettrace", Past::All);
    serve(100);
    dump("a.nettrace", Past::After(second));
    serve(100);
    dump("d.nettrace", Past::After(second));
    let all = dump("all.nettrace", Past::All);
    fs::rename(folder.join("all.nettrace"), directory.path().join("all.nettrace")).unwrap();
    session.finish().unwrap();
    let (folder, all_of_it) = (text(folder), &directory.path().join("all.nettrace"));

    let output = run(&["info", "--json", folder]);
    assert_eq!(stderr(&output).lines().find(|line| !line.starts_with("# ")), None);
    let counts = |info: &serde_json::Value| (info["events"].clone(), info["lost"].clone());
    let (one, several) =
        (json(&["info", "--json", text(all_of_it)]), json(&["info", "--json", folder]));
    assert_eq!(counts(&several), counts(&one));
    assert_eq!(counts(&several), (all.events.into(), 0.into()));
    assert_eq!(several["threads"], one["threads"]);

    let lines = |path: &str| {
        let output = run(&["dump", path, "--json"]);
        stdout(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(folder), lines(text(all_of_it)));
    let trees = run(&["tree", "--json", folder]);
    assert_eq!(stdout(&trees), stdout(&run(&["tree", "--json", text(all_of_it)])));
    assert_eq!((stdout(&trees).lines().count(), number(&trees, "cut_trees")), (400, 0));
    strict_json(stdout(&trees).lines().next().unwrap());

    let merged = directory.path().join("merged.nettrace");
    run(&["merge", folder, "-o", text(&merged)]);
    assert_eq!(counts(&json(&["info", "--json", text(&merged)])), counts(&one));
    assert_eq!(nettrace(&["verify", text(&merged)], b"").status.code(), Some(0));
    if let Some(verdict) = judged_of_many(&fs::read(&merged).unwrap()) {
        verdict.assert_holds(all.events, 0);
    }
    // What none of them has is a gap in the numbers of the threads that go on.
    fs::remove_file(Path::new(folder).join("b.nettrace")).unwrap();
    let part = json(&["info", "--json", folder]);
    let count = |key: &str| part[key].as_u64().unwrap();
    assert_eq!(count("events"), all.events / 4 * 3);
    assert!((0..=all.events / 4).contains(&count("lost")), "{part}");
}
