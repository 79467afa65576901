//! The remains of a recording whose process is gone: the trace files, and what these lack.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use nettrace_format::{
    recorder::{Recorder, Recovered, Seen},
    v6::{BlockKind, read},
};

use crate::{
    failure::Failure,
    files::{self, BlockFile, File, Recording},
    spelling::OneLine,
};

/// What is left of a recording.
pub(super) struct Remains {
    /// The session's files, in their order.
    pub(super) files: Vec<Recording>,
    pub(super) recovered: Recovered,
    /// A file that is damaged, and where.
    pub(super) damaged: Option<(PathBuf, u64)>,
    /// What to know of the files.
    pub(super) notes: Vec<String>,
}

impl Remains {
    /// Finds the trace files, reads the last one, and recovers what it lacks. `recorder` is at
    /// `path`. `folder` says where the files are now, if they were moved.
    pub(super) fn gather(
        recorder: &Recorder<'_>,
        path: &Path,
        folder: Option<&Path>,
    ) -> Result<Self, Failure> {
        let mut notes = Vec::new();
        let traced = trace_path(recorder);
        let files = match recorder.recording() {
            Some(name) => find(name, traced.as_deref(), path, folder)?,
            None => Vec::new(),
        };
        let mut files = files::recordings(files)?;
        let newest = files.iter_mut().flat_map(|it| &mut it.files);
        let mut damaged = None;
        let seen = match newest.max_by_key(|file| file.part.as_ref().map(|part| part.1)) {
            Some(newest) => {
                let (seen, end) = seen(newest)?;
                // A kill leaves a stream without its end, but never a file of the session.
                if end == End::Damaged || end == End::Cut && traced.is_some() {
                    damaged = Some((newest.path.clone(), newest.most));
                }
                Some(seen)
            }
            // The session has no sink but its own memory.
            None if recorder.is_flight_recorder() => None,
            None => {
                let (seen, note) = without_files(recorder, traced.as_deref(), folder);
                notes.push(note);
                seen
            }
        };
        let recovered = recorder.recover(seen.as_ref())?;
        if recorder.has_other_numbers() {
            notes.push(
                "what the session's tail decision held back is not in the result: it counts as lost"
                    .into(),
            );
        }
        let missing = recorder.threads_without_slot();
        if missing > 0 {
            notes.push(format!(
                "{missing} threads had no room in the recorder file; what they had recorded last \
                 is lost"
            ));
        }
        Ok(Self { files, recovered, damaged, notes })
    }

    /// How many trace files there are.
    pub(super) fn count(&self) -> usize {
        self.files.iter().map(|recording| recording.files.len()).sum()
    }

    /// What could not be recovered, in words.
    pub(super) fn missing(&self) -> Option<Missing> {
        let Recovered { damaged, without_type, .. } = self.recovered;
        (damaged + without_type > 0).then_some(Missing { damaged, without_type })
    }
}

/// What could not be recovered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    damaged: u64,
    without_type: u64,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let and = if self.damaged > 0 && self.without_type > 0 { ", and " } else { "" };
        match self.damaged {
            0 => {}
            1 => f.write_str("1 piece of memory is damaged and could not be read to its end")?,
            count => {
                write!(
                    f,
                    "{count} pieces of memory are damaged and could not be read to their end"
                )?;
            }
        }
        f.write_str(and)?;
        match self.without_type {
            0 => Ok(()),
            1 => f.write_str("1 event is left out because its type is not in the recorder file"),
            count => write!(
                f,
                "{count} events are left out because their types are not in the recorder file"
            ),
        }
    }
}

/// The path of the session's last trace file.
pub(super) fn trace_path<'a>(recorder: &Recorder<'a>) -> Option<Cow<'a, Path>> {
    let path = recorder.trace_path()?;
    #[cfg(unix)]
    return Some(
        Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path)).into(),
    );
    #[cfg(not(unix))]
    return Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()).into());
}

/// The trace files of a recording: in the folder that the session wrote to or that `folder` names,
/// or else beside the recorder file.
fn find(
    recording: &str,
    traced: Option<&Path>,
    path: &Path,
    folder: Option<&Path>,
) -> Result<Vec<File>, Failure> {
    if let Some(folder) = folder {
        let fail = |error| Failure::Open(folder.display().to_string(), error);
        return files::of_recording(folder, recording).map_err(fail);
    }
    if let Some(traced) = traced {
        // A folder that is gone or cannot be read has no files for us, which is told.
        let found = files::of_recording(&folder_of(traced), recording).unwrap_or_default();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(files::of_recording(&folder_of(path), recording).unwrap_or_default())
}

/// The folder in which a file is.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => ".".into(),
        Some(folder) => folder.to_owned(),
        None => path.to_owned(),
    }
}

/// What to recover if there is no trace file, and what to say of it.
fn without_files(
    recorder: &Recorder<'_>,
    traced: Option<&Path>,
    folder: Option<&Path>,
) -> (Option<Seen>, String) {
    let Some(traced) = traced else {
        let text = "the session wrote no file: what its sink has got is not in the result, and \
                    the last events can be in both";
        return (None, text.into());
    };
    let folder = folder.map_or_else(|| folder_of(traced), Path::to_owned);
    let text = format!(
        "no trace file of this recording is in {}: what it had is not in the result, and what the \
         last one had counts as lost; --traces says where the files are now",
        OneLine(folder.display())
    );
    // The last stream is the one that is lost, and the result comes after it.
    (Some(Seen::new(recorder.streams())), text)
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    /// In the middle of the stream.
    Cut,
    /// What follows is nothing that a session writes.
    Damaged,
}

/// Reads which events a trace file has. What follows damage is not read, here and later.
fn seen(file: &mut File) -> Result<(Seen, End), Failure> {
    let fail = |error| Failure::Open(file.path.display().to_string(), error);
    let number = file.part.as_ref().map_or(0, |part| part.1);
    let mut seen = Seen::new(number);
    let mut block = Vec::new();
    let mut blocks = BlockFile::open(&file.path, file.most, &mut block).map_err(fail)?;
    let mut at = block.len() as u64;
    let end = loop {
        block.clear();
        if !blocks.next_block(&mut block).map_err(fail)? {
            break End::Cut;
        }
        match read::blocks(&block).next() {
            Some(Ok(block)) if block.is(BlockKind::EndOfStream) => return Ok((seen, End::Whole)),
            Some(Ok(block)) if seen.add(&block).is_ok() => {}
            _ => break End::Damaged,
        }
        at += block.len() as u64;
    };
    file.most = at;
    Ok((seen, end))
}
