//! Traces in Heph's format, which every command recognizes by the first bytes. All but `verify`
//! read them as NetTrace.

mod as_nettrace;

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use nettrace_reader::heph::{Options, Reader, Report, Totals, is_heph};

pub(crate) use self::as_nettrace::SUBSTREAM;
use self::as_nettrace::{AsNetTrace, Aside};
use crate::{
    failure::Failure,
    other_file_types,
    read_options::ReadOptions,
    source::{self, Bytes, Meanwhile, Source},
    standard_error::say,
    summary::Reach,
};

/// A trace of one of the two formats.
#[expect(clippy::enum_variant_names, reason = "a format has this name")]
pub(crate) enum Trace {
    NetTrace(Source),
    Heph(HephSource),
    /// One that is made of another one.
    Made(Source, Original),
}

/// A Heph trace that was not read yet.
pub(crate) struct HephSource {
    bytes: Bytes,
    /// The epoch, which can stand anywhere and holds for all events.
    epoch: Option<u64>,
}

impl HephSource {
    /// Checks the trace by the rules of its own format, and lists `most` violations.
    pub(crate) fn verify(self, limits: ReadOptions, most: usize) -> Result<Report, Failure> {
        let options = self.options(limits);
        Ok(nettrace_reader::heph::verify(self.bytes, options, most)?)
    }

    fn read(self, limits: ReadOptions) -> Reader<Bytes> {
        self.options(limits).open(self.bytes)
    }

    fn options(&self, limits: ReadOptions) -> Options {
        Options::default().streams_limit(limits.definitions()).epoch(self.epoch)
    }
}

/// How many bytes of a pipe are kept while its epoch is looked for.
const MOST_AHEAD: u64 = 64 << 20;

/// Opens a trace and recognizes its format. Everything that is unknown counts as NetTrace.
pub(crate) fn open(file: &Path, meanwhile: Meanwhile) -> Result<Trace, Failure> {
    let mut source = source::open(file, meanwhile)?;
    let mut first = Vec::new();
    (&mut source)
        .take(other_file_types::LONGEST as u64)
        .read_to_end(&mut first)
        .map_err(|error| Failure::Open(file.display().to_string(), error))?;
    let is_heph = is_heph(&first);
    if let Some((what, advice)) = other_file_types::tell(&first, file).filter(|_| !is_heph) {
        return Err(Failure::Foreign(what, advice));
    }
    let source = io::Cursor::new(first).chain(source);
    if is_heph {
        return find_epoch(file, Box::new(source)).map(Trace::Heph);
    }
    Ok(Trace::NetTrace(Source::new(source)))
}

/// Finds the epoch before the events are shown. Mostly it is the first packet.
fn find_epoch(file: &Path, mut bytes: Bytes) -> Result<HephSource, Failure> {
    let is_file = file.as_os_str() != "-" && file.is_file();
    if is_file {
        // Another pass, which ends at the first epoch.
        let again = File::open(file);
        let again = again.map_err(|error| Failure::Open(file.display().to_string(), error))?;
        let epoch = Options::default().find_epoch(again)?;
        return Ok(HephSource { bytes, epoch });
    }
    let mut ahead = Vec::new();
    let epoch = Options::default().find_epoch(Kept { source: &mut bytes, kept: &mut ahead })?;
    if epoch.is_none() && ahead.len() as u64 >= MOST_AHEAD {
        say(Some(format_args!(
            "the first {} MiB state no epoch, so their times are shown as if it were 1970; in a \
             file it is found wherever it stands",
            MOST_AHEAD >> 20
        )))?;
    }
    Ok(HephSource { bytes: Box::new(io::Cursor::new(ahead).chain(bytes)), epoch })
}

/// A source that keeps what is read, and ends after [`MOST_AHEAD`].
struct Kept<'a> {
    source: &'a mut Bytes,
    kept: &'a mut Vec<u8>,
}

impl Read for Kept<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = MOST_AHEAD.saturating_sub(self.kept.len() as u64);
        let most = buffer.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let count = self.source.read(&mut buffer[..most])?;
        self.kept.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

impl Trace {
    /// The trace as a NetTrace trace, whatever its format. What the bytes do not say comes from
    /// [`Original::end`], when they have been read.
    pub(crate) fn into_nettrace(self, limits: ReadOptions) -> Result<(Source, Original), Failure> {
        let source = match self {
            Self::NetTrace(source) => return Ok((source, Original(None))),
            Self::Made(source, original) => return Ok((source, original)),
            Self::Heph(source) => source,
        };
        let aside = Arc::new(Mutex::new(Aside::default()));
        let trace = AsNetTrace::new(source.read(limits), Arc::clone(&aside));
        Ok((Source::new(trace), Original(Some(aside))))
    }
}

/// What a NetTrace trace was before.
#[derive(Debug)]
pub(crate) struct Original(Option<Arc<Mutex<Aside>>>);

/// What was read of a Heph trace.
#[derive(Debug)]
pub(crate) struct HephEnd {
    /// How many bytes it has.
    pub(crate) bytes: u64,
    pub(crate) totals: Totals,
    /// How many events, and attributes of events, are left out.
    pub(crate) left_out: u64,
    /// Why it could not be read to its end.
    pub(crate) failure: Option<nettrace_reader::Error>,
    /// Why the first attribute that is left out could not be decoded.
    damage: Option<nettrace_reader::Error>,
}

impl Original {
    /// Says what is left out of a Heph trace, and how it ended. `None` for a NetTrace trace.
    pub(crate) fn end(self) -> io::Result<Option<HephEnd>> {
        let Some(aside) = self.0 else { return Ok(None) };
        let aside = std::mem::take(&mut *aside.lock().unwrap_or_else(PoisonError::into_inner));
        for (count, what) in [
            (aside.large_events, "events that are too large"),
            (aside.damaged, "attributes of events that cannot be decoded"),
        ] {
            if count > 0 {
                say(Some(format_args!("left out of the Heph trace: {count} {what}")))?;
            }
        }
        Ok(Some(HephEnd {
            bytes: aside.bytes,
            totals: aside.totals,
            left_out: aside.large_events + aside.damaged,
            failure: aside.failure,
            damage: aside.damage,
        }))
    }

    /// Does the same, and fails if the Heph trace is damaged.
    pub(crate) fn end_whole(self) -> Result<(), Failure> {
        let failure = self.end()?.and_then(|end| end.failure);
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Does the same for events that are shown, which fails also if an attribute is left out. What
    /// is wrong behind the first N events does not count.
    pub(crate) fn end_shown(self, reach: Reach) -> Result<(), Failure> {
        let end = if reach == Reach::Head { None } else { self.end()? };
        let failure = end.and_then(|end| end.failure.or(end.damage));
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Does the same for a conversion, which fails also if something is left out.
    pub(crate) fn end_converted(self) -> Result<(), Failure> {
        match self.end()? {
            Some(HephEnd { failure: Some(error), .. }) => Err(error.into()),
            Some(HephEnd { left_out: count @ 1.., .. }) => Err(Failure::Missing(count)),
            _ => Ok(()),
        }
    }
}
