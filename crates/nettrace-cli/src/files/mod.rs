//! The traces that a command reads: one, or several files that are read as one trace.
//!
//! A session that rotates its files writes one *recording* in several files. Those of version 6 say
//! which recording they are of, and which file of it. If all files are of one such recording, their
//! bytes are read one after another ([`Joined`]). Otherwise the recordings are merged by time into
//! one stream of version 6. [`merge`](crate::merge) does either, so a command reads one stream.
//!
//! The dumps of a flight recorder are joined, too: they are parts of one stream, which may overlap.

mod copies;
mod joined;
mod origins;

use std::{
    collections::HashSet,
    ffi::OsStr,
    fmt,
    fs::{self, DirEntry},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use nettrace_event::keys;
use nettrace_reader::{Options, Trace, heph::is_heph};
use nettrace_views::model::{Clock, Time};
use serde::Serialize;

pub(crate) use self::{
    joined::{BlockFile, FilePart, Joined},
    origins::Origins,
};
use crate::{failure::Failure, other_file_types, spelling::OneLine, standard_error::say};

/// The traces that a command reads.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// The name of the files in messages, and in a report.
    name: PathBuf,
    content: Content,
    /// The number of traces in folders that are left out, because nothing of them can be read.
    unread: usize,
}

/// One trace, or several.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    One(PathBuf),
    /// By the time at which they begin.
    Several(Vec<Recording>),
}

/// Files that one session has written, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) files: Vec<File>,
}

/// One of several files.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) version: u32,
    pub(crate) trace: Trace,
    /// When it begins, in nanoseconds since 1970.
    pub(crate) start: Option<i128>,
    /// Its recording, and its number there.
    pub(crate) part: Option<(String, u64)>,
    /// For a dump of a flight recorder: how many events were before its first one.
    pub(crate) before: Option<u64>,
    /// Of which files it was made, if it says so.
    pub(crate) origins: Option<Origins>,
    /// Of which files it is an excerpt, if it says so.
    pub(crate) excerpt: Option<Origins>,
    /// The number of bytes to read: those before damage that is known.
    pub(crate) most: u64,
}

impl Files {
    /// Looks at what a command is told to read. A folder stands for the traces in it, a pattern for
    /// the files and folders that it matches.
    pub(crate) fn find(paths: &[PathBuf]) -> Result<Self, Failure> {
        let (mut all, mut unread) = (Vec::new(), 0);
        let (mut named, mut in_folders) = (HashSet::new(), HashSet::new());
        for path in &matched(paths)? {
            if path.as_os_str() != "-" && path.is_dir() {
                let found = traces_in(path, &mut unread)?;
                in_folders.extend(found.iter().cloned());
                all.extend(found);
            } else {
                named.insert(path.clone());
                all.push(path.clone());
            }
        }
        in_folders.retain(|path| !named.contains(path));
        let name = match paths {
            [path] => path.clone(),
            _ => format!("{} and {} more", paths[0].display(), paths.len() - 1).into(),
        };
        if let [path] = &all[..] {
            return Ok(Self { name, content: Content::One(path.clone()), unread });
        }
        // A file may be named twice, also in different ways.
        all.sort_by_cached_key(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
        all.dedup_by_key(|path| fs::canonicalize(&*path).unwrap_or_else(|_| path.clone()));
        let mut files = Vec::new();
        for path in all {
            match File::open(path.clone()) {
                Ok(file) => files.push(file),
                // A file that ends within its header, for instance, does not stop the others.
                Err(Failure::Open(_, why)) if in_folders.contains(&path) && !is_heph_at(&path) => {
                    leave_out(&path, &why)?;
                    unread += 1;
                }
                Err(failure) => return Err(failure),
            }
        }
        if files.is_empty() {
            let why = "of no file in it anything can be read";
            let why = io::Error::new(io::ErrorKind::InvalidData, why);
            return Err(Failure::Open(name.display().to_string(), why));
        }
        Ok(Self { name, content: Content::Several(recordings(files)?), unread })
    }

    /// The number of traces in folders that are left out, because nothing of them can be read.
    pub(crate) fn unread(&self) -> usize {
        self.unread
    }

    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Each file by itself.
    pub(crate) fn each(&self) -> Vec<&Path> {
        match &self.content {
            Content::One(path) => vec![path],
            Content::Several(recordings) => {
                recordings.iter().flat_map(|it| &it.files).map(|file| &*file.path).collect()
            }
        }
    }

    /// The summaries of several files; nothing of one.
    pub(crate) fn shown(&self) -> Vec<RecordingFiles> {
        match &self.content {
            Content::One(_) => Vec::new(),
            Content::Several(recordings) => recordings.iter().map(Recording::shown).collect(),
        }
    }

    /// Says where files are missing.
    pub(crate) fn say_gaps(&self) -> io::Result<()> {
        match &self.content {
            Content::One(_) => Ok(()),
            Content::Several(recordings) => say_gaps(recordings),
        }
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// The one file, or the recordings of several.
    pub(crate) fn into_content(self) -> Content {
        self.content
    }

    /// The recordings of several files; one of its own for a single file.
    pub(crate) fn into_recordings(self) -> Result<Vec<Recording>, Failure> {
        Ok(match self.content {
            Content::One(path) => vec![Recording { files: vec![File::open(path)?] }],
            Content::Several(recordings) => recordings,
        })
    }
}

/// Says where files are missing between two of a recording.
pub(crate) fn say_gaps(recordings: &[Recording]) -> io::Result<()> {
    recordings.iter().flat_map(Recording::gaps).try_for_each(|gap| say(Some(gap)))
}

/// The files in a folder, but for hidden ones.
fn visible_files(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<PathBuf>>> {
    let is_file = |path: &io::Result<PathBuf>| path.as_ref().map_or(true, |path| path.is_file());
    Ok(visible(folder)?.filter(is_file))
}

/// The files in a folder. Hidden files are left alone: they are being made.
fn visible(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<PathBuf>>> {
    let is_hidden = |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
    let entries = fs::read_dir(folder)?;
    let entries = entries.filter(move |entry| !entry.as_ref().is_ok_and(is_hidden));
    Ok(entries.map(|entry| entry.map(|entry| entry.path())))
}

/// The paths, with what matches a pattern in its place. A shell does that, unless the pattern is in
/// quotes, or the shell is that of Windows. A path that exists is no pattern.
fn matched(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        let pattern = path.to_str().filter(|text| text.contains(['*', '?', '[']));
        let Some(pattern) = pattern.filter(|_| !path.exists()) else {
            all.push(path.clone());
            continue;
        };
        let fail = |error| Failure::Open(path.display().to_string(), error);
        let invalid = |error| fail(io::Error::new(io::ErrorKind::InvalidInput, error));
        let before = all.len();
        for found in glob::glob(pattern).map_err(invalid)? {
            all.push(found.map_err(|error| fail(error.into()))?);
        }
        if all.len() == before {
            return Err(fail(io::Error::new(io::ErrorKind::NotFound, "nothing matches it")));
        }
    }
    Ok(all)
}

/// Says that a file in a folder is left out.
fn leave_out(path: &Path, why: &io::Error) -> io::Result<()> {
    say(Some(format_args!("{}: {why}; it is left out", OneLine(path.display()))))
}

fn is_heph_at(path: &Path) -> bool {
    first_bytes(path, other_file_types::LONGEST as u64).is_ok_and(|first| is_heph(&first))
}

/// Whether a file is called as traces are.
fn has_name_of_trace(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| matches!(ending, "nettrace" | "heph"))
}

/// The traces in a folder, by the first bytes of its files. One that cannot be opened is left out,
/// and `unread` counts it if it is called as traces are.
fn traces_in(folder: &Path, unread: &mut usize) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error| Failure::Open(folder.display().to_string(), error);
    let mut found = Vec::new();
    for path in visible_files(folder).map_err(fail)? {
        let path = path.map_err(fail)?;
        let first = match first_bytes(&path, other_file_types::LONGEST as u64) {
            Ok(first) => first,
            Err(Failure::Open(_, why)) => {
                leave_out(&path, &why)?;
                *unread += usize::from(has_name_of_trace(&path));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if first == b"Nettrace" || is_heph(&first) {
            found.push(path);
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let has_folders = visible(folder).map_err(fail)?.flatten().any(|path| path.is_dir());
    let hint = match has_folders {
        true => format!("; for the folders in it, name '{}'", folder.join("*").display()),
        false => String::new(),
    };
    let why = format!("no file in it is a trace{hint}");
    Err(fail(io::Error::new(io::ErrorKind::NotFound, why)))
}

fn first_bytes(path: &Path, count: u64) -> Result<Vec<u8>, Failure> {
    let fail = |error| Failure::Open(path.display().to_string(), error);
    let mut first = Vec::new();
    let file = fs::File::open(path).map_err(fail)?;
    file.take(count).read_to_end(&mut first).map_err(fail)?;
    Ok(first)
}

impl File {
    /// Looks at the beginning of a file.
    pub(crate) fn open(path: PathBuf) -> Result<Self, Failure> {
        let fail = |error| Failure::Open(path.display().to_string(), error);
        if path.as_os_str() == "-" {
            let text = "standard input cannot be one of several traces";
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let first = first_bytes(&path, other_file_types::LONGEST as u64)?;
        if is_heph(&first) {
            let text = "a Heph trace cannot be one of several: convert it first (--to v6)";
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        if let Some((what, advice)) = other_file_types::tell(&first, &path) {
            let text = format!("this is no trace, but {what}; {advice}");
            return Err(fail(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        let file = fs::File::open(&path).map_err(fail)?;
        let size = file.metadata().map_err(fail)?.len();
        let reader = Options::default().open(file);
        let reader = reader.map_err(|error| fail(io::Error::other(error)))?;
        let trace = reader.trace();
        let number = trace.value(Trace::FILE).and_then(|number| number.parse().ok());
        let recording = trace.value(Trace::RECORDING).map(str::to_owned);
        Ok(Self {
            size,
            // A stream of version 5 counts as version 4 so far.
            version: reader.major_version(),
            start: Clock::of(trace).start(),
            part: recording.zip(number),
            before: trace.events_before(),
            origins: Origins::stated(trace, keys::CONTAINS),
            excerpt: Origins::stated(trace, keys::EXCERPT),
            trace: trace.clone(),
            most: u64::MAX,
            path,
        })
    }
}

/// The files in a folder that a session has written, of the recording with this name. What was
/// recovered before is none of them.
pub(crate) fn of_recording(folder: &Path, name: &str) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    for path in visible_files(folder)? {
        let path = path?;
        // Another file that cannot be read does not matter.
        if !first_bytes(&path, other_file_types::LONGEST as u64)
            .is_ok_and(|first| first == b"Nettrace")
        {
            continue;
        }
        let Ok(file) = File::open(path) else { continue };
        let is_part = file.part.as_ref().is_some_and(|(recording, _)| recording == name);
        if is_part && file.version >= 6 && file.trace.value(keys::RECOVERED).is_none() {
            found.push(file);
        }
    }
    Ok(found)
}

/// Puts files of one recording together, by the time at which the recordings begin. Leaves out what
/// others have, and says so.
pub(crate) fn recordings(mut files: Vec<File>) -> io::Result<Vec<Recording>> {
    let mut notes = origins::leave_out_excerpts(&mut files);
    notes.extend(origins::leave_out(&mut files));
    let mut found: Vec<Recording> = Vec::new();
    for file in files {
        let is_same = |it: &&mut Recording| {
            let part = it.files[0].part.as_ref();
            part.zip(file.part.as_ref()).is_some_and(|(one, other)| one.0 == other.0)
        };
        match found.iter_mut().find(is_same) {
            Some(recording) => recording.files.push(file),
            None => found.push(Recording { files: vec![file] }),
        }
    }
    let mut all = Vec::new();
    for mut recording in found {
        let files = &mut recording.files;
        files.sort_by_key(|file| {
            (file.part.as_ref().map(|part| part.1), file.start, file.before, !file.size)
        });
        notes.extend(copies::take_out(files)?);
        let is_twice = |pair: &[File]| {
            pair[0].part == pair[1].part && pair.iter().any(|file| file.before.is_none())
        };
        if files.windows(2).any(is_twice) {
            // Which of them is meant cannot be known, so each is read by itself. All files of a
            // tail decision had one number once.
            all.extend(recording.files.into_iter().map(|file| Recording { files: vec![file] }));
        } else {
            all.push(recording);
        }
    }
    for note in notes {
        say(Some(OneLine(note)))?;
    }
    all.sort_by_key(|recording| recording.files[0].start);
    Ok(all)
}

/// The files of a recording, as `info` shows them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RecordingFiles {
    /// `None`: they do not say.
    pub(crate) recording: Option<String>,
    pub(crate) files: usize,
    /// Their numbers, as ranges.
    pub(crate) numbers: Vec<(u64, u64)>,
    /// Where files are missing, in sentences.
    #[serde(skip)]
    pub(crate) gaps: Vec<String>,
}

impl Recording {
    fn shown(&self) -> RecordingFiles {
        let mut numbers: Vec<(u64, u64)> = Vec::new();
        for (_, number) in self.files.iter().filter_map(|file| file.part.as_ref()) {
            match numbers.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
                _ => numbers.push((*number, *number)),
            }
        }
        RecordingFiles {
            recording: self.files[0].part.as_ref().map(|part| part.0.clone()),
            files: self.files.len(),
            numbers,
            gaps: self.gaps().map(|gap| gap.to_string()).collect(),
        }
    }

    /// Whether it can be read file after file.
    pub(crate) fn is_joined(&self) -> bool {
        self.files.iter().all(|file| file.version >= 6 && file.part.is_some())
    }

    pub(crate) fn parts(&self) -> Vec<FilePart> {
        self.files.iter().map(|file| (file.path.clone(), file.most)).collect()
    }

    /// Where files are missing between two.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = Gap<'_>> {
        self.files.windows(2).filter_map(|pair| {
            let (before, after) = (&pair[0], &pair[1]);
            let missing = after.part.as_ref()?.1.saturating_sub(before.part.as_ref()?.1 + 1);
            (missing > 0).then_some(Gap { before, after, missing })
        })
    }
}

/// Files that are missing between two of a recording.
pub(crate) struct Gap<'a> {
    before: &'a File,
    after: &'a File,
    missing: u64,
}

impl fmt::Display for Gap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after, missing } = self;
        let files = if *missing == 1 { "1 file is".into() } else { format!("{missing} files are") };
        let (before, name) = (before.path.display(), after.path.display());
        write!(f, "{files} missing between {} and {}", OneLine(before), OneLine(name))?;
        if let Some(time) = after.start.and_then(Time::of_unix) {
            write!(f, ", which begins at {time}")?;
        }
        write!(f, "; events in between are not counted as lost")
    }
}

/// The end of reading several files.
#[derive(Debug, Default)]
pub(crate) struct ReadEnd {
    /// Where the bytes of each file begin, if they are what the command reads.
    pub(crate) begins: Option<Vec<(u64, PathBuf)>>,
    /// Files that could not be read to their end, and why.
    pub(crate) damaged: Vec<(PathBuf, String)>,
    /// What else there is to say of the result.
    pub(crate) notes: Vec<String>,
    /// How many events the stream that is made of the files cannot hold.
    pub(crate) large_events: u64,
}

impl ReadEnd {
    /// Notes how many events the stream that is made of the files cannot hold.
    pub(crate) fn lack(&mut self, large_events: u64) {
        if large_events > 0 {
            self.large_events += large_events;
            self.notes.push(format!("left out: {large_events} events that are too large"));
        }
    }

    /// Notes that the bytes of the files could be read to this error. `name` is that of all files.
    pub(crate) fn cut(&mut self, name: &Path, error: &nettrace_reader::Error) {
        let begins = self.begins.take().unwrap_or_default();
        let mut before = begins.into_iter().rev().skip_while(|it| it.0 > error.offset());
        let path = before.next().map_or_else(|| name.to_owned(), |(_, path)| path);
        self.damaged.push((path, error.to_string()));
    }
}

/// The outcome of several files once they have been read.
#[derive(Debug)]
pub(crate) struct JoinedEnding(pub(crate) Option<Arc<Mutex<ReadEnd>>>);

/// The facts that a command has about the files that it reads as one trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceFiles<'a> {
    /// The name of the files.
    pub(crate) name: &'a Path,
    pub(crate) recordings: &'a [RecordingFiles],
    pub(crate) ending: &'a JoinedEnding,
}

impl SourceFiles<'_> {
    /// The missing parts of the files, in sentences. Call it when the trace has been read.
    pub(crate) fn missing(&self) -> Vec<String> {
        let gaps = self.recordings.iter().flat_map(|it| &it.gaps).cloned();
        gaps.chain(self.ending.damaged()).chain(self.ending.notes()).collect()
    }
}

impl JoinedEnding {
    /// The files that could not be read to their end, and why.
    fn damaged(&self) -> Vec<String> {
        let Some(end) = &self.0 else { return Vec::new() };
        let end = end.lock().unwrap_or_else(PoisonError::into_inner);
        end.damaged.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect()
    }

    /// What else there is to say of the result.
    fn notes(&self) -> Vec<String> {
        let Some(end) = &self.0 else { return Vec::new() };
        end.lock().unwrap_or_else(PoisonError::into_inner).notes.clone()
    }

    /// Says what is wrong with the files. `result` is how the command ended.
    pub(crate) fn after(self, result: Result<(), Failure>) -> Result<(), Failure> {
        let Some(end) = self.0 else { return result };
        let end = std::mem::take(&mut *end.lock().unwrap_or_else(PoisonError::into_inner));
        for note in &end.notes {
            say(Some(OneLine(note)))?;
        }
        for (path, why) in &end.damaged {
            say(Some(format_args!("{}: {why}", OneLine(path.display()))))?;
        }
        match result {
            Err(Failure::Trace(error)) => {
                let begins = end.begins.iter().flatten().rev();
                let mut before = begins.skip_while(|(begin, _)| *begin > error.offset());
                let Some((begin, path)) = before.next() else { return Err(error.into()) };
                let within = error.offset() - begin;
                Err(Failure::OneOf(path.display().to_string(), within, error))
            }
            Ok(()) if !end.damaged.is_empty() => Err(Failure::Cut(end.damaged.len())),
            Ok(()) if end.large_events > 0 => Err(Failure::Missing(end.large_events)),
            result => result,
        }
    }
}
