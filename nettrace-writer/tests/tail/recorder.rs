//! A tail decision and a recorder file: what a kill leaves is in a file, recovered, or counted.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nettrace_format::recorder::{Recorder, Recovered, Seen};
use nettrace_reader::Reader;
use nettrace_writer::{Emit, Session, TraceEvent, sink::RotationOptions, tail::Tail};
use testkit::process::one_at_a_time;

#[derive(TraceEvent)]
#[trace_event(provider = "Tail-Recorder")]
struct Step {
    number: u64,
}

fn steps(count: u64) {
    (0..count).for_each(|number| Step { number }.emit());
}

/// What would be recovered if the process were killed now, with the number of the next file.
fn recovered(file: &std::path::Path, seen: Option<&Seen>) -> (Recovered, String) {
    let bytes = fs::read(file).unwrap();
    let recorder = Recorder::open(&bytes).unwrap();
    assert!(recorder.has_other_numbers() && recorder.trace_path().is_some());
    let recovered = recorder.recover(seen).unwrap();
    let mut reader = Reader::new(&recovered.stream[..]).unwrap();
    reader.read_to_end().unwrap();
    let totals = reader.totals();
    assert_eq!((totals.events, totals.lost), (recovered.events, recovered.lost));
    let number = reader.trace().value("nettrace.file").unwrap().to_owned();
    (recovered, number)
}

#[test]
fn what_is_held_back_counts_as_lost() {
    const HOUR: Duration = Duration::from_secs(3_600);
    const FLUSHED: u64 = 3_000;
    const LAST: u64 = 70;
    let _alone = one_at_a_time();
    for window in [HOUR, Duration::from_millis(50)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recorder");
        fs::create_dir(folder.path().join("files")).unwrap();
        let files = RotationOptions::new(folder.path().join("files"), "tail").file_size(20_000);
        let tail = Tail::new(files.build().unwrap()).window(window);
        let session = Session::builder().sink(tail).persistent(&file).provider("Tail-Recorder");
        let session = session.flush_interval(HOUR).start().unwrap();
        steps(FLUSHED / 3);
        // One that has ended, and one that lives.
        thread::spawn(|| steps(FLUSHED / 3)).join().unwrap();
        thread::scope(|scope| {
            let (flushed, to_end) = std::sync::mpsc::channel::<()>();
            let (done, emitted) = std::sync::mpsc::channel();
            scope.spawn(move || {
                steps(FLUSHED / 3);
                done.send(()).unwrap();
                let _ = to_end.recv();
            });
            emitted.recv().unwrap();
            session.flush().unwrap();
            let until = Instant::now() + Duration::from_secs(120);
            let mut lost = FLUSHED;
            if window < HOUR {
                // All is decided upon when the window is over.
                while lost > 0 {
                    assert!(Instant::now() < until, "{lost} are held back for ever");
                    thread::sleep(Duration::from_millis(20));
                    session.flush().unwrap();
                    lost = recovered(&file, None).0.lost;
                }
            }
            steps(LAST);
            // The files have numbers of their own, whatever the session's are.
            let (it, number) = recovered(&file, Some(&Seen::new(41)));
            assert_eq!((it.events, it.lost, &*number), (LAST, lost, "42"));
            drop(flushed);
        });
        session.finish().unwrap();
    }
}
