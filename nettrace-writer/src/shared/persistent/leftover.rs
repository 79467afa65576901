//! Recovers the events of a dead process that its recorder file has and its trace lacks.

use std::{
    fs::{self, File},
    io::{self, BufReader, ErrorKind, Read, Seek},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use nettrace_format::{
    StreamEnd,
    recorder::{Recorder, Seen},
    v6::{BLOCK_HEADER, END_OF_STREAM, read},
};
use rustix::fs::{CWD, OFlags};

use crate::sink::{FileOptions, Sink as _, open_existing};

/// Bytes at the start of a stream, before its first block.
const STREAM_HEADER: usize = 20;
/// So many bytes are read at a time.
const PIECE: usize = 64 << 10;

/// A file that a process has left.
pub(super) enum Leftover {
    /// Nothing that its own trace has not.
    Nothing,
    /// Something, and no trace was asked for.
    Something,
    /// A trace has all of it.
    All(super::Recovered),
    /// A trace has what could be read.
    Part(super::Recovered),
}

/// Makes a trace in a new file, unless there is nothing.
pub(super) fn recover(old: &File, to: Option<&Path>) -> io::Result<Leftover> {
    let bytes = bytes_of(old)?;
    let recorder = Recorder::open(&bytes).map_err(io::Error::other)?;
    if !recorder.has_events() {
        return Ok(Leftover::Nothing);
    }
    let Some(to) = to else { return Ok(Leftover::Something) };
    let trace = recorder.trace_path().map(|path| Path::new(std::ffi::OsStr::from_bytes(path)));
    let seen = trace.map(|path| seen(&recorder, path));
    let it = recorder.recover(seen.as_ref()).map_err(io::Error::other)?;
    let is_whole = it.damaged + it.without_type == 0;
    if it.events + it.lost == 0 && is_whole {
        return Ok(Leftover::Nothing);
    }
    write(&it.stream, to)?;
    let error = (!is_whole).then(|| "the recorder file is damaged, and events are missing".into());
    let found = super::Recovered { path: to.to_owned(), events: it.events, lost: it.lost, error };
    Ok(if is_whole { Leftover::All(found) } else { Leftover::Part(found) })
}

/// The bytes of a recorder file. Most of it is usually holes. These must take no memory here: it
/// may have been the lack of it that ended the process.
fn bytes_of(mut file: &File) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    // The vector is made at once. Without this it would end the process if there is no memory.
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| ErrorKind::OutOfMemory)?;
    // What is not written stays with the system's page of zeros.
    let mut bytes = vec![0; len];
    let mut piece = vec![0; PIECE];
    file.rewind()?;
    for part in bytes.chunks_mut(PIECE) {
        let piece = &mut piece[..part.len()];
        file.read_exact(piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            part.copy_from_slice(piece);
        }
    }
    Ok(bytes)
}

/// The counts in the last file of a recording, whose path is noted.
fn seen(recorder: &Recorder<'_>, noted: &Path) -> Seen {
    // Without the file, what it had counts as lost. What can be read of one that is damaged counts.
    let mut last = Seen::new(recorder.streams());
    let _ = see(recorder, noted, None, &mut last);
    if recorder.has_other_numbers() {
        // Where the sink has begun files of its own, the last number tells how many.
        for path in beside(noted) {
            let mut seen = Seen::new(0);
            let _ = see(recorder, &path, Some(u64::MAX), &mut seen);
            if seen.stream() > last.stream() {
                last = seen;
            }
        }
        return last;
    }
    if last.stream() < recorder.streams() {
        // The next file's path is not noted. It may be there already.
        for path in beside(noted) {
            let mut seen = Seen::new(0);
            let _ = see(recorder, &path, Some(recorder.streams()), &mut seen);
            if seen.stream() == recorder.streams() {
                return seen;
            }
        }
    }
    last
}

/// The files in the folder of a file.
fn beside(file: &Path) -> impl Iterator<Item = PathBuf> {
    let beside = file.parent().and_then(|folder| fs::read_dir(folder).ok());
    beside.into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Adds what a file of a recording has. If it is not the stream of this number, only which it is.
fn see(
    recorder: &Recorder<'_>,
    path: &Path,
    number: Option<u64>,
    seen: &mut Seen,
) -> io::Result<()> {
    let file = File::from(open_existing(CWD, path.as_os_str(), OFlags::RDONLY)?);
    let metadata = file.metadata()?;
    // What others put there could say that events are in a file which are not.
    if !metadata.is_file() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = BufReader::new(file);
    let mut header = vec![0; STREAM_HEADER];
    file.read_exact(&mut header)?;
    if !header.starts_with(b"Nettrace") {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut block = Vec::new();
    if !next_block(&mut file, &mut block)? {
        return Ok(());
    }
    header.extend_from_slice(&block);
    *seen = recorder.begin_to_see(&header).ok_or(io::ErrorKind::InvalidData)?;
    if number.is_some_and(|number| number != seen.stream()) {
        return Ok(());
    }
    while next_block(&mut file, &mut block)? {
        for block in read::blocks(&block) {
            let added = block.and_then(|block| seen.add(&block));
            added.map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// Reads a block. Returns `false` at the end of the stream.
fn next_block(file: &mut impl Read, block: &mut Vec<u8>) -> io::Result<bool> {
    let mut header = [0; BLOCK_HEADER];
    file.read_exact(&mut header)?;
    block.clear();
    if header == END_OF_STREAM {
        return Ok(false);
    }
    block.extend_from_slice(&header);
    let len = u64::from(u32::from_le_bytes(header) & 0xff_ffff);
    let read = file.take(len).read_to_end(block)? as u64;
    if read == len { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Writes a whole stream into a new file, which has its name only when it is whole.
fn write(stream: &[u8], to: &Path) -> io::Result<()> {
    let mut file = FileOptions::new(to).files_only().build();
    let rest = stream.strip_suffix(&END_OF_STREAM).unwrap_or(stream);
    match file.start(rest, StreamEnd::new(&END_OF_STREAM)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let text = format!("{} exists; let the name have `{{time}}`", to.display());
            Err(io::Error::new(ErrorKind::AlreadyExists, text))
        }
        started => started.and_then(|()| file.finish()),
    }
}
