//! Makes a trace of what a process has left in its recorder file and its own trace has not.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Seek, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    path::Path,
};

use nettrace_format::{
    recorder::{Recorder, Seen},
    v6::{BLOCK_HEADER, END_OF_STREAM, read},
};

/// Bytes at the start of a stream, before its first block.
const STREAM_HEADER: usize = 20;

/// What a process has left.
pub(super) enum Found {
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
pub(super) fn recover(old: &File, to: Option<&Path>) -> io::Result<Found> {
    let bytes = bytes_of(old)?;
    let recorder = Recorder::open(&bytes).map_err(io::Error::other)?;
    if !recorder.has_events() {
        return Ok(Found::Nothing);
    }
    let Some(to) = to else { return Ok(Found::Something) };
    let trace = recorder.trace_path().map(|path| Path::new(std::ffi::OsStr::from_bytes(path)));
    // Without the file, what it had counts as lost.
    let seen = trace.map(|path| {
        let mut seen = Seen::new(recorder.streams());
        // What can be read of a file that is damaged counts.
        let _ = see(&recorder, path, &mut seen);
        seen
    });
    let it = recorder.recover(seen.as_ref()).map_err(io::Error::other)?;
    if it.events + it.lost == 0 {
        return Ok(Found::Nothing);
    }
    write(&it.stream, to)?;
    let is_whole = it.damaged + it.without_type == 0;
    let error = (!is_whole).then(|| "the recorder file is damaged, and events are missing".into());
    let found = super::Recovered { path: to.to_owned(), events: it.events, lost: it.lost, error };
    Ok(if is_whole { Found::All(found) } else { Found::Part(found) })
}

/// The bytes of a recorder file.
fn bytes_of(mut file: &File) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Adds what the last file of a recording has.
fn see(recorder: &Recorder<'_>, path: &Path, seen: &mut Seen) -> io::Result<()> {
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = BufReader::new(File::open(path)?);
    let mut header = vec![0; STREAM_HEADER];
    file.read_exact(&mut header)?;
    let mut block = Vec::new();
    if !next_block(&mut file, &mut block)? {
        return Ok(());
    }
    header.extend_from_slice(&block);
    *seen = recorder.begin_to_see(&header).ok_or(io::ErrorKind::InvalidData)?;
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

/// Writes a whole stream into a new file. The file has its name only when it is whole.
fn write(stream: &[u8], to: &Path) -> io::Result<()> {
    let hidden = format!(".nettrace-recovered-{}", std::process::id());
    let hidden = to.with_file_name(hidden);
    let _ = fs::remove_file(&hidden);
    // As private as the recorder file, and not through a link that somebody else has made there.
    let made = File::options().write(true).create_new(true).mode(0o600).open(&hidden);
    let written = made.and_then(|mut file| file.write_all(stream));
    let written = written.and_then(|()| fs::hard_link(&hidden, to));
    let _ = fs::remove_file(&hidden);
    written
}
