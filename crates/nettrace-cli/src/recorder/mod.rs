//! Recorder files: the memory of a session, in a file that outlives its process.
//!
//! `nettrace recover` ([`recover`](mod@recover)) makes a trace of what such a file has and the
//! session's own files lack ([`remains`]), when its process is gone ([`owner`]). `nettrace info`
//! ([`info`](mod@info)) shows what is in one, also while the process runs.

mod info;
mod owner;
mod recover;
mod remains;

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use nettrace_format::recorder::{Recorder, RecorderError, layout};

pub(crate) use self::{
    info::run as info,
    recover::{RecoverOptions, run as recover},
};
use crate::failure::Failure;

/// So many bytes are read at a time.
const PIECE: usize = 64 << 10;
static ZEROS: [u8; PIECE] = [0; PIECE];

/// The bytes of a recorder file.
pub(crate) struct RecorderFile {
    bytes: Vec<u8>,
}

impl RecorderFile {
    /// Whether a file begins as a recorder file does. `false`: it may also be unreadable.
    pub(crate) fn is_at(path: &Path) -> bool {
        let mut first = [0; layout::MAGIC.len()];
        let is_file = path.as_os_str() != "-" && path.is_file();
        let mut read = || fs::File::open(path).and_then(|mut file| file.read_exact(&mut first));
        is_file && read().is_ok() && first == layout::MAGIC
    }

    /// Reads a recorder file. Most of it is usually holes, which take no memory here either.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let fail = |error| Failure::Open(path.display().to_string(), error);
        let mut file = fs::File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if !metadata.is_file() {
            let text = "a recorder file is an ordinary file";
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let mut piece = vec![0; PIECE];
        let first = file.read(&mut piece).map_err(fail)?;
        if !piece[..first].starts_with(&layout::MAGIC) {
            return Err(RecorderError::NoRecorder.into());
        }
        let len = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        // The vector is made at once. Without this it would end the process if there is no memory.
        if Vec::<u8>::new().try_reserve_exact(len).is_err() {
            return Err(fail(io::ErrorKind::OutOfMemory.into()));
        }
        let mut bytes = vec![0; len];
        let (mut at, mut count) = (0, first);
        while count > 0 && at < len {
            count = count.min(len - at);
            // What is not written stays with the system's page of zeros.
            if piece[..count] != ZEROS[..count] {
                bytes[at..at + count].copy_from_slice(&piece[..count]);
            }
            at += count;
            count = file.read(&mut piece).map_err(fail)?;
        }
        bytes.truncate(at);
        Ok(Self { bytes })
    }

    fn recorder(&self) -> Result<Recorder<'_>, Failure> {
        Ok(Recorder::open(&self.bytes)?)
    }
}
