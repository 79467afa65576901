//! Resources that run out and come back: the trace goes on, and tells what it lacks.

#![cfg(unix)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod errors_support;
mod trace_support;

use std::{
    fs,
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nettrace_writer::{
    Emit, Error, Format, Session, SessionBuilder, Stats, TraceEvent,
    sink::{Batch, FileSink, MemorySink, RotationOptions, Sink, StreamEnd, StreamSink, WriteError},
};
use parking_lot::Mutex;
use rustix::{
    io::ioctl_fionread,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use testkit::{
    effort::left_out,
    process::{self, one_at_a_time},
    reference::judged,
    small_disk::SmallDisk,
};

use crate::errors_support::read;

const FORMATS: [Format; 4] = [Format::V6, Format::V5, Format::V4, Format::Heph];

#[derive(TraceEvent)]
#[trace_event(provider = "Recovery")]
struct Work<'a> {
    id: u64,
    text: &'a str,
}

fn builder(format: Format) -> SessionBuilder {
    let builder = Session::builder().provider("Recovery").format(format).prefault(0);
    builder.flush_interval(Duration::from_millis(5)).chunk_size(4_096)
}

fn emit(ids: std::ops::Range<u64>) {
    ids.for_each(|id| Work { id, text: "some text" }.emit());
}

/// The kind and code of a flush's error.
fn failing(session: &Session) -> (ErrorKind, Option<i32>) {
    match session.flush() {
        Err(Error::Sink(_)) => {
            let last = session.stats().last_sink_error.expect("it is told");
            (last.kind, last.code)
        }
        other => panic!("{other:?}"),
    }
}

/// The ids in a trace, and how many events are missing. A thread of its own verifies the trace.
fn ids(format: Format, bytes: &[u8]) -> (Vec<u64>, u64) {
    let (events, lost) = read(format, bytes);
    if format != Format::Heph {
        if let Some(verdict) = judged(bytes) {
            assert_eq!(verdict["events"], events.len().to_string(), "{format:?} {verdict:?}");
            assert_eq!(verdict["lost"], lost.to_string(), "{format:?} {verdict:?}");
        }
    }
    (events.iter().map(|event| event.id).collect(), lost)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

fn limit(resource: Resource, current: u64) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(current), maximum }).unwrap();
}

/// Checks what must hold at the end, whatever was lost. `traces` are the files.
fn settled(format: Format, stats: &Stats, traces: &[Vec<u8>], attempted: u64) -> Vec<u64> {
    assert_eq!(stats.attempted, attempted, "{format:?} {stats:?}");
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "{format:?} {stats:?}");
    let (mut seen, mut lost) = (Vec::new(), 0);
    for trace in traces {
        let (ids, missing) = ids(format, trace);
        seen.extend(ids);
        lost += missing;
    }
    assert_eq!(seen.len() as u64, stats.written, "{format:?} {stats:?}");
    assert_eq!(lost, stats.dropped(), "{format:?} {stats:?}");
    let unique: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(unique.len(), seen.len(), "{format:?}");
    seen
}

/// At one rotation there are no free descriptors. Later there are.
#[test]
fn a_rotation_without_descriptors_goes_on_when_there_are_some() {
    const TEST: &str = "a_rotation_without_descriptors_goes_on_when_there_are_some";
    if !process::alone(TEST) {
        return;
    }
    let before = getrlimit(Resource::Nofile).current.unwrap();
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "part").extension("trace");
        let sink = options.file_size(64 << 10).build().unwrap();
        let session = builder(format).sink(sink).start().unwrap();
        emit(0..100);
        session.flush().unwrap();
        limit(Resource::Nofile, 3);
        let mut next = 100;
        while session.flush().is_ok() {
            assert!(next < 100_000, "{format:?}: it does not rotate");
            emit(next..next + 500);
            next += 500;
        }
        assert_eq!(failing(&session).1, Some(24), "{format:?}: too many open files");
        // Without descriptors events are lost. A little later there are some.
        emit(next..next + 3_000);
        next += 3_000;
        failing(&session);
        let (errors, start) = (session.stats().sink_errors, Instant::now());
        thread::sleep(Duration::from_millis(50));
        while session.stats().sink_errors == errors {
            assert!(start.elapsed() < Duration::from_secs(240), "{format:?}: nothing is tried");
            thread::sleep(Duration::from_millis(1));
        }
        let tries = session.stats().sink_errors - errors;
        let intervals = start.elapsed().as_secs_f64() / 0.005;
        assert!((tries as f64) < 3.0 * intervals, "{format:?}: {tries} in {intervals} intervals");
        limit(Resource::Nofile, before);
        session.flush().unwrap();
        emit(next..next + 10_000);
        next += 10_000;
        let stats = session.finish().unwrap();
        assert!(stats.lost_in_sink >= 3_000, "{format:?} {stats:?}");
        let traces: Vec<_> = files(directory.path()).iter().map(|f| fs::read(f).unwrap()).collect();
        let seen = settled(format, &stats, &traces, next);
        assert_eq!(seen.last(), Some(&(next - 1)), "{format:?}");
        assert!(seen.len() as u64 + stats.drops.total() >= 10_100, "{format:?}");
        assert!(traces.iter().all(|trace| trace.len() <= 80 << 10), "{format:?}");
    }
}

/// The file size limit is reached and raised. If a small disk can be mounted, another test does the
/// same with a full disk.
fn fill(format: Format, path: &Path, kind: ErrorKind, make_room: impl FnOnce()) {
    let session = builder(format).sink(FileSink::new(path)).start().unwrap();
    let mut next = 0;
    while session.flush().is_ok() {
        assert!(next < 100_000, "{format:?}: it is never full");
        emit(next..next + 200);
        next += 200;
    }
    assert_eq!(session.stats().last_sink_error.unwrap().kind, kind);
    // The file is complete, and stays so.
    let full = read(format, &fs::read(path).unwrap()).0.len();
    for round in 0..5 {
        emit(next..next + 1_000);
        next += 1_000;
        thread::spawn(move || emit(1 << 40 | round..(1 << 40 | round) + 1)).join().unwrap();
        // The room that is left may suffice for the gap alone.
        let _ = session.flush();
        let now = read(format, &fs::read(path).unwrap()).0.len();
        assert!(now >= full && now < full + 2_000, "{format:?}");
    }
    assert_eq!(session.stats().last_sink_error.unwrap().kind, kind);
    make_room();
    session.flush().unwrap();
    emit(next..next + 1_000);
    next += 1_000;
    thread::sleep(Duration::from_millis(20));
    let stats = session.finish().unwrap();
    assert!(stats.lost_in_sink >= 1_000 && stats.sink_errors >= 2, "{format:?} {stats:?}");
    let seen = settled(format, &stats, &[fs::read(path).unwrap()], next + 5);
    assert!(seen.ends_with(&(next - 1_000..next).collect::<Vec<_>>()), "{format:?}");
}

#[test]
fn a_file_goes_on_when_the_size_limit_is_raised() {
    const TEST: &str = "a_file_goes_on_when_the_size_limit_is_raised";
    if !process::alone(TEST) {
        return;
    }
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let before = getrlimit(Resource::Fsize);
        limit(Resource::Fsize, 60_000);
        fill(format, &path, ErrorKind::FileTooLarge, || {
            setrlimit(Resource::Fsize, before).unwrap();
        });
    }
}

/// A file of a rotation cannot become as large as its bound allows. The next file begins.
#[test]
fn a_rotation_goes_on_in_the_next_file_where_one_takes_no_more() {
    if left_out() {
        return;
    }
    const TEST: &str = "a_rotation_goes_on_in_the_next_file_where_one_takes_no_more";
    if !process::alone(TEST) {
        return;
    }
    let before = getrlimit(Resource::Fsize);
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "part").extension("trace");
        let sink = options.file_size(1 << 20).build().unwrap();
        limit(Resource::Fsize, 60_000);
        let session = builder(format).sink(sink).start().unwrap();
        let mut next = 0;
        while files(directory.path()).len() < 4 {
            assert!(next < 100_000, "{format:?}: no file follows");
            emit(next..next + 200);
            next += 200;
            let _ = session.flush();
        }
        emit(next..next + 1);
        next += 1;
        let stats = session.finish().unwrap();
        setrlimit(Resource::Fsize, before).unwrap();
        let error = stats.last_sink_error.unwrap();
        assert_eq!(error.kind, ErrorKind::FileTooLarge, "{format:?}");
        let traces: Vec<_> = files(directory.path()).iter().map(|f| fs::read(f).unwrap()).collect();
        let seen = settled(format, &stats, &traces, next);
        assert_eq!(seen.last(), Some(&(next - 1)), "{format:?}");
    }
}

/// Every event is lost, and then there is room again. In versions 4 and 5 a stream without events
/// cannot tell losses, so the error is not over.
#[test]
fn a_session_that_lost_all_events_succeeds_only_if_the_trace_tells_it() {
    const TEST: &str = "a_session_that_lost_all_events_succeeds_only_if_the_trace_tells_it";
    if !process::alone(TEST) {
        return;
    }
    let before = getrlimit(Resource::Fsize);
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let session = builder(format).sink(FileSink::new(&path)).start().unwrap();
        limit(Resource::Fsize, fs::metadata(&path).unwrap().len() + 10);
        emit(0..100);
        assert_eq!(failing(&session).0, ErrorKind::FileTooLarge, "{format:?}");
        setrlimit(Resource::Fsize, before).unwrap();
        session.flush().unwrap();
        let (stats, result) = session.finish_with_stats();
        assert_eq!((stats.attempted, stats.lost_in_sink), (100, 100), "{format:?} {stats:?}");
        let told = ids(format, &fs::read(&path).unwrap());
        match format {
            Format::V6 | Format::Heph => {
                result.unwrap();
                assert_eq!(told, (vec![], 100), "{format:?}");
            }
            _ => {
                let text = result.unwrap_err().to_string();
                assert!(text.starts_with("cannot write the trace"), "{format:?}: {text}");
                assert_eq!(told, (vec![], 0), "{format:?}");
            }
        }
    }
}

/// A session that writes only when it is told to.
fn quiet(format: Format) -> SessionBuilder {
    builder(format).flush_interval(Duration::from_secs(3_600))
}

/// What somebody else does to the file.
fn truncate(path: &Path, leaves_zeros: bool) {
    let file = fs::File::options().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(0).unwrap();
    if leaves_zeros {
        // As if the session had just written at its old end.
        file.set_len(length).unwrap();
    }
}

/// Somebody deletes the file, or puts another one in its place (`rm`, systemd-tmpfiles, `mv`).
#[cfg(unix)]
#[test]
fn a_file_that_somebody_deletes_begins_anew() {
    let _alone = one_at_a_time();
    for format in FORMATS {
        for is_replaced in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let (path, other) = (directory.path().join("trace"), directory.path().join("other"));
            let session = quiet(format).file(&path).start().unwrap();
            emit(0..100);
            session.flush().unwrap();
            if is_replaced {
                fs::write(&other, "of somebody").unwrap();
                fs::rename(&other, &path).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            emit(1_000..1_010);
            let error = session.flush().unwrap_err().to_string();
            assert!(error.contains("deleted or replaced"), "{error}");
            assert!(session.warnings().iter().any(|one| one.to_string().contains("deleted")));
            if is_replaced {
                // It stays, as at the start.
                emit(1_010..1_020);
                let error = session.flush().unwrap_err().to_string();
                assert!(error.contains("it exists"), "{error}");
                assert_eq!(fs::read(&path).unwrap(), b"of somebody");
                fs::remove_file(&path).unwrap();
            }
            emit(2_000..2_100);
            session.flush().unwrap();
            assert_eq!(session.warnings(), []);
            let stats = session.finish().unwrap();
            assert_eq!(
                (stats.written + stats.lost_in_sink, stats.attempted),
                (stats.attempted, 210 + u64::from(is_replaced) * 10)
            );
            let (ids, lost) = ids(format, &fs::read(&path).unwrap());
            assert_eq!(*ids.last().unwrap(), 2_099, "{format:?}");
            assert_eq!(stats.written, 100 + ids.len() as u64, "{lost:?}");
        }
        // A file that is moved has a name, and goes on.
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("trace"), directory.path().join("trace.1"));
        let session = quiet(format).file(&path).start().unwrap();
        emit(0..100);
        session.flush().unwrap();
        fs::rename(&path, &moved).unwrap();
        emit(100..200);
        session.finish().unwrap();
        assert_eq!(ids(format, &fs::read(&moved).unwrap()).0.len(), 200);
        // Files that the session rotates go on with the next one.
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "trace").file_size(1 << 20);
        let session = quiet(format).sink(options.build().unwrap()).start().unwrap();
        emit(0..100);
        session.flush().unwrap();
        fs::remove_file(&files(directory.path())[0]).unwrap();
        emit(1_000..1_010);
        session.flush().unwrap_err();
        emit(2_000..2_100);
        session.finish().unwrap();
        let last = files(directory.path()).pop().unwrap();
        assert_eq!(*ids(format, &fs::read(&last).unwrap()).0.last().unwrap(), 2_099);
    }
}

/// `logrotate` copies a log and truncates it (`copytruncate`), while the program has it open.
#[test]
fn a_file_that_somebody_truncates_begins_anew() {
    let _alone = one_at_a_time();
    for format in FORMATS {
        for (leaves_zeros, before) in [(false, 100), (true, 100), (false, 0)] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("trace");
            let session = quiet(format).file(&path).start().unwrap();
            emit(0..before);
            session.flush().unwrap();
            truncate(&path, leaves_zeros);
            emit(1_000..1_010);
            let error = session.flush().unwrap_err().to_string();
            assert!(error.contains("copytruncate"), "{error}");
            assert!(session.warnings().iter().any(|one| one.to_string().contains("copytruncate")));
            emit(2_000..2_100);
            session.flush().unwrap();
            assert_eq!(session.warnings(), []);
            emit(3_000..3_100);
            let stats = session.finish().unwrap();
            assert_eq!((stats.written, stats.lost_in_sink), (before + 200, 10), "{stats:?}");
            let (ids, _) = ids(format, &fs::read(&path).unwrap());
            let expected: Vec<_> = (2_000..2_100).chain(3_000..3_100).collect();
            assert_eq!(ids, expected, "{format:?}, zeros: {leaves_zeros}, {before} before");
        }
        // At the end, when nothing is left to tell but the end.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let session = quiet(format).file(&path).start().unwrap();
        emit(0..100);
        session.flush().unwrap();
        truncate(&path, false);
        let (stats, _) = session.finish_with_stats();
        assert_eq!(stats.written, 100, "{stats:?}");
        let trace = fs::read(&path).unwrap();
        assert!(trace.is_empty() || ids(format, &trace).0.is_empty(), "{format:?}");
        // Files that the session rotates go on with the next one.
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "trace").file_size(1 << 20);
        let session = quiet(format).sink(options.build().unwrap()).start().unwrap();
        emit(0..100);
        session.flush().unwrap();
        truncate(&files(directory.path())[0], false);
        emit(1_000..1_010);
        session.flush().unwrap_err();
        emit(2_000..2_100);
        session.finish().unwrap();
        let last = files(directory.path()).pop().unwrap();
        let (ids, _) = ids(format, &fs::read(&last).unwrap());
        assert_eq!(ids, (2_000..2_100).collect::<Vec<_>>(), "{format:?}");
    }
}

#[test]
fn a_file_goes_on_when_the_disk_has_room_again() {
    let _alone = one_at_a_time();
    for format in FORMATS {
        let Some(disk) = SmallDisk::mount(64) else { return };
        fill(format, &disk.path().join("trace"), ErrorKind::StorageFull, || disk.resize(1 << 10));
    }
}

/// A full pipe takes nothing for longer than a write waits. Then somebody reads it.
#[test]
fn a_full_pipe_goes_on_when_it_is_read() {
    let _alone = one_at_a_time();
    for format in FORMATS {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let sink = StreamSink::new(ours).stall_timeout(Duration::from_millis(50));
        let session = builder(format).budget(1 << 20).sink(sink).start().unwrap();
        let mut next = 0;
        while session.flush().is_ok() {
            assert!(next < 1_000_000, "{format:?}: it is never full");
            emit(next..next + 1_000);
            next += 1_000;
        }
        for _ in 0..3 {
            assert_eq!(failing(&session).0, ErrorKind::TimedOut, "{format:?}");
            emit(next..next + 1_000);
            next += 1_000;
        }
        let unread = theirs.try_clone().unwrap();
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            theirs.read_to_end(&mut bytes).map(|_| bytes).unwrap()
        });
        while session.flush().is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        // There is room for what follows, however late the reader gets a processor.
        while ioctl_fionread(&unread).unwrap() > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        emit(next..next + 10);
        next += 10;
        let stats = session.finish().unwrap();
        assert!(stats.lost_in_sink >= 2_000, "{format:?} {stats:?}");
        let seen = settled(format, &stats, &[reader.join().unwrap()], next);
        assert!(seen.ends_with(&(next - 10..next).collect::<Vec<_>>()), "{format:?}");
    }
}

/// Takes this many bytes, and then nothing for ever.
#[derive(Clone, Debug)]
struct Narrow {
    taken: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.taken.lock();
        match bytes.len().min(self.room - taken.len()) {
            0 => Err(ErrorKind::WouldBlock.into()),
            count => {
                taken.extend_from_slice(&bytes[..count]);
                Ok(count)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Nobody reads a full pipe any more. The events of the block that is written in part are lost and
/// counted.
#[test]
fn a_pipe_that_stays_full_has_the_events_that_are_counted() {
    let _alone = one_at_a_time();
    for room in (3_000..12_000).step_by(379) {
        let writer = Narrow { taken: Arc::default(), room };
        let sink = StreamSink::new(writer.clone()).stall_timeout(Duration::ZERO);
        let session = builder(Format::V6).sink(sink).start().unwrap();
        emit(0..1_000);
        assert_eq!(failing(&session).0, ErrorKind::TimedOut);
        emit(1_000..1_100);
        let (stats, result) = session.finish_with_stats();
        assert!(matches!(result, Err(Error::Sink(_))), "{result:?}");
        assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
        let bytes = writer.taken.lock();
        let mut reader = nettrace_reader::Reader::new(&**bytes).unwrap();
        let mut events = 0;
        while let Ok(Some(_)) = reader.next_event() {
            events += 1;
        }
        assert_eq!(events, stats.written, "{room}: {stats:?}");
    }
}

/// A reader that is gone ends the trace, once and for all.
#[test]
fn a_closed_pipe_ends_the_trace() {
    let _alone = one_at_a_time();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let session = builder(Format::V6).sink(StreamSink::new(ours)).start().unwrap();
    emit(0..10);
    session.flush().unwrap();
    // To drop it does not suffice: a child that another test has just forked may still hold it, and
    // then what is written arrives.
    theirs.shutdown(Shutdown::Both).unwrap();
    emit(10..20);
    for _ in 0..3 {
        assert_eq!(failing(&session).0, ErrorKind::BrokenPipe);
        thread::sleep(Duration::from_millis(20));
    }
    let (stats, result) = session.finish_with_stats();
    match result {
        Err(Error::Sink(error)) => assert_eq!(error.kind(), ErrorKind::BrokenPipe),
        other => panic!("{other:?}"),
    }
    assert_eq!((stats.attempted, stats.written, stats.lost_in_sink), (20, 10, 10), "{stats:?}");
    assert_eq!(stats.sink_errors, 1, "nothing is tried again");
}

/// Fails, and says that it kept more than there was.
struct Boastful(MemorySink);

impl Sink for Boastful {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.0.start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        self.0.write(batch)?;
        Err(WriteError::new(ErrorKind::StorageFull.into(), u64::MAX))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
}

#[test]
fn a_sink_cannot_have_kept_more_than_there_was() {
    let _alone = one_at_a_time();
    let memory = MemorySink::new();
    // No round between an event and its flush, however late this thread gets a processor: while a
    // sink fails, other rounds do not ask it.
    let builder = builder(Format::V6).flush_interval(Duration::from_secs(3_600));
    let session = builder.sink(Boastful(memory.clone())).start().unwrap();
    for round in 0..4 {
        emit(4 * round..4 * round + 4);
        assert_eq!(failing(&session).0, ErrorKind::StorageFull);
    }
    let (stats, _) = session.finish_with_stats();
    assert_eq!((stats.written, stats.lost_in_sink), (16, 0));
    assert_eq!(stats.bytes, memory.len() as u64);
    assert_eq!(ids(Format::V6, &memory.bytes()), ((0..16).collect(), 0));
}
