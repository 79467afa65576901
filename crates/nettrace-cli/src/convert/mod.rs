//! `nettrace convert`: writes a trace again in another version of the format, or in another format.
//!
//! A [`Rewriter`] takes the items of the source ([`Reader::next_item`]) one by one, in their order.
//! So blocks and sequence points keep their places, and the result proves as much about the order
//! of events as the source. A rewriter remembers only the definitions that are valid at the moment:
//! memory does not grow with the trace.
//!
//! | target | module |
//! |---|---|
//! | NetTrace V6 | [`v6`]: can express everything that the other versions contain |
//! | all other formats of traces | [`to_format`]: by the stage of sessions, of version 6 |
//! | formats of viewers | [`view`]: the crate `nettrace-views` |
//! | targets of other crates | [`view::EXTRA_TARGETS`] |
//!
//! What is not in the result is counted by kind ([`omissions`]) and listed on standard error.

pub(crate) mod destination;
mod extra_target;
pub(crate) mod lines;
mod omissions;
mod redact;
mod references;
mod sequence;
#[cfg(feature = "parquet")]
mod tables;
mod to_format;
pub(crate) mod types;
mod v6;
mod view;
mod view_options;

use std::{
    ffi::OsStr,
    io::{self, Write},
    path::Path,
};

use nettrace_event::keys;
use nettrace_format::{Format, content::TraceInfo};
use nettrace_reader::{Item, Reader, Totals, Trace};
use nettrace_views::viewers::{Options, View};

#[cfg(feature = "parquet")]
pub(crate) use self::tables::TableOptions;
pub(crate) use self::{
    redact::RedactOptions,
    view_options::{ReadOther, ViewOptions},
};
use crate::{
    convert::{
        destination::{Destination, OutputFile},
        extra_target::ExtraTarget,
        omissions::{Kind, Omissions},
        to_format::ToFormat,
        v6::ToV6,
    },
    failure::Failure,
    files::Origins,
    read_options::ReadOptions,
    source::Source,
};

/// Bytes that are collected before they are written.
const BATCH: usize = 1 << 20;

/// What to write, and where.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    /// A path, or `-` for standard output.
    pub(crate) out: &'a Path,
    /// `None` for what the ending of the path says.
    pub(crate) to: Option<To>,
    /// Whether a file that is there may be replaced.
    pub(crate) force: bool,
    /// For formats of viewers.
    pub(crate) views: &'a ViewOptions,
    /// Reads the trace that a flame graph is compared with.
    pub(crate) read_other: ReadOther<'a>,
    /// For tables.
    #[cfg(feature = "parquet")]
    pub(crate) tables: &'a TableOptions,
}

/// A format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// A format of traces.
    Trace(Format),
    /// A format of a viewer.
    View(View),
    /// A target that is no `View`.
    Extra(&'static ExtraTarget),
}

impl To {
    /// The names of targets that this build lacks.
    pub(crate) const ABSENT: &[&str] =
        if cfg!(feature = "parquet") { &[] } else { &["parquet", "arrow"] };

    /// What the ending of a path says.
    fn of_path(path: &Path) -> Result<Self, Failure> {
        // The rest of the name need not be UTF-8.
        let ending = path.extension().map(OsStr::to_string_lossy).unwrap_or_default();
        let ending = &*ending;
        let extra = || view::EXTRA_TARGETS.iter().copied();
        let found = extra().find(|target| target.endings.contains(&ending));
        View::of_path(path).map(Self::View).or(found.map(Self::Extra)).ok_or_else(|| {
            let views = View::ALL.iter().map(|view| view.endings());
            let all = views.chain(extra().map(|target| target.endings)).flatten();
            let all: Vec<_> = all.map(|ending| format!(".{ending}")).collect();
            let absent = Self::ABSENT.contains(&ending);
            let hint = if absent { "; this build lacks the feature `parquet`" } else { "" };
            Failure::NoTarget(all.join(", ") + hint)
        })
    }

    /// The names of all targets, and what each is for.
    pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        let traces = Format::ALL.iter().map(|format| (format.name(), format.about()));
        let views = View::ALL.iter().map(|view| (view.name(), view.about()));
        let extra = view::EXTRA_TARGETS.iter().map(|target| (target.name, target.about));
        traces.chain(views).chain(extra)
    }

    /// The target with a name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let format = name.parse().ok().map(Self::Trace);
        let extra = || view::EXTRA_TARGETS.iter().copied().find(|target| target.name == name);
        format.or_else(|| name.parse().ok().map(Self::View)).or_else(|| extra().map(Self::Extra))
    }
}

/// Whether the conversion copies what is in the blocks of a trace, one after the other.
pub(crate) fn copies(to: Option<To>, out: &Path) -> bool {
    matches!(to.map_or_else(|| To::of_path(out), Ok), Ok(To::Trace(_)))
}

/// Writes the trace `source` again. If the path is `-`, the result goes to `stdout`.
pub(crate) fn run(
    source: Source,
    limits: ReadOptions,
    task: Task<'_>,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let to = task.to.map_or_else(|| To::of_path(task.out), Ok)?;
    #[cfg(feature = "parquet")]
    if let (Some(option), false) = (task.tables.given(), tables::are(to)) {
        return Err(Failure::OnlyTables(option));
    }
    if let To::Extra(target) = to {
        return view::run_extra(target, limits.options().open(source)?, limits, task, stdout);
    }
    let options = match to {
        To::View(view) => task.views.for_view(view, limits, task.read_other)?,
        _ => Options::default(),
    };
    let mut destination = Destination::open(task.out, task.force, stdout)?;
    // Another trace describes its event types as this one does.
    let is_copy = matches!(to, To::Trace(_));
    let dimension = task.views.dimension.as_deref().filter(|_| !is_copy);
    let reader = limits.options().runtime_events(!is_copy).keep_type_totals(dimension.is_some());
    let mut reader = reader.open(source)?;
    let format = match to {
        To::Trace(format) => format,
        To::View(view) => return view::run(view, &options, dimension, reader, destination),
        To::Extra(_) => return Ok(()),
    };
    let mut rewriter = rewriter(format, reader.major_version(), limits.definitions());
    // Other formats have no place for it.
    let origins = (format == Format::V6).then(|| Origins::of_trace(reader.trace())).flatten();
    let end = rewrite(&mut reader, &mut *rewriter, origins, |bytes| destination.write(bytes))?;
    let written = destination.finish()?;
    let lost = report_of(&*rewriter, format, reader.totals(), written)?;
    Ok(end?).and(lost)
}

/// Writes the trace `source` as one of version 6, without the values of some fields. If the path is
/// `-`, the result goes to `stdout`.
pub(crate) fn redact(
    source: Source,
    limits: ReadOptions,
    to: &OutputFile,
    options: &RedactOptions,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let redaction = redact::redaction(options)?;
    let mut destination = Destination::open(&to.output, to.force, stdout)?.held_back()?;
    // With the names of fields that the trace does not have.
    let mut reader = limits.options().runtime_events(true).open(source)?;
    let mut rewriter = ToV6::redacted(reader.major_version(), redaction);
    let origins = Origins::of_trace(reader.trace()).map(Origins::with_recordings);
    let end = rewrite(&mut reader, &mut rewriter, origins, |bytes| destination.write(bytes))?;
    // A name with a mistake would leave in what somebody wanted to be out.
    rewriter.redaction_result(reader.metadata())?;
    let written = destination.finish()?;
    let lost = report_of(&rewriter, Format::V6, reader.totals(), written)?;
    Ok(end?).and(lost)
}

/// What writes `format`, for a source of version `from`.
fn rewriter(format: Format, from: u32, definitions_limit: usize) -> Box<dyn Rewriter> {
    match format {
        Format::V6 => Box::new(ToV6::new(from)),
        format => Box::new(ToFormat::new(format, from, definitions_limit)),
    }
}

/// Rewrites a trace in memory, as far as it can be read. Returns how many events the reader found.
#[cfg(feature = "__fuzzing")]
pub(crate) fn rewrite_bytes(
    trace: &[u8],
    options: nettrace_reader::Options,
    format: Format,
    out: &mut Vec<u8>,
) -> Result<u64, Failure> {
    let mut reader = options.runtime_events(false).open(trace)?;
    let mut rewriter = rewriter(format, reader.major_version(), 1 << 20);
    // However the source ends, the result is complete.
    let _ = rewrite(&mut reader, &mut *rewriter, None, |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(reader.totals().events)
}

/// A trace that is being written.
trait Rewriter {
    /// Writes what stands before the first item.
    fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// Writes the next item of the source.
    fn item(&mut self, item: Item<'_>, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// Writes the end.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// Counts what could not be expressed so far.
    fn left_out(&self) -> Omissions;
}

/// Copies all items. `write` gets the bytes of the new trace. The inner `Result` says how the
/// source ended. The new trace has everything that was readable, and is complete even if the source
/// is not. `origins` are the files that are read, which the new trace names.
fn rewrite<R: nettrace_reader::Source>(
    reader: &mut Reader<R>,
    rewriter: &mut dyn Rewriter,
    origins: Option<Origins>,
    mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<Result<(), nettrace_reader::Error>, Failure> {
    let mut bytes = Vec::new();
    let mut trace = reader.trace().clone();
    if let Some(origins) = origins {
        trace.key_values.retain(|(key, _)| key != keys::CONTAINS);
        trace.key_values.extend(origins.key_value());
    }
    with_info(&trace, |info| rewriter.begin(info, &mut bytes))?;
    let end = loop {
        match reader.next_item() {
            Ok(Some(item)) => rewriter.item(item, &mut bytes)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        if bytes.len() >= BATCH {
            write(&bytes)?;
            bytes.clear();
        }
    };
    rewriter.finish(&mut bytes)?;
    write(&bytes)?;
    Ok(end)
}

/// Hands the facts about the trace to `take`, in the form that the writers want.
fn with_info<T>(trace: &Trace, take: impl FnOnce(&TraceInfo<'_>) -> T) -> T {
    take(&TraceInfo {
        sync_utc: (&trace.sync_time).into(),
        sync_ticks: trace.sync_ticks,
        ticks_per_second: trace.ticks_per_second,
        // Addresses are 64 bits here, whatever size the trace states. Every format has 4 and 8.
        pointer_size: if trace.pointer_size == 4 { 4 } else { 8 },
        key_values: &types::pairs(&trace.key_values),
    })
}

/// [`report`]s what a rewriter and its reader have left out.
fn report_of(
    rewriter: &dyn Rewriter,
    format: Format,
    totals: &Totals,
    written: u64,
) -> io::Result<Result<(), Failure>> {
    let Totals { unknown_blocks, unknown_parts, .. } = *totals;
    let left_out = Omissions { unknown_blocks, unknown_parts, ..rewriter.left_out() };
    report(totals, left_out.lines(), format.title(), written)
}

/// Lists on standard error what was read, written and left out. The inner `Result` says whether
/// events or values are missing that the format has a place for.
fn report(
    totals: &Totals,
    left_out: impl Iterator<Item = (u64, &'static str, Kind)>,
    title: &str,
    written: u64,
) -> io::Result<Result<(), Failure>> {
    let (mut text, mut total, mut missing) = (String::new(), 0_u64, 0_u64);
    for (count, what, kind) in left_out {
        total = total.saturating_add(count);
        let why = match kind {
            Kind::NoPlace => format!("left out, because {title} cannot express it"),
            Kind::Missing => {
                missing = missing.saturating_add(count);
                "could not be converted".to_owned()
            }
        };
        text.push_str(&format!("{why}: {count} {what}\n"));
    }
    text.push_str(&format!(
        "# events={} lost={} left_out={total} bytes={written}\n",
        totals.events, totals.lost,
    ));
    match io::stderr().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        result => result?,
    }
    Ok(if missing == 0 { Ok(()) } else { Err(Failure::Missing(missing)) })
}
