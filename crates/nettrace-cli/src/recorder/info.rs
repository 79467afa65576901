//! `nettrace info` of a recorder file.

use std::{
    fmt,
    io::{self, Write},
    path::Path,
};

use nettrace_format::recorder::{Recorder, layout};
use serde::Serialize;

use super::{
    RecorderFile, owner,
    remains::{Remains, trace_path},
};
use crate::{
    failure::Failure,
    info::{InfoOptions, MOST_ROWS, write_json},
    spelling::OneLine,
    standard_error::say,
};

/// What is shown of a recorder file.
#[derive(Debug, Serialize)]
struct Info {
    format: &'static str,
    layout: u32,
    process: u32,
    process_runs: bool,
    recording: Option<String>,
    trace_file: Option<String>,
    streams: u64,
    /// By the threads that are still there.
    attempted: u64,
    threads: Vec<Thread>,
    threads_without_slot: u64,
    /// Only if the process is gone.
    recoverable: Option<Recoverable>,
}

/// A thread of the session.
#[derive(Debug, Serialize)]
struct Thread {
    index: Option<u64>,
    id: Option<u64>,
    name: Option<String>,
    attempted: u64,
}

/// What `recover` would find.
#[derive(Debug, Serialize)]
struct Recoverable {
    files: usize,
    events: u64,
    lost: u64,
    damaged: u64,
    without_type: u64,
}

pub(crate) fn run(path: &Path, options: InfoOptions, out: &mut impl Write) -> Result<(), Failure> {
    let file = RecorderFile::read(path)?;
    let recorder = file.recorder()?;
    let runs = owner::runs(&recorder.owner(), path);
    // The memory of a process that runs changes while it would be recovered.
    let remains = (!runs).then(|| Remains::gather(&recorder, path, None)).transpose();
    let info = Info::of(&recorder, runs, remains.as_ref().ok().and_then(Option::as_ref));
    if options.json {
        write_json(&info, out)?;
    } else {
        info.write(options.threads, out)?;
    }
    for note in remains?.iter().flat_map(|remains| &remains.notes) {
        say(Some(note))?;
    }
    Ok(())
}

impl Info {
    fn of(recorder: &Recorder<'_>, runs: bool, remains: Option<&Remains>) -> Self {
        // Two that stand for others are always there.
        let threads = recorder.threads().into_iter();
        let threads = threads.filter(|thread| thread.os_id != 0 || thread.attempted > 0);
        let threads = threads.map(|thread| Thread {
            index: (thread.index != 0).then_some(thread.index),
            id: (thread.os_id != 0).then_some(thread.os_id),
            name: thread.name.map(str::to_owned),
            attempted: thread.attempted,
        });
        let mut threads: Vec<_> = threads.collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.attempted));
        Self {
            format: "recorder",
            layout: layout::VERSION,
            process: recorder.owner().process,
            process_runs: runs,
            recording: recorder.recording().map(str::to_owned),
            trace_file: trace_path(recorder).map(|path| path.display().to_string()),
            streams: recorder.streams(),
            attempted: threads.iter().fold(0, |sum, it| sum.saturating_add(it.attempted)),
            threads,
            threads_without_slot: recorder.threads_without_slot(),
            recoverable: remains.map(|remains| Recoverable {
                files: remains.count(),
                events: remains.recovered.events,
                lost: remains.recovered.lost,
                damaged: remains.recovered.damaged,
                without_type: remains.recovered.without_type,
            }),
        }
    }

    fn write(&self, all_threads: bool, out: &mut impl Write) -> io::Result<()> {
        let mut row = |what: &str, value: &dyn fmt::Display| writeln!(out, "{what:<16} {value}");
        row("format", &format_args!("recorder file, layout {}", self.layout))?;
        let runs = if self.process_runs { "runs" } else { "has ended" };
        row("process", &format_args!("{}, which {runs}", self.process))?;
        row("recording", &OneLine(self.recording.as_deref().unwrap_or("not readable")))?;
        row("trace file", &OneLine(self.trace_file.as_deref().unwrap_or("none")))?;
        row("streams begun", &self.streams)?;
        row("threads", &self.threads.len())?;
        row("events attempted", &self.attempted)?;
        if self.threads_without_slot > 0 {
            row("without room", &format_args!("{} threads", self.threads_without_slot))?;
        }
        if let Some(it) = &self.recoverable {
            row("trace files", &it.files)?;
            row("to recover", &format_args!("{} events that these lack", it.events))?;
            row("lost besides", &format_args!("{} events", it.lost))?;
            if it.damaged > 0 {
                row("damaged", &format_args!("{} pieces of memory", it.damaged))?;
            }
            if it.without_type > 0 {
                row("without type", &format_args!("{} events", it.without_type))?;
            }
        }
        self.write_threads(all_threads, out)?;
        self.write_hint(out)
    }

    fn write_threads(&self, all: bool, out: &mut impl Write) -> io::Result<()> {
        if self.threads.is_empty() {
            return Ok(());
        }
        let most = if all { self.threads.len() } else { MOST_ROWS };
        writeln!(out, "\n{:>16}  thread", "events attempted")?;
        for thread in self.threads.iter().take(most) {
            write!(out, "{:>16} ", thread.attempted)?;
            if let Some(id) = thread.id {
                write!(out, " tid {id}")?;
            }
            match &thread.name {
                Some(name) => writeln!(out, " {}", OneLine(format_args!("{name:?}")))?,
                None => writeln!(out)?,
            }
        }
        if self.threads.len() > most {
            let more = self.threads.len() - most;
            writeln!(out, "{:>16}  and {more} more: --threads shows them", "")?;
        }
        Ok(())
    }

    /// Says what the counts are worth, and what to do.
    fn write_hint(&self, out: &mut impl Write) -> io::Result<()> {
        let text = if self.process_runs {
            "The process goes on recording. Each count is right, but they are not of one moment.\n\
             When the process has ended, `nettrace recover` makes a trace of its last events."
        } else {
            "`nettrace recover` makes a trace of it."
        };
        writeln!(out, "\n{text}")
    }
}
