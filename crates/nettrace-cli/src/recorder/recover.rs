//! `nettrace recover`: the trace of a session whose process was killed.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use nettrace_format::recorder::{Recorder, RecorderError};

use super::{RecorderFile, owner, remains::Remains};
use crate::{
    convert::destination::{Destination, OutputFile},
    failure::Failure,
    files::{self, File},
    merge,
    read_options::ReadOptions,
    spelling::OneLine,
    standard_error::say,
};

/// Options of `recover`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RecoverOptions {
    /// Write only what the session's own files lack, as one more file of their recording. Every
    /// command reads it together with them
    #[arg(long)]
    rest: bool,
    /// The folder that has the session's trace files now. Without it they are looked for where the
    /// session wrote them, and then beside the recorder file
    #[arg(long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    traces: Option<PathBuf>,
}

pub(crate) fn run(
    path: &Path,
    limits: ReadOptions,
    to: &OutputFile,
    options: &RecoverOptions,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let file = match RecorderFile::read(path) {
        Err(Failure::Recorder(RecorderError::NoRecorder)) => return Err(no_recorder(path)),
        result => result?,
    };
    let recorder = file.recorder()?;
    if owner::runs(&recorder.owner(), path) {
        return Err(still_runs(&recorder, path));
    }
    let remains = Remains::gather(&recorder, path, options.traces.as_deref())?;
    keep_what_is_read(path, &remains, to, options.rest)?;
    for note in &remains.notes {
        say(Some(note))?;
    }
    // Its bytes are copied by now.
    drop(file);
    let is_alone = options.rest || remains.count() == 0;
    let ended =
        if is_alone { rest(&remains, to, stdout) } else { all(&remains, limits, to, stdout) };
    ended?;
    if let Some((path, at)) = &remains.damaged {
        let path = OneLine(path.display());
        say(Some(format_args!("{path}: it is damaged at byte {at}; what stands before was used")))?;
        return Err(Failure::Cut(1));
    }
    remains.missing().map_or(Ok(()), |missing| Err(Failure::NotRecovered(missing.to_string())))
}

/// Says that a process still runs. The file of the process before it has another name by now.
fn still_runs(recorder: &Recorder<'_>, path: &Path) -> Failure {
    let mut previous = path.as_os_str().to_owned();
    previous.push(".previous");
    let previous = PathBuf::from(previous);
    let previous = if previous.is_file() {
        format!("; what the process before has left is {}", previous.display())
    } else {
        String::new()
    };
    Failure::Runs(recorder.owner().process, previous)
}

/// Says what a file is that is no recorder file.
fn no_recorder(path: &Path) -> Failure {
    match File::open(path.to_owned()) {
        Ok(_) => Failure::Recover("this is a trace, which every command reads as it is".into()),
        Err(_) => RecorderError::NoRecorder.into(),
    }
}

/// Refuses to replace the recorder file, or the session's files by what these lack.
fn keep_what_is_read(
    path: &Path,
    remains: &Remains,
    to: &OutputFile,
    is_rest: bool,
) -> Result<(), Failure> {
    let Ok(out) = fs::canonicalize(&to.output) else { return Ok(()) };
    let is_out = |path: &Path| fs::canonicalize(path).is_ok_and(|path| path == out);
    let refuse = |what| {
        let error = io::Error::new(io::ErrorKind::InvalidInput, what);
        Err(Failure::Destination(to.output.display().to_string(), error))
    };
    if is_out(path) {
        return refuse("it is the recorder file, which is kept");
    }
    let mut files = remains.files.iter().flat_map(|recording| &recording.files);
    if is_rest && files.any(|file| is_out(&file.path)) {
        return refuse("it is a trace file of the recording; --rest writes what it lacks");
    }
    Ok(())
}

/// Writes what the session's files lack.
fn rest(remains: &Remains, to: &OutputFile, stdout: &mut impl Write) -> Result<(), Failure> {
    let recovered = &remains.recovered;
    let mut destination = Destination::open(&to.output, to.force, stdout)?;
    destination.write(&recovered.stream)?;
    let bytes = destination.finish()?;
    Ok(summary(remains, recovered.events, recovered.lost, bytes)?)
}

/// Writes the session's files and what they lack as one trace.
fn all(
    remains: &Remains,
    limits: ReadOptions,
    to: &OutputFile,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let mut rest = tempfile::Builder::new().prefix("nettrace-rest-").tempfile()?;
    rest.write_all(&remains.recovered.stream)?;
    rest.flush()?;
    let files = remains.files.iter().flat_map(|recording| &recording.files).cloned();
    let files = files.chain([File::open(rest.path().to_owned())?]);
    let recordings = files::recordings(files.collect())?;
    let written = merge::write(recordings, limits, to, stdout)?;
    summary(remains, written.events, written.lost, written.bytes)?;
    let ended = written.end();
    if matches!(ended, Err(Failure::Cut(_))) {
        say(Some(
            "if the result ends early, --rest writes what was recovered as a file of its own",
        ))?;
    }
    ended
}

/// Writes one line of `key=value`: about the result, then about what was recovered.
fn summary(remains: &Remains, events: u64, lost: u64, bytes: u64) -> io::Result<()> {
    let (files, of) = (remains.count(), &remains.recovered);
    say(Some(format_args!(
        "# files={files} events={events} lost={lost} bytes={bytes} recovered={} damaged={} \
         without_type={}",
        of.events, of.damaged, of.without_type
    )))
}
