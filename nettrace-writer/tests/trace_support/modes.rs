//! The ways in which a session can keep what it records: tests for which that can matter try each.

use std::{path::Path, time::Duration};

use nettrace_writer::{Keep, Session, SessionBuilder, Stats, sink::MemorySink};

use super::sound;

/// A way to keep what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    /// It is a flight recorder.
    pub(crate) keeps: bool,
    /// The memory is in a recorder file.
    pub(crate) persists: bool,
}

const PERSISTS: &[bool] =
    if cfg!(all(feature = "persistent", target_os = "linux", target_pointer_width = "64")) {
        &[false, true]
    } else {
        &[false]
    };

/// All modes that there are here.
pub(crate) fn modes() -> impl Iterator<Item = Mode> {
    PERSISTS.iter().flat_map(|&persists| [false, true].map(|keeps| Mode { keeps, persists }))
}

/// A folder in memory, if the system has one: recorder files belong there.
pub(crate) fn folder() -> tempfile::TempDir {
    let in_memory = Path::new("/dev/shm");
    let made =
        if in_memory.is_dir() { tempfile::tempdir_in(in_memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

/// A session into memory in one of the modes.
#[derive(Debug)]
pub(crate) struct InMode {
    mode: Mode,
    sink: MemorySink,
    folder: tempfile::TempDir,
}

impl Mode {
    /// A session that records one provider.
    pub(crate) fn memory(self, provider: &str) -> (InMode, SessionBuilder) {
        let (sink, folder) = (MemorySink::new(), folder());
        let builder = Session::builder().sink(sink.clone()).provider(provider);
        let builder = self.apply(builder, folder.path());
        (InMode { mode: self, sink, folder }, builder)
    }

    /// Makes a session one of this mode. Its recorder file is `recorder` in the folder.
    pub(crate) fn apply(self, builder: SessionBuilder, folder: &Path) -> SessionBuilder {
        let keep = Keep::last(Duration::from_secs(3_600)).within(8 << 20);
        let builder = if self.keeps { builder.flight_recorder(keep) } else { builder };
        #[cfg(all(feature = "persistent", target_os = "linux", target_pointer_width = "64"))]
        let builder =
            if self.persists { builder.persistent(folder.join("recorder")) } else { builder };
        let _ = folder;
        builder
    }
}

impl InMode {
    /// Ends the session. Returns its trace, which is checked against its counts and against what
    /// the recorder file has.
    #[track_caller]
    pub(crate) fn finish(self, session: Session) -> (Vec<u8>, Stats) {
        let recorder = self.folder.path().join("recorder");
        let left = self.mode.persists.then(|| {
            session.flush().expect("memory takes all");
            std::fs::read(&recorder).expect("a recorder file")
        });
        let dump = self.mode.keeps.then(|| session.dump(self.sink.clone()).expect("memory"));
        let stats = session.finish().expect("memory takes all");
        assert!(!recorder.exists());
        let bytes = self.sink.bytes();
        let given_up = dump.map_or(0, |dump| dump.given_up);
        let (events, lost) = sound(&bytes, &[]);
        assert_eq!(stats.attempted, events + given_up + stats.dropped(), "{:?}", self.mode);
        // What was given up of threads that have ended is no gap.
        let missing = given_up + stats.dropped();
        assert!(lost == missing || given_up > 0 && lost < missing, "{lost} {given_up} {stats:?}");
        if let Some(left) = left {
            self.mode.check_recorder(&left, events);
        }
        (bytes, stats)
    }
}

impl Mode {
    /// Checks a recorder file of a session that was flushed: it has all of a flight recorder, and
    /// otherwise what the sink lacks, which is nothing.
    #[cfg(feature = "persistent")]
    #[track_caller]
    fn check_recorder(self, file: &[u8], dumped: u64) {
        let recorder = nettrace_format::recorder::Recorder::open(file).expect("a recorder file");
        let it = recorder.recover(None).expect("a recorder file");
        assert_eq!((it.damaged, it.without_type), (0, 0), "{self:?}");
        assert_eq!(sound(&it.stream, &[]), (it.events, it.lost), "{self:?}");
        assert_eq!(it.events, if self.keeps { dumped } else { 0 }, "{self:?}");
    }

    /// What a process has left in its recorder file that its trace has not: the stream that the
    /// next process makes of it at its start, if there is something.
    #[cfg(feature = "persistent")]
    #[track_caller]
    pub(crate) fn left(self, folder: &Path) -> Option<Vec<u8>> {
        let to = folder.join("recovered.nettrace");
        let builder = Session::builder().sink(MemorySink::new()).provider("Recorder-Next-Process");
        let builder = builder.budget(2 << 20).persistent(folder.join("recorder"));
        let session = builder.recover_to(&to).start().expect("the file is nobody's");
        let found = session.recovered().cloned();
        session.finish().expect("memory takes all");
        let found = found?;
        assert_eq!(found.error, None, "{self:?}");
        let bytes = std::fs::read(&to).expect("a trace");
        assert_eq!(sound(&bytes, &[]), (found.events, found.lost), "{self:?}");
        Some(bytes)
    }

    #[cfg(not(feature = "persistent"))]
    pub(crate) fn left(self, _: &Path) -> Option<Vec<u8>> {
        None
    }

    #[cfg(not(feature = "persistent"))]
    fn check_recorder(self, _: &[u8], _: u64) {
        unreachable!("there is none");
    }
}
