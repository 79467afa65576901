//! `nettrace report`: a trace as one page of HTML, by the module `report` of `nettrace-views`.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use nettrace_reader::Event;
use nettrace_views::text::{EventType, Payload};
use nettrace_views::{
    model::PerType,
    report::{self, Describe, Report},
};

use crate::{
    convert::destination::Destination, failure::Failure, heph::Original, limits::Limits,
    source::Source, summary::say, tree,
};

/// Options of `report`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReportOptions {
    /// Where to write the page, or - for standard output. A file gets its name when it is complete
    #[arg(short, long, value_hint = clap::ValueHint::FilePath, default_value = "report.html")]
    output: PathBuf,
    /// Replace the output file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(crate) content: Content,
}

impl ReportOptions {
    /// Whether the page does not go to standard output.
    pub(crate) fn has_file(&self) -> bool {
        self.output.as_os_str() != "-"
    }
}

/// What a page shows.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Content {
    /// How many of the slowest trees of spans the page shows
    #[arg(long, value_name = "N", default_value_t = 20)]
    slow: usize,
    /// Tell spans apart by the values of this field: status, customer. Otherwise it is the one that
    /// a type marks as its dimension: the route of a request
    #[arg(long, value_name = "FIELD")]
    by: Option<String>,
    /// The heading of the page. It is the name of the trace's file otherwise
    #[arg(long)]
    title: Option<String>,
}

/// Writes the report of `trace`, which was opened as `file`. If the output is `-`, it goes to
/// `stdout`.
pub(crate) fn run(
    trace: (Source, Original),
    limits: Limits,
    file: &Path,
    options: &ReportOptions,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let mut destination = Destination::open(&options.output, options.force, stdout)?;
    let (page, end) = page(trace, limits, file, &options.content)?;
    destination.write(&page)?;
    destination.finish()?;
    end
}

/// Reads a trace and makes its page. The inner `Result` says how the trace ended.
pub(crate) fn page(
    (source, original): (Source, Original),
    limits: Limits,
    file: &Path,
    content: &Content,
) -> Result<(Vec<u8>, Result<(), Failure>), Failure> {
    let mut events = limits.options().keep_thread_totals(true).open(source)?.sorted();
    let name = || match file.file_name() {
        Some(name) if file.as_os_str() != "-" => name.to_string_lossy().into_owned(),
        _ => "standard input".into(),
    };
    let title = content.title.clone().unwrap_or_else(name);
    let mut wanted = report::Options::new(title).slowest(content.slow);
    if let Some(field) = &content.by {
        wanted = wanted.by(field);
    }
    let mut report = Report::read(&mut events, &mut AsTree::default(), &wanted);
    if let Some(heph) = original.end()? {
        report.was_made_of("Heph 0.1.0", heph.bytes, heph.failure);
    }
    let mut page = Vec::new();
    report.write(&mut page)?;
    let totals = events.totals();
    let (read, lost, bytes) = (totals.events, totals.lost, page.len());
    say(Some(format_args!("# events={read} lost={lost} bytes={bytes}")))?;
    let end = match report.into_damage() {
        Some(damage) => Err(damage.into()),
        None => Ok(()),
    };
    Ok((page, end))
}

/// Spells events as `nettrace tree` does.
#[derive(Default)]
struct AsTree(PerType<EventType>);

impl Describe for AsTree {
    fn event(&mut self, event: &Event<'_>) -> String {
        let ty = self.0.of(event, EventType::of);
        text(tree::text::event(event, ty, &Payload::of(event, ty)))
    }

    fn details(&mut self, event: &Event<'_>, is_start: bool) -> String {
        let ty = self.0.of(event, EventType::of);
        text(tree::text::details(event, &Payload::of(event, ty), is_start))
    }
}

fn text(written: io::Result<Vec<u8>>) -> String {
    // A vector takes everything.
    let text = written.unwrap_or_default();
    String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
