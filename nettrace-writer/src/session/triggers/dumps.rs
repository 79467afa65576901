//! The thread that writes the dumps of a session.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io::ErrorKind,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    control::TriggerControl,
    request::{DumpRequest, OwedDump},
};
use crate::{
    protocol::clock::Stopwatch,
    session::{
        low_memory::{self, MemoryPressure, MemoryShortage},
        recorder::Recorder,
    },
    shared::{
        channel::{Receiver, RecvError},
        error::Error,
    },
    sink::{
        FileOptions, OwnFile,
        ring::{Dump, Past},
    },
};

/// The most bytes of a trigger's name in the name of a file.
const MOST_OF_NAME: usize = 48;
/// The number of consecutive numbers that other files may have taken.
const MOST_TAKEN: u32 = 10_000;

/// The dumps of a session, as their thread writes them.
pub(super) struct DumpWriter {
    pub(super) recorder: Recorder,
    /// Looked at now and then.
    pub(super) pressure: Option<MemoryPressure>,
    pub(super) control: Arc<TriggerControl>,
    pub(super) folder: PathBuf,
    pub(super) stem: OsString,
    pub(super) after: Duration,
    pub(super) most: usize,
    /// The dumps that this session has written, and that are there.
    pub(super) files: VecDeque<OwnFile>,
    pub(super) number: u32,
}

impl DumpWriter {
    pub(super) fn run(&mut self, inbox: &Receiver<DumpRequest>) {
        while let Ok(first) = self.next(inbox) {
            let mut owed = OwedDump::default();
            owed.add(first);
            let since = Stopwatch::start();
            while !owed.is_urgent {
                match inbox.recv_timeout(self.after.saturating_sub(since.elapsed())) {
                    Ok(next) => owed.add(next),
                    Err(RecvError::Late | RecvError::Gone) => break,
                }
            }
            self.write(&owed);
        }
    }

    /// The next trigger. Looks meanwhile whether memory is short.
    fn next(&mut self, inbox: &Receiver<DumpRequest>) -> Result<DumpRequest, RecvError> {
        let Some(pressure) = &mut self.pressure else { return inbox.recv() };
        loop {
            match inbox.recv_timeout(low_memory::INTERVAL) {
                Err(RecvError::Late) => {}
                next => return next,
            }
            let (name, key, count) = match pressure.look() {
                None => continue,
                Some(MemoryShortage::Waits(percent)) => {
                    ("low-memory", "memory.waits_percent", percent)
                }
                Some(MemoryShortage::Out(times)) => ("out-of-memory", "memory.times_out", times),
            };
            self.control.ask(name, &[(key, &count.to_string())], false, None);
        }
    }

    /// Writes a dump for these triggers, and counts it.
    fn write(&mut self, owed: &OwedDump) {
        let told = owed.told();
        let key_values: Vec<_> = told.iter().map(|(key, value)| (&**key, &**value)).collect();
        let written = self.write_file(owed.name(), &key_values);
        self.control.count(|counts| match written {
            Ok((path, dump)) => {
                counts.written += 1;
                counts.last = Some((path, dump));
            }
            Err(error) => {
                counts.failed += 1;
                counts.last_error = Some(error.to_string());
            }
        });
    }

    fn write_file(
        &mut self,
        name: &str,
        key_values: &[(&str, &str)],
    ) -> Result<(PathBuf, Dump), Error> {
        let asked = SystemTime::now();
        let mut taken = 0;
        loop {
            self.number += 1;
            let path = self.path(name);
            let mut sink = FileOptions::new(&path).files_only().build();
            match self.recorder.dump(Past::All, &mut sink, key_values, asked) {
                Err(Error::Sink(error))
                    if error.kind() == ErrorKind::AlreadyExists && taken < MOST_TAKEN =>
                {
                    taken += 1;
                }
                result => {
                    let dump = result?;
                    self.files.extend(sink.ended());
                    while self.files.len() > self.most {
                        let Some(oldest) = self.files.pop_front() else { break };
                        // It may be gone.
                        let _ = oldest.delete();
                    }
                    return Ok((path, dump));
                }
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        let mut file = self.stem.clone();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let name = name.bytes().map(|byte| if plain(byte) { char::from(byte) } else { '-' });
        let name: String = name.take(MOST_OF_NAME).collect();
        let extension = self.recorder.shared.format.extension();
        file.push(format!("-{name}-{}.{extension}", self.number));
        self.folder.join(file)
    }
}
