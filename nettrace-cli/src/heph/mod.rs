//! The commands for traces in Heph's format. Every command recognizes the format by the first
//! bytes. Events are shown in the order of the file. A writer writes a span when the span ends.

mod events;
mod info;
mod spans;
mod verify;

use std::{
    fmt,
    io::{self, Read},
    path::Path,
};

use nettrace_reader::heph::{Options, is_heph};

use crate::{
    args::Limits,
    failure::Failure,
    source::{self, Bytes, Source},
    spelling::FileTime,
};

pub(crate) use self::{
    events::{dump, headers},
    info::info,
    verify::verify,
};

/// A trace of one of the two formats.
pub(crate) enum Trace {
    NetTrace(Source),
    Heph(Bytes),
}

/// Opens a trace and recognizes its format. Everything but a Heph trace counts as NetTrace.
pub(crate) fn open(file: &Path) -> Result<Trace, Failure> {
    let mut source = source::open(file)?;
    let mut first = Vec::new();
    (&mut source)
        .take(4)
        .read_to_end(&mut first)
        .map_err(|error| Failure::Open(file.display().to_string(), error))?;
    let is_heph = is_heph(&first);
    let source = io::Cursor::new(first).chain(source);
    if is_heph {
        return Ok(Trace::Heph(Box::new(source)));
    }
    let ahead = Source::new(source);
    Ok(Trace::NetTrace(ahead.map_err(|error| Failure::Open(file.display().to_string(), error))?))
}

fn options(limits: Limits) -> Options {
    Options::default().streams_limit(limits.definitions())
}

/// The epoch of a trace, which a trace need not state.
struct Epoch(Option<u64>);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// From 1601 to 1970, in units of 100 ns.
        const UNIX: u64 = 116_444_736_000_000_000;
        match self.0 {
            Some(nanos) => FileTime(nanos / 100 + UNIX).fmt(f),
            None => f.write_str("none"),
        }
    }
}
