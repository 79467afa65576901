//! Several files as one stream, of which a command knows nothing else.
//!
//! The files of one recording are joined as they are. Several recordings become a stream of version
//! 6, in the order of time. Each is read sorted ([`lanes`]), from when it begins to its end, so
//! memory depends on how many overlap and not on how many there are. Ids and threads of different
//! recordings are kept apart ([`stream`]). Times are those of the recordings' own clocks, which can
//! be aligned ([`clocks`]).
//!
//! | of the recordings | in the result |
//! |---|---|
//! | times | nanoseconds, if there are several; one recording keeps its ticks |
//! | key-values that all have, with the same value | the same |
//! | other key-values | the key has the recording's number before it, as `2/ProcessId` |
//! | a process id that another recording has too | a multiple of 10,000,000 is added |
//! | an event id that another type of the provider has | another id |
//! | losses | gaps in the numbers of threads |
//! | a file that is missing between two | a key-value `nettrace.missing` |

mod clocks;
mod ids;
mod lanes;
mod stream;

use std::{
    io::{self, Read, Write},
    sync::{Arc, Mutex, PoisonError},
};

use self::lanes::{Lanes, Times};
pub(crate) use self::{
    lanes::Lane,
    stream::{Kept, Stream},
};
use crate::{
    convert::destination::{Destination, OutputFile},
    failure::Failure,
    files::{Content, Files, Joined, JoinedEnding, ReadEnd, Recording, say_gaps},
    heph,
    read_options::ReadOptions,
    source::{self, Bytes, Meanwhile, Source},
    standard_error::say,
};

/// The bytes of the merged stream. They are made while they are read.
pub(crate) struct Merged {
    lanes: Lanes<Stream>,
    stream: Stream,
    /// How many of the stream's bytes have been read.
    read: usize,
    has_ended: bool,
    end: Arc<Mutex<ReadEnd>>,
}

/// Whether what there is to say of the files is told, such as which are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notes {
    Told,
    /// It was told before.
    Silent,
}

/// Opens a trace. Several files become one stream; [`JoinedEnding`] says more when it was read.
/// `as_stream` says that the caller copies blocks, which does not work for joined streams.
pub(crate) fn open(
    files: Files,
    limits: &mut ReadOptions,
    meanwhile: Meanwhile,
    as_stream: bool,
    notes: Notes,
) -> Result<(heph::Trace, JoinedEnding), Failure> {
    let recordings = match files.into_content() {
        Content::One(path) => return Ok((heph::open(&path, meanwhile)?, JoinedEnding(None))),
        Content::Several(recordings) => recordings,
    };
    if notes == Notes::Told {
        say_gaps(&recordings)?;
    }
    let is_joined = recordings.len() == 1 && recordings[0].is_joined() && !as_stream;
    let begins = is_joined.then(Vec::new);
    let end = Arc::new(Mutex::new(ReadEnd { begins, ..ReadEnd::default() }));
    let size = recordings.iter().flat_map(|it| &it.files).map(|file| file.size).sum();
    let bytes: Bytes = if is_joined {
        limits.joined = true;
        Box::new(Joined::new(recordings[0].parts(), Arc::clone(&end)))
    } else {
        Box::new(start(recordings, *limits, &end, notes)?)
    };
    let source = Source::new(source::watched(bytes, Some(size), meanwhile));
    Ok((heph::Trace::NetTrace(source), JoinedEnding(Some(end))))
}

/// Begins to merge recordings. `end` gets what is wrong with them.
pub(crate) fn start(
    recordings: Vec<Recording>,
    limits: ReadOptions,
    end: &Arc<Mutex<ReadEnd>>,
    notes: Notes,
) -> Result<Merged, Failure> {
    let mut times = Times::of(&recordings)?;
    if limits.align_clocks {
        let said = clocks::align(&recordings, &mut times, limits)?;
        if notes == Notes::Told {
            said.into_iter().try_for_each(|note| say(Some(note)))?;
        }
    }
    let stream = Stream::begin(&recordings, &times)?;
    let lanes = Lanes::new(recordings, times, limits, Arc::clone(end));
    Ok(Merged { lanes, stream, read: 0, has_ended: false, end: Arc::clone(end) })
}

impl Merged {
    /// Makes bytes, if all have been read, and returns those that come next: none at the end.
    fn go_on(&mut self) -> Result<&[u8], Failure> {
        if self.read == self.stream.bytes.len() {
            self.stream.bytes.clear();
            self.read = 0;
        }
        while self.stream.bytes.is_empty() && !self.has_ended {
            match self.lanes.next(&mut self.stream)? {
                Some((at, event)) => self.stream.event(at, event)?,
                None => {
                    self.stream.finish()?;
                    self.has_ended = true;
                    let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
                    end.lack(self.stream.large_events);
                }
            }
        }
        Ok(&self.stream.bytes[self.read..])
    }
}

impl Read for Merged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.go_on().map_err(io::Error::other)?;
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

/// `nettrace merge`: writes one file.
pub(crate) fn run(
    files: Files,
    limits: ReadOptions,
    to: &OutputFile,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let recordings = files.into_recordings()?;
    let (count, of) = (recordings.iter().map(|it| it.files.len()).sum::<usize>(), recordings.len());
    let written = write(recordings, limits, to, stdout)?;
    let Written { events, lost, bytes, .. } = written;
    say(Some(format_args!(
        "# files={count} recordings={of} events={events} lost={lost} bytes={bytes}"
    )))?;
    written.end()
}

/// What was written of recordings.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) bytes: u64,
    ending: JoinedEnding,
}

/// Writes one file of recordings.
pub(crate) fn write(
    recordings: Vec<Recording>,
    limits: ReadOptions,
    to: &OutputFile,
    stdout: &mut impl Write,
) -> Result<Written, Failure> {
    say_gaps(&recordings)?;
    let end = Arc::new(Mutex::new(ReadEnd::default()));
    let mut merged = start(recordings, limits, &end, Notes::Told)?;
    let mut destination = Destination::open(&to.output, to.force, stdout)?;
    loop {
        let bytes = merged.go_on()?;
        if bytes.is_empty() {
            break;
        }
        destination.write(bytes)?;
        merged.read = merged.stream.bytes.len();
    }
    let bytes = destination.finish()?;
    let Stream { events, lost, .. } = merged.stream;
    Ok(Written { events, lost, bytes, ending: JoinedEnding(Some(end)) })
}

impl Written {
    /// Says what is wrong with the files. Fails if the result lacks something.
    pub(crate) fn end(self) -> Result<(), Failure> {
        self.ending.after(Ok(()))
    }
}
