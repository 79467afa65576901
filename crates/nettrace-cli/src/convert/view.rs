//! Conversion by targets that take the events of a trace in the order of time: the formats of
//! `nettrace-views`, and those of [`EXTRA_TARGETS`].

use std::io::{self, Write};

use nettrace_reader::{Metadata, Reader, SortedReader};
use nettrace_views::{
    Target, Written, drive,
    model::{Role, role_of},
    viewers::{Options, View},
};

use crate::{
    convert::{
        Task,
        destination::Destination,
        extra_target::{Begin, ExtraTarget, Start},
    },
    failure::Failure,
    read_options::ReadOptions,
    source::Source,
    standard_error::say,
    suggestions,
};

/// The targets that are no [`View`]. A new one gets a file of its own, and a line here.
pub(crate) const EXTRA_TARGETS: &[&ExtraTarget] = &[
    &super::lines::JSONL,
    &super::lines::CSV,
    #[cfg(feature = "parquet")]
    &super::tables::PARQUET,
    #[cfg(feature = "parquet")]
    &super::tables::ARROW,
];

/// Writes the trace of `reader` in the format of a viewer. `dimension` is the field that was asked
/// for.
pub(super) fn run(
    view: View,
    options: &Options,
    dimension: Option<&str>,
    reader: Reader<Source>,
    destination: Destination<'_, impl Write>,
) -> Result<(), Failure> {
    let mut events = reader.sorted();
    let (trace, version) = (events.trace().clone(), events.major_version());
    let result = file(view.title(), &mut events, destination, |out| {
        Ok(view.target(out, &trace, version, options))
    });
    if let Some(field) = dimension {
        // The name of a span is written when it begins.
        let tells =
            |of: &Metadata| matches!(role_of(of, None, version), Role::Start | Role::Single);
        let tellers = (tells, "start of a span");
        say(suggestions::unknown_field("--dimension", field, events.type_totals(), tellers))?;
    }
    result
}

/// Writes the trace of `reader` by an extra target.
pub(super) fn run_extra(
    target: &ExtraTarget,
    reader: Reader<Source>,
    limits: ReadOptions,
    task: Task<'_>,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let version = reader.major_version();
    let mut events = reader.sorted();
    let trace = events.trace().clone();
    let start = Start { trace: &trace, version, task, limits };
    match target.begin {
        Begin::File(begin) => {
            let destination = Destination::open(task.out, task.force, stdout)?;
            file(target.title, &mut events, destination, |out| begin(&start, out))
        }
        Begin::Folder { begin, size } => {
            if task.out.as_os_str() == "-" {
                return Err(Failure::NeedsFolder(target.title));
            }
            let written = drive(&mut events, begin(&start, task.out)?);
            let written = written.map_err(|error| Failure::folder(task.out, error))?;
            finish(target.title, &events, written, size(&start, task.out)?)
        }
    }
}

/// Writes one file.
fn file<W: Write>(
    title: &str,
    events: &mut SortedReader<Source>,
    destination: Destination<'_, W>,
    begin: impl for<'w> FnOnce(&'w mut dyn Write) -> Result<Box<dyn Target + 'w>, Failure>,
) -> Result<(), Failure> {
    let mut out = Out { destination, failure: None };
    let written = drive(events, begin(&mut out)?);
    let written = match (written, out.failure) {
        (_, Some(failure)) => return Err(failure),
        (written, None) => written?,
    };
    let size = out.destination.finish()?;
    finish(title, events, written, size)
}

/// Lists what was left out. Fails if the source is damaged, or if something is missing.
fn finish(
    title: &str,
    events: &SortedReader<Source>,
    written: Written,
    size: u64,
) -> Result<(), Failure> {
    let lost = super::report(events.totals(), written.left_out.lines(), title, size)?;
    Ok(written.end?).and(lost)
}

/// The destination as a writer. It keeps a failure, which says more than an error of a writer.
struct Out<'a, W: Write> {
    destination: Destination<'a, W>,
    failure: Option<Failure>,
}

impl<W: Write> Write for Out<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.destination.write(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(failure) => {
                self.failure = Some(failure);
                Err(io::ErrorKind::Other.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
