//! The part of a trace that passes filters, as a stream of which a command knows nothing else.
//!
//! `dump`, `headers` and `tail` show each event that passes. What makes something of whole spans
//! (`report`, `errors`, `diff`, `view`, `convert`, `merge`) would find them torn apart, and take
//! what the filters leave out for lost. So it reads an excerpt: of each trace in which an event or
//! a span passes, all events ([`selection`]), and of what belongs to no span the events that pass.
//! What is below a span that never ends counts as a trace of its own ([`frames`]).
//! It is a stream of version 6 as [`merge`](crate::merge) makes it of several files. The numbers of
//! its threads count what is in it, and what the source has lost; and its types, threads, stacks
//! and labels are those that its events have.

mod frames;
mod judge;
mod selection;

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use nettrace_event::keys;
use nettrace_reader::{SortedReader, WallTime};

#[cfg(unix)]
pub(crate) use self::judge::{Filters, SpanJudge};
use self::selection::Selection;
use crate::{
    convert::destination::{Destination, OutputFile},
    failure::Failure,
    files::{Content, File, Files, JoinedEnding, Origins, ReadEnd},
    filter::EventFilter,
    heph::{Original, Trace},
    merge::{self, Kept, Lane, Notes, Stream},
    read_options::ReadOptions,
    source::{Meanwhile, Source},
    standard_error::say,
};

/// The bytes of an excerpt. They are made while they are read.
struct Excerpt {
    /// `None` at the end.
    events: Option<SortedReader<Source>>,
    lane: Lane,
    stream: Stream,
    kept: Kept,
    selection: Selection,
    /// How many of the stream's bytes have been read.
    read: usize,
    left_out: u64,
    words: String,
    name: PathBuf,
    end: Arc<Mutex<ReadEnd>>,
}

/// Opens a trace as [`merge::open`] does: what of it passes the filters, if there are some.
pub(crate) fn open(
    files: Files,
    limits: &mut ReadOptions,
    meanwhile: Meanwhile,
    as_stream: bool,
    filter: Option<&EventFilter>,
) -> Result<(Trace, JoinedEnding), Failure> {
    let Some(filter) = filter.filter(|filter| filter.is_given()) else {
        return merge::open(files, limits, meanwhile, as_stream, Notes::Told);
    };
    let (excerpt, original, end) = begin(files, *limits, meanwhile, filter)?;
    // Its bytes are those of one stream, at other places than in the files.
    limits.joined = false;
    Ok((Trace::Made(Source::new(excerpt), original), JoinedEnding(Some(end))))
}

/// Reads a trace once, and begins its excerpt.
fn begin(
    files: Files,
    limits: ReadOptions,
    meanwhile: Meanwhile,
    filter: &EventFilter,
) -> Result<(Excerpt, Original, Arc<Mutex<ReadEnd>>), Failure> {
    if files.each().iter().any(|path| !path.is_file()) {
        return Err(Failure::FilterNeedsFile);
    }
    let selection = select(files.clone(), limits, meanwhile, filter)?;
    read_again(files, limits, meanwhile, filter, selection)
}

/// Reads a trace once: the first pass.
fn select(
    files: Files,
    mut limits: ReadOptions,
    meanwhile: Meanwhile,
    filter: &EventFilter,
) -> Result<Selection, Failure> {
    let (trace, _) = merge::open(files, &mut limits, meanwhile, false, Notes::Told)?;
    let (source, _) = trace.into_nettrace(limits)?;
    Selection::of(source, limits, filter)
}

/// Begins the second pass.
fn read_again(
    files: Files,
    mut limits: ReadOptions,
    meanwhile: Meanwhile,
    filter: &EventFilter,
    selection: Selection,
) -> Result<(Excerpt, Original, Arc<Mutex<ReadEnd>>), Failure> {
    let name = files.name().to_owned();
    let origins = match files.content() {
        // A Heph trace has no name by which it could be recognized.
        Content::One(path) => File::open(path.clone()).ok().map(|file| Origins::of([&file])),
        Content::Several(all) => Some(Origins::of(all.iter().flat_map(|it| &it.files))),
    };
    let (trace, ending) = merge::open(files, &mut limits, meanwhile, false, Notes::Silent)?;
    let (source, original) = trace.into_nettrace(limits)?;
    let reader = limits.options().keep_thread_totals(true).open(source)?;
    // Clocks are aligned by what is in the files, which may grow.
    if !limits.align_clocks && selection.start != start(reader.trace()) {
        return Err(Failure::Replaced);
    }
    let mut key_values = reader.trace().key_values.clone();
    key_values.retain(|(key, _)| key != keys::EXCERPT);
    let excerpt = origins.and_then(|origins| origins.key_value());
    key_values.extend(excerpt.map(|(_, value)| (keys::EXCERPT.to_owned(), value)));
    key_values.push((keys::FILTER.to_owned(), filter.to_string()));
    let end = ending.0.unwrap_or_default();
    let excerpt = Excerpt {
        lane: Lane::of_one(reader.major_version(), reader.trace()),
        stream: Stream::of_trace(reader.trace(), &key_values)?,
        events: Some(reader.sorted()),
        kept: Kept::default(),
        selection,
        read: 0,
        left_out: 0,
        words: filter.to_string(),
        name,
        end: Arc::clone(&end),
    };
    Ok((excerpt, original, end))
}

/// By what a trace is recognized in the second pass: when it began, in ticks and by the wall clock.
fn start(trace: &nettrace_reader::Trace) -> (u64, WallTime) {
    (trace.sync_ticks, trace.sync_time)
}

/// `nettrace merge` with filters: writes one file.
pub(crate) fn write(
    files: Files,
    limits: ReadOptions,
    filter: &EventFilter,
    to: &OutputFile,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let count = files.each().len();
    let (mut excerpt, original, end) = begin(files, limits, Meanwhile::Nothing, filter)?;
    let mut destination = Destination::open(&to.output, to.force, stdout)?;
    while excerpt.go_on()? {
        destination.write(&excerpt.stream.bytes)?;
        excerpt.stream.bytes.clear();
    }
    let bytes = destination.finish()?;
    let Stream { events, lost, .. } = excerpt.stream;
    say(Some(format_args!("# files={count} events={events} lost={lost} bytes={bytes}")))?;
    JoinedEnding(Some(end)).after(original.end_converted())
}

/// Gives `read` what passes the filters of the trace of a path, which may be a folder, and says
/// what is wrong with its files.
pub(crate) fn read_other(
    path: &PathBuf,
    mut limits: ReadOptions,
    filter: Option<&EventFilter>,
    read: &mut dyn FnMut(Source, ReadOptions) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let files = Files::find(std::slice::from_ref(path))?;
    let (trace, ending) = open(files, &mut limits, Meanwhile::Nothing, false, filter)?;
    let (source, original) = trace.into_nettrace(limits)?;
    ending.after(read(source, limits).and_then(|()| original.end_whole()))
}

impl Excerpt {
    /// Makes bytes, unless there are some. Whether there are.
    fn go_on(&mut self) -> Result<bool, Failure> {
        while self.stream.bytes.is_empty() {
            let Some(events) = &mut self.events else { return Ok(false) };
            let end = match events.next_event() {
                Ok(Some(event)) => {
                    if self.selection.has(&event)? {
                        self.stream.add(&event, &self.lane, &mut self.kept)?;
                    } else {
                        self.left_out += 1;
                    }
                    continue;
                }
                Ok(None) => None,
                Err(error) => Some(error),
            };
            self.stream.end_of(events, &mut self.kept)?;
            self.stream.finish()?;
            self.events = None;
            let mut told = self.end.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = end {
                told.cut(&self.name, &error);
            }
            // Without damage, a trace that still grows has only more.
            if told.damaged.is_empty() && self.events_read() < self.selection.events {
                told.damaged.push((self.name.clone(), Failure::Replaced.to_string()));
            }
            told.lack(self.stream.large_events);
            told.notes.push(self.note());
        }
        Ok(true)
    }

    /// How many events the second pass has read.
    fn events_read(&self) -> u64 {
        self.stream.events + self.stream.large_events + self.left_out
    }

    /// What the excerpt is of.
    fn note(&self) -> String {
        let Self { stream, words, selection, .. } = self;
        let all = self.events_read();
        let (events, traces) = (stream.events, selection.count());
        match &selection.nothing {
            Some(why) if events == 0 => why.clone(),
            _ => {
                let traces = match traces {
                    0 => String::new(),
                    1 => ", 1 trace".to_owned(),
                    count => format!(", {count} traces"),
                };
                format!(
                    "only what passes {words}, with all of its trace: {events} of {all} \
                     events{traces}"
                )
            }
        }
    }
}

impl Read for Excerpt {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.stream.bytes.len() {
            self.stream.bytes.clear();
            self.read = 0;
            self.go_on().map_err(io::Error::other)?;
        }
        let rest = &self.stream.bytes[self.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;
    use testkit::streams::{Row, Stream};

    use super::*;

    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        filter: EventFilter,
        #[command(flatten)]
        limits: ReadOptions,
    }

    /// A trace that began at a tick, with so many events.
    fn trace(tick: u64, events: u32) -> Vec<u8> {
        let rows: Vec<_> = (1..=events).map(|at| Row::new(5, at, tick + u64::from(at))).collect();
        Stream::at(tick).thread(5).simple_metadata(1).events(&rows).end()
    }

    /// The first pass says nothing of another trace than the one that it has read.
    #[test]
    fn a_file_that_is_replaced_between_the_passes_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.nettrace");
        let Options { filter, limits } = Options::parse_from(["", "--event", "E1"]);
        let excerpt = |later: Vec<u8>| {
            fs::write(&path, trace(1000, 3)).unwrap();
            let files = Files::find(std::slice::from_ref(&path)).unwrap();
            let first = select(files.clone(), limits, Meanwhile::Nothing, &filter).unwrap();
            fs::write(&path, later).unwrap();
            let (mut excerpt, _, end) =
                read_again(files, limits, Meanwhile::Nothing, &filter, first)?;
            io::copy(&mut excerpt, &mut io::sink()).unwrap();
            JoinedEnding(Some(end)).after(Ok(()))
        };
        assert!(excerpt(trace(1000, 3)).is_ok());
        assert!(excerpt(trace(1000, 4)).is_ok(), "it grows");
        assert!(matches!(excerpt(trace(2000, 3)), Err(Failure::Replaced)));
        assert!(matches!(excerpt(trace(1000, 2)), Err(Failure::Cut(1))));
        let mut cut = trace(1000, 3);
        cut.truncate(cut.len() - 8);
        assert!(matches!(excerpt(cut), Err(Failure::Cut(1))));
    }
}
