//! Recorder files: the memory of a session that outlives its process.
//!
//! A session of `nettrace-writer` with `SessionBuilder::persistent` has its memory in a file that
//! the system shares: what a thread has written is there even if the process is killed at the next
//! instruction. This module knows [where everything is](layout) in such a file, and makes a stream
//! of version 6 of what the session's own stream does not have ([`Recorder::recover`]).
//!
//! # Why a killed process leaves nothing torn
//!
//! A thread is killed between two instructions. The processor executes all stores before that
//! point, and none after it, on every architecture: out-of-order execution is invisible to the
//! thread itself and to whoever reads the memory when the thread is gone. The compiler could still
//! move a store, as it could before a signal handler. A fence for the compiler forbids that, and
//! costs no instruction. So after a kill
//!
//! - each row before [`POS`](layout::slot::POS) is whole, and what comes after it does not count;
//! - each event whose `emit` has returned has its number in [`OWN`](layout::slot::OWN) or
//!   [`NESTED`](layout::slot::NESTED), so one that has no row is known to be lost.
//!
//! The chunk that a thread writes to now ends at `POS`. Where an earlier one ends is in the
//! thread's slot ([`BEFORE`](layout::slot::BEFORE)) or in the header of the next one that is not
//! empty ([`BEFORE`](layout::chunk::BEFORE)). The flusher gives those of a thread back in their
//! order, so that one is there.
//!
//! Which rows the session's stream has is read from the stream itself ([`Seen`]), so it does not
//! matter between which two system calls the process was killed. A power failure is another matter:
//! then nothing is certain of a recorder file.
//!
//! Recorder files can be damaged. Whatever the bytes are, recovery ends, and its stream is one of
//! version 6; what could not be read is counted.

mod bytes;
pub mod layout;
mod recover;
mod ring;
mod rows;
mod seen;
mod thread;
mod trace;

use alloc::vec::Vec;

use nettrace_event::keys;

pub use self::{recover::Recovered, seen::Seen, thread::RecordedThread};

use self::{
    bytes::{Bytes, Division},
    layout::{slot, stream, superblock},
    trace::TraceHeader,
};

/// Why the bytes are no recorder file that this version can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecorderError {
    /// The first bytes are others.
    #[error("this is no recorder file")]
    NoRecorder,
    /// Another version of this library wrote it.
    #[error("the recorder file has layout {found}, and this version reads layout {known}")]
    OtherVersion {
        /// The layout of the file.
        found: u32,
        /// The only one that this version can read.
        known: u32,
    },
    /// The session had not begun.
    #[error("the session of this recorder file had not begun")]
    NotBegun,
    /// Places or sizes contradict each other, or the file is cut.
    #[error("the recorder file is damaged: {what} cannot be")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
}

/// The process that writes a recorder file, or wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owner {
    /// Its id.
    pub process: u32,
    /// When it began: field 22 of `/proc/PID/stat`.
    pub started: u64,
    /// The boot of the system: `/proc/sys/kernel/random/boot_id`.
    pub boot: [u8; 16],
    /// The address at which it has the rows in its memory. A process that has become another
    /// program has them no more.
    pub address: u64,
}

/// A recorder file, whose bytes are in memory.
#[derive(Clone, Copy, Debug)]
pub struct Recorder<'a> {
    file: Bytes<'a>,
    division: Division,
}

impl<'a> Recorder<'a> {
    /// The recorder file that has these bytes.
    ///
    /// ```
    /// use nettrace_format::recorder::{Recorder, RecorderError};
    ///
    /// assert_eq!(Recorder::open(b"a text").unwrap_err(), RecorderError::NoRecorder);
    /// ```
    ///
    /// # Errors
    /// [`RecorderError`]: they are none, or none that this version can read.
    pub fn open(bytes: &'a [u8]) -> Result<Self, RecorderError> {
        let file = Bytes(bytes);
        if file.part(0, layout::MAGIC.len()) != layout::MAGIC {
            return Err(RecorderError::NoRecorder);
        }
        let (found, known) = (file.half(superblock::VERSION), layout::VERSION);
        if found != known {
            return Err(RecorderError::OtherVersion { found, known });
        }
        if file.half(superblock::STATE) != superblock::USED {
            return Err(RecorderError::NotBegun);
        }
        let damaged = RecorderError::Damaged { what: "the division into chunks" };
        let division = Division::of(file).ok_or(damaged)?;
        Ok(Self { file, division })
    }

    /// The process that writes the file, or wrote it.
    #[must_use]
    pub fn owner(&self) -> Owner {
        let boot = self.file.part(superblock::BOOT, 16).first_chunk();
        Owner {
            process: self.file.half(superblock::PROCESS),
            started: self.file.word(superblock::STARTED),
            boot: boot.copied().unwrap_or_default(),
            address: self.file.word(superblock::ADDRESS),
        }
    }

    /// What is known of the threads that record now.
    #[must_use]
    pub fn threads(&self) -> Vec<RecordedThread<'a>> {
        let used = self.file.half(superblock::SLOTS_USED).min(slot::MOST as u32);
        let slots = (0..used).map(|number| (number, self.file.slot(number)));
        let slots = slots.filter(|(_, slot)| slot.half(slot::STATE) == 1);
        slots.map(|(number, slot)| RecordedThread::of(number, slot)).collect()
    }

    /// Whether the session has recorded anything that may be in no stream of its own.
    #[must_use]
    pub fn has_events(&self) -> bool {
        let rings = self.ring().is_some_and(|ring| ring.events > 0);
        rings || self.threads().iter().any(|thread| thread.attempted > 0)
    }

    /// How many streams the session has begun.
    #[must_use]
    pub fn streams(&self) -> u64 {
        self.file.word(superblock::STREAMS)
    }

    /// The path of the file of the session's last stream, as bytes of the system. `None`: the
    /// session does not write files.
    #[must_use]
    pub fn trace_path(&self) -> Option<&'a [u8]> {
        let path = |stream: Bytes<'a>| {
            let len = (stream.half(stream::PATH_LEN) as usize).min(stream::MAX_PATH);
            stream.part(stream::PATH, len)
        };
        self.last_streams().map(path).find(|path| !path.is_empty())
    }

    /// What the session's streams have in common: their key-value `nettrace.recording`.
    #[must_use]
    pub fn recording(&self) -> Option<&'a str> {
        self.header()?.value(keys::RECORDING)
    }

    /// Nothing yet of a stream of this recording that begins with these bytes, which end with its
    /// first block. `None`: it is of another recording, or was recovered, or is no stream of
    /// version 6.
    #[must_use]
    pub fn begin_to_see(&self, header: &[u8]) -> Option<Seen> {
        let header = TraceHeader::of(header)?;
        let recording = header.value(keys::RECORDING)?;
        let is_own = self.recording() == Some(recording) && header.value(keys::RECOVERED).is_none();
        let number = header.value(keys::FILE)?.parse().ok()?;
        is_own.then(|| Seen::new(number))
    }

    /// Whether the session's files have other numbers than its streams, as behind a tail decision.
    /// Then the file itself says what they have. Events that the decision held back count as lost.
    #[must_use]
    pub fn has_other_numbers(&self) -> bool {
        self.file.half(superblock::NOTED) == 1
    }

    /// How many threads found no slot: their events cannot be recovered.
    #[must_use]
    pub fn threads_without_slot(&self) -> u64 {
        self.file.word(superblock::THREADS_LOST)
    }

    /// What is known of the last two streams, the last one first. A stream that is just beginning
    /// has not all of it.
    fn last_streams(&self) -> impl Iterator<Item = Bytes<'a>> {
        let (file, last) = (self.file, self.streams());
        [last, last.wrapping_sub(1)].into_iter().map(move |number| file.stream(number))
    }

    /// The header of the last stream.
    fn header(&self) -> Option<TraceHeader<'a>> {
        self.last_streams().find_map(|stream| {
            let len = (stream.half(stream::HEADER_LEN) as usize).min(stream::MAX_HEADER);
            TraceHeader::of(stream.part(stream::HEADER, len))
        })
    }
}
