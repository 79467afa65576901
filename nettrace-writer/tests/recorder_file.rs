//! Sessions whose memory is in a file that outlives the process: what the file has, whose it is,
//! and what becomes of it.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use nettrace_format::recorder::{Recorder, layout};
use nettrace_reader::Reader;
use nettrace_writer::{
    Emit, Error, Format, Keep, Label, Origin, Session, ThreadRef, TraceEvent, enter_labels,
    sink::{Batch, MemorySink, RotatingFiles, RotationOptions, Sink, StreamEnd, WriteError},
};
use testkit::process::{is_rerun, one_at_a_time, rerun, skipped_in_emulator};

use crate::trace_support::{Seen, modes::folder, read, sound};

const LONG: Duration = Duration::from_secs(3_600);

/// What a file has that no process writes any more: a copy of it.
fn recovered(file: &Path) -> (nettrace_format::recorder::Recovered, Vec<Seen>) {
    let bytes = fs::read(file).unwrap();
    let recovered = Recorder::open(&bytes).unwrap().recover(None).unwrap();
    assert_eq!((recovered.damaged, recovered.without_type), (0, 0));
    let (events, lost) = sound(&recovered.stream, &[]);
    assert_eq!((events, lost), (recovered.events, recovered.lost));
    let seen = read(&recovered.stream);
    (recovered, seen)
}

#[test]
fn a_flight_recorder_in_a_file_has_what_a_dump_has_and_what_came_since() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Recorder-Same")]
    struct Same {
        number: u64,
    }
    let folder = folder();
    let file = folder.path().join("recorder");
    let keep = Keep::last(LONG).within(1 << 20);
    let builder = Session::builder().flight_recorder(keep).persistent(&file).budget(4 << 20);
    let session = builder.provider("Recorder-Same").flush_interval(LONG).start().unwrap();
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Batches of all sizes, many more of them than fit, and threads that come and go.
    let mut number = 0;
    for round in 0..1_500_u64 {
        for _ in 0..round % 60 {
            let _labels = enter_labels(&[Label::Int("number", number as i64)]).unwrap();
            Same { number }.emit();
            number += 1;
        }
        if round % 100 == 0 {
            thread::spawn(move || Same { number }.emit()).join().unwrap();
            number += 1;
        }
        session.flush().unwrap();
        if round % 250 == 249 {
            let (it, seen) = recovered(&file);
            // Numbers do not tell what a thread lost that has ended; the key-value tells all.
            assert!((number - 15..=number).contains(&(it.events + it.lost)), "round {round}");
            let reader = Reader::new(&it.stream[..]).unwrap();
            let given_up: u64 = reader.trace().value("nettrace.given_up").unwrap().parse().unwrap();
            assert_eq!(it.events + given_up, number, "round {round}");
            assert!(seen.windows(2).all(|pair| pair[0].value() + 1 == pair[1].value()));
            assert!(seen.iter().all(|event| event.value() + 1 == number || event.labels.len() < 2));
        }
    }
    let memory = MemorySink::new();
    let dump = session.dump(memory.clone()).unwrap();
    assert_eq!(dump.events + dump.given_up, number);
    assert!(dump.events > 15_000, "{dump:?}");
    for _ in 0..1_000 {
        Same { number }.emit();
        number += 1;
    }
    let (it, seen) = recovered(&file);
    assert_eq!(it.events, dump.events + 1_000);
    assert_eq!(seen.last().unwrap().value(), number - 1);
    let dumped = read(&memory.bytes());
    let values = |seen: &[Seen]| seen.iter().map(|event| event.value()).collect::<Vec<_>>();
    assert_eq!(values(&seen)[..dumped.len()], values(&dumped)[..]);
    session.finish().unwrap();
    assert!(!file.exists());
}

#[test]
fn a_burst_that_exceeds_the_ring_leaves_its_last_events() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Recorder-Burst")]
    struct Burst {
        number: u64,
        text: &'static str,
    }
    let folder = folder();
    let file = folder.path().join("recorder");
    let keep = Keep::last(LONG).within(1 << 20);
    // Less than a quarter of the budget, so that all is one round, and one stretch. Stretches go
    // as a whole if there are several.
    const EVENTS: u64 = 100_000;
    let text = "a text of some length, so that a megabyte is soon full";
    for _ in 0..3 {
        let builder = Session::builder().flight_recorder(keep).persistent(&file);
        let session = builder.provider("Recorder-Burst").flush_interval(LONG).start().unwrap();
        for number in 0..EVENTS {
            let _labels = (number % 50 == 0)
                .then(|| enter_labels(&[Label::Int("number", number as i64)]).unwrap());
            Burst { number, text }.emit();
        }
        session.flush().unwrap();
        let (it, seen) = recovered(&file);
        assert_eq!(it.events + it.lost, EVENTS);
        assert!(it.events > 5_000, "{} events", it.events);
        assert_eq!(seen.last().unwrap().value(), EVENTS - 1);
        let bytes = fs::read(&file).unwrap();
        assert_eq!(Recorder::open(&bytes).unwrap().streams(), 1);
        assert_eq!(session.stats().dropped(), 0);
    }
}

#[test]
fn numbers_beyond_32_bits_lose_no_event() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Recorder-Many")]
    struct Many {
        number: u64,
    }
    let folder = folder();
    let file = folder.path().join("recorder");
    // All that was flushed is given up by the next flush.
    let builder = Session::builder().flight_recorder(Keep::last(Duration::ZERO));
    let builder = builder.persistent(&file).budget(4 << 20).provider("Recorder-Many");
    let session = builder.flush_interval(LONG).start().unwrap();
    for round in 1..=3 {
        Many { number: 0 }.emit();
        session.pretend_dropped((1 << 32) - 7);
        for number in 0..100 {
            Many { number }.emit();
        }
        session.flush().unwrap();
        session.flush().unwrap();
        for number in 0..100 {
            Many { number }.emit();
        }
        let bytes = fs::read(&file).unwrap();
        let recovered = Recorder::open(&bytes).unwrap().recover(None).unwrap();
        assert_eq!((recovered.events, recovered.damaged), (100, 0), "round {round}");
        let seen = read(&recovered.stream);
        assert_eq!(seen.iter().map(|event| event.value()).sum::<u64>(), 4_950);
    }
}

#[test]
fn related_threads_have_indices_of_their_own() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Recorder-Related")]
    struct About {
        number: u64,
    }
    let folder = folder();
    let file = folder.path().join("recorder");
    let keep = Keep::last(LONG);
    let builder = Session::builder().flight_recorder(keep).persistent(&file).budget(4 << 20);
    let session = builder.provider("Recorder-Related").flush_interval(LONG).start().unwrap();
    let other = || thread::spawn(ThreadRef::current).join().unwrap();
    About { number: 0 }.emit_with(&Origin::new().thread(&other()));
    session.flush().unwrap();
    About { number: 1 }.emit_with(&Origin::new().thread(&other()));
    thread::spawn(|| About { number: 2 }.emit()).join().unwrap();
    let (it, _) = recovered(&file);
    assert_eq!((it.events, it.lost), (3, 0));
}

#[derive(TraceEvent)]
#[trace_event(provider = "Recorder-Left")]
struct Left {
    number: u64,
}

/// Makes a file as a killed process leaves it, with so many events.
fn leave(folder: &Path, events: u64) -> PathBuf {
    // Other tests emit the same events.
    let _alone = one_at_a_time();
    let (live, file) = (folder.join("live"), folder.join("recorder"));
    let builder = Session::builder().file(folder.join("own.nettrace")).overwrite(true);
    let builder = builder.provider("Recorder-Left").persistent(&live).budget(2 << 20);
    let session = builder.flush_interval(LONG).start().unwrap();
    for number in 0..events {
        Left { number }.emit();
        if number == 9 {
            session.flush().unwrap();
        }
    }
    fs::copy(&live, &file).unwrap();
    let (own, as_left) = (folder.join("own.nettrace"), folder.join("as-left"));
    fs::copy(&own, &as_left).unwrap();
    drop(session);
    fs::rename(as_left, own).unwrap();
    file
}

#[test]
fn what_a_process_has_left_is_kept_or_recovered() {
    let folder = folder();
    let in_folder = |name: &str| folder.path().join(name);
    let start = |file: &Path| {
        let builder = Session::builder().sink(MemorySink::new()).provider("Recorder-None");
        builder.persistent(file).budget(2 << 20)
    };
    // Its own file has been written since, as far as this one has it.
    let file = leave(folder.path(), 25);
    let session = start(&file).start().unwrap();
    let previous = in_folder("recorder.previous");
    assert!(previous.exists());
    // A second one cannot have it, and takes nothing away.
    let busy = start(&file).start().unwrap_err();
    assert!(matches!(&busy, Error::Recorder(it) if it.kind() == ErrorKind::ResourceBusy), "{busy}");
    assert!(file.exists());
    session.finish().unwrap();
    assert!(!file.exists());

    // One that has nothing does not replace one that has.
    leave(folder.path(), 0);
    let before = fs::metadata(&previous).unwrap().ino();
    start(&file).start().unwrap().finish().unwrap();
    assert_eq!(fs::metadata(&previous).unwrap().ino(), before);

    // A start that fails leaves no file, and what was there is still there.
    leave(folder.path(), 3);
    let failing = start(&file).file("/no/such/folder/trace.nettrace").start();
    assert!(matches!(failing, Err(Error::Sink(_))), "{failing:?}");
    assert!(!file.exists() && previous.exists());

    leave(folder.path(), 25);
    let to = in_folder("recovered.nettrace");
    let session = start(&file).recover_to(&to).start().unwrap();
    let found = session.recovered().unwrap().clone();
    assert_eq!((&*found.path, found.lost, found.error), (&*to, 0, None));
    let (events, lost) = sound(&fs::read(&to).unwrap(), &[]);
    assert_eq!((events, lost), (found.events, 0));
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
    session.finish().unwrap();

    // The trace is there already: it stays, and so does the recorder file.
    leave(folder.path(), 30);
    let session = start(&file).recover_to(&to).start().unwrap();
    assert!(session.recovered().unwrap().error.is_some());
    assert_eq!(sound(&fs::read(&to).unwrap(), &[]).0, events);
    let bytes = fs::read(&previous).unwrap();
    let left = Recorder::open(&bytes).unwrap();
    assert_eq!(left.threads().iter().map(|thread| thread.attempted).sum::<u64>(), 30);
    session.finish().unwrap();
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["own.nettrace", "recorder.previous", "recovered.nettrace"]);
}

/// In a folder for all, anybody can put something at the name of a file that is kept.
#[test]
fn what_is_in_the_way_of_a_file_that_is_kept_stays() {
    let folder = folder();
    let (previous, second) = (folder.path().join("recorder.previous"), "recorder.previous-2");
    let second = folder.path().join(second);
    type InTheWay = fn(&Path);
    let things: [InTheWay; 4] = [
        |path| rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| fs::write(path, "notes of somebody").unwrap(),
        |path| std::os::unix::fs::symlink("/dev/null", path).unwrap(),
    ];
    for (at, put) in things.into_iter().enumerate() {
        put(&previous);
        for events in [3, 4] {
            let file = leave(folder.path(), events);
            let builder = Session::builder().sink(MemorySink::new()).budget(2 << 20);
            builder.persistent(&file).start().unwrap().finish().unwrap();
            let bytes = fs::read(&second).unwrap();
            let left = Recorder::open(&bytes).unwrap();
            let attempted = left.threads().iter().map(|thread| thread.attempted).sum::<u64>();
            assert_eq!(attempted, events, "{at}");
        }
        assert!(!folder.path().join("recorder.previous-3").exists());
        fs::remove_file(&second).unwrap();
        fs::remove_file(&previous).or_else(|_| fs::remove_dir(&previous)).unwrap();
    }
}

/// Beyond the limit the system would end the process by SIGXFSZ.
#[test]
fn a_recorder_file_that_exceeds_the_limit_of_files_is_an_error() {
    if !testkit::process::alone("a_recorder_file_that_exceeds_the_limit_of_files_is_an_error") {
        return;
    }
    let folder = folder();
    let limit = rustix::process::Rlimit { current: Some(1 << 20), maximum: None };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    let builder = Session::builder().sink(MemorySink::new()).budget(2 << 20);
    let error = builder.persistent(folder.path().join("recorder")).start().unwrap_err();
    assert!(error.to_string().contains("`ulimit -f`"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_a_recorder_file_is_an_error() {
    let folder = folder();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "not a recorder file, but notes").unwrap();
    let builder = || Session::builder().sink(MemorySink::new()).budget(2 << 20);
    let error = builder().persistent(&file).start().unwrap_err();
    assert!(error.to_string().contains("it is a file of another kind"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"not a recorder file, but notes");
    // A disk's image can begin so, too.
    fs::write(&file, [0; 8_192]).unwrap();
    let error = builder().persistent(&file).start().unwrap_err();
    assert!(error.to_string().contains("it is a file of another kind"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), [0; 8_192]);
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let error = builder().persistent(&pipe).start().unwrap_err();
    assert!(error.to_string().contains("it is no ordinary file"), "{error}");
    fs::remove_file(pipe).unwrap();
    let error = builder().persistent("/no/such/folder/recorder").start().unwrap_err();
    assert!(matches!(&error, Error::Recorder(it) if it.kind() == ErrorKind::NotFound), "{error}");
    let error = builder().format(Format::V5).persistent(folder.path().join("a")).start();
    assert!(matches!(error, Err(Error::RecorderFormat)));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_memory_goes_with_the_session_though_a_thread_stays() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Recorder-Memory")]
    struct Used {
        number: u64,
    }
    let folder = folder();
    let file = folder.path().join("recorder");
    let keep = Keep::last(LONG).within(8 << 20);
    let builder = Session::builder().flight_recorder(keep).persistent(&file).budget(8 << 20);
    let session = builder.provider("Recorder-Memory").start().unwrap();
    let (end, ends) = mpsc::channel::<()>();
    let (emitted, has_emitted) = mpsc::channel();
    let parked = thread::spawn(move || {
        Used { number: 1 }.emit();
        emitted.send(()).unwrap();
        let _ = ends.recv();
    });
    has_emitted.recv().unwrap();
    let open = fs::File::open(&file).unwrap();
    let taken = || open.metadata().unwrap().blocks() * 512;
    assert!(taken() > 16 << 20, "{} bytes", taken());
    session.finish().unwrap();
    assert!(taken() < 1 << 20, "{} bytes", taken());
    drop(end);
    parked.join().unwrap();
}

#[test]
fn a_process_that_is_killed_while_it_makes_the_file_is_in_nobodys_way() {
    let folder = folder();
    let file = folder.path().join("recorder");
    let begin = [&layout::MAGIC[..], &layout::VERSION.to_le_bytes()].concat();
    for (bytes, len) in [(&[][..], 0), (&begin, 12), (&begin, 64 << 20)] {
        fs::write(&file, bytes).unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_len(len).unwrap();
        let builder = Session::builder().sink(MemorySink::new()).budget(2 << 20);
        builder.persistent(&file).start().unwrap().finish().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// Copies the folder as a process leaves it that is killed before it begins the third file, or
/// after that.
struct Killed {
    files: RotatingFiles,
    folder: PathBuf,
    begun: u64,
}

impl Killed {
    fn copy(&self, to: &str) -> io::Result<()> {
        let to = self.folder.join(to);
        fs::create_dir(&to)?;
        for entry in fs::read_dir(self.folder.join("live"))? {
            let from = entry?.path();
            fs::copy(&from, to.join(from.file_name().unwrap()))?;
        }
        Ok(())
    }
}

impl Sink for Killed {
    fn file(&self) -> Option<&Path> {
        self.files.file()
    }

    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.begun += 1;
        if self.begun == 3 {
            self.copy("before")?;
        }
        self.files.start(header, end)?;
        if self.begun == 3 { self.copy("after") } else { Ok(()) }
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        self.files.write(batch)
    }

    fn room(&self) -> u64 {
        self.files.room()
    }

    fn wants_restart(&mut self) -> bool {
        self.files.wants_restart()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.files.finish()
    }
}

#[test]
fn a_kill_while_the_next_file_begins_leaves_each_event_once() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Recorder-Next")]
    struct Next {
        number: u64,
    }
    let folder = folder();
    let live = folder.path().join("live");
    fs::create_dir(&live).unwrap();
    let files = RotationOptions::new(&live, "own").file_size(4_096).build().unwrap();
    let sink = Killed { files, folder: folder.path().to_owned(), begun: 0 };
    let builder = Session::builder().sink(sink).provider("Recorder-Next").budget(2 << 20);
    let builder = builder.persistent(live.join("recorder")).flush_interval(LONG);
    let session = builder.start().unwrap();
    for number in 0..1_000 {
        Next { number }.emit();
    }
    session.flush().unwrap();
    session.finish().unwrap();

    for (state, files) in [("before", 2), ("after", 3)] {
        // The recorder file says where the session wrote.
        fs::remove_dir_all(&live).unwrap();
        fs::rename(folder.path().join(state), &live).unwrap();
        let (recorder, to) = (live.join("recorder"), live.join("recovered.nettrace"));
        let builder = Session::builder().sink(MemorySink::new()).budget(2 << 20);
        let session = builder.persistent(&recorder).recover_to(&to).start().unwrap();
        let found = session.recovered().unwrap();
        assert_eq!((&found.error, found.lost), (&None, 0), "{state}");
        session.finish().unwrap();
        let mut paths: Vec<_> =
            (1..=files).map(|number| live.join(format!("own-{number:08}.nettrace"))).collect();
        paths.push(to);
        let mut values = Vec::new();
        for (path, number) in paths.iter().zip(1_u64..) {
            let bytes = fs::read(path).unwrap();
            let reader = Reader::new(&bytes[..]).unwrap();
            let said = reader.trace().value("nettrace.file").unwrap();
            assert_eq!(said, number.to_string(), "{state}: {}", path.display());
            values.extend(read(&bytes).iter().map(|event| event.value()));
        }
        assert_eq!(values, (0..1_000).collect::<Vec<_>>(), "{state}");
    }
}

/// After a kill for lack of memory the next process may have no more of it.
#[test]
fn a_recovery_takes_no_memory_for_what_is_empty() {
    const TEST: &str = "a_recovery_takes_no_memory_for_what_is_empty";
    if let Some(folder) = is_rerun() {
        let folder = Path::new(&folder);
        let peak = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
        };
        let before = peak();
        let builder = Session::builder().sink(MemorySink::new()).budget(2 << 20).prefault(0);
        let builder = builder.persistent(folder.join("recorder"));
        let session = builder.recover_to(folder.join("recovered.nettrace")).start().unwrap();
        assert_eq!(session.recovered().unwrap().events, 15);
        let grown = peak() - before;
        assert!(grown < 16 << 20, "{grown} bytes");
        return;
    }
    if skipped_in_emulator("the memory of a process") {
        return;
    }
    let folder = folder();
    leave(folder.path(), 25);
    let output = rerun(TEST, folder.path().to_str().unwrap());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
