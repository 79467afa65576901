//! `nettrace report`: a trace as one page of HTML, or as text, by the module `report` of
//! `nettrace-views`.

use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use nettrace_reader::{Event, Metadata, Totals};
use nettrace_views::{
    model::{PerType, role_of, span_of_record},
    report::{self, Describe, Report},
    text::{Detail, EventLook, EventType, Payload},
};

use crate::{
    convert::destination::Destination, duplicate_type_names::DuplicateTypeNames, failure::Failure,
    files::SourceFiles, filter::EventFilter, heph::Original, read_options::ReadOptions,
    source::Source, standard_error::say, suggestions, tree,
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
    /// Print the report as text instead: spans by name, errors and warnings, the slowest trees,
    /// counters, gauges and histograms
    #[arg(long, conflicts_with_all = ["output", "force"])]
    text: bool,
    #[command(flatten)]
    pub(crate) follow: FollowOptions,
    #[command(flatten)]
    pub(crate) content: Content,
}

impl ReportOptions {
    /// Whether the page does not go to standard output.
    pub(crate) fn has_file(&self) -> bool {
        !self.text && self.output.as_os_str() != "-"
    }
}

/// How a report is served.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FollowOptions {
    /// Serve the page on this machine alone until Ctrl-C, and print the address. While somebody
    /// looks at it, the trace is read again when its files change. The address has a secret: who
    /// knows it can read the trace. Without a port a free one is taken
    // With `=`: the trace may follow the option.
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0",
        conflicts_with_all = ["output", "force", "text"]
    )]
    pub(crate) serve: Option<u16>,
    /// How often to look whether the files have changed, at most
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "serve",
        default_value = "2",
        value_parser = seconds
    )]
    pub(crate) every: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let possible = Duration::from_millis(100)..=Duration::from_secs(86_400);
    let seconds = seconds.filter(|seconds| possible.contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0.1 to 86400".to_owned())
}

/// What a page shows.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Content {
    /// How many of the slowest trees of spans are shown [default: 20, or 5 as text]
    #[arg(long, value_name = "N")]
    slow: Option<usize>,
    /// Tell spans apart by the values of this field: status, customer. Otherwise, and for types
    /// without it, it is the one that a type marks as its dimension: the route of a request
    #[arg(long, value_name = "FIELD")]
    by: Option<String>,
    /// The heading of the page. It is the name of the trace's file otherwise
    #[arg(long)]
    title: Option<String>,
    #[command(flatten)]
    pub(crate) filter: EventFilter,
}

impl Content {
    /// What a report has whose trees are not shown.
    pub(crate) fn without_trees(by: Option<String>) -> Self {
        Self { slow: Some(0), by, title: None, filter: EventFilter::default() }
    }
}

/// Writes the report of `trace`. If the output is `-`, it goes to
/// `stdout`.
pub(crate) fn run(
    trace: (Source, Original),
    limits: ReadOptions,
    about: SourceFiles<'_>,
    options: &ReportOptions,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    if options.text {
        let slow = options.content.slow.or(Some(5));
        let content = Content { slow, ..options.content.clone() };
        let (report, _) = read(trace, limits, about, &content)?;
        report.write_text(stdout)?;
        return end(report);
    }
    let mut destination = Destination::open(&options.output, options.force, stdout)?;
    let (page, end) = page(trace, limits, about, &options.content)?;
    destination.write(&page)?;
    destination.finish()?;
    end
}

/// Reads a trace and makes its page. The inner `Result` says how the trace ended.
pub(crate) fn page(
    trace: (Source, Original),
    limits: ReadOptions,
    about: SourceFiles<'_>,
    content: &Content,
) -> Result<(Vec<u8>, Result<(), Failure>), Failure> {
    let (report, totals) = read(trace, limits, about, content)?;
    let mut page = Vec::new();
    report.write(&mut page)?;
    let (events, lost, bytes) = (totals.events, totals.lost, page.len());
    say(Some(format_args!("# events={events} lost={lost} bytes={bytes}")))?;
    Ok((page, end(report)))
}

/// Reads a trace.
pub(crate) fn read(
    (source, original): (Source, Original),
    limits: ReadOptions,
    about: SourceFiles<'_>,
    content: &Content,
) -> Result<(Report, Totals), Failure> {
    let reader = limits.options().keep_thread_totals(true).keep_type_totals(content.by.is_some());
    let mut events = reader.open(source)?.sorted();
    let name = || match about.name.file_name() {
        Some(name) if about.name.as_os_str() != "-" => name.to_string_lossy().into_owned(),
        _ => "standard input".into(),
    };
    let title = content.title.clone().unwrap_or_else(name);
    let mut wanted = report::Options::new(title).slowest(content.slow.unwrap_or(20));
    if let Some(field) = &content.by {
        wanted = wanted.by(field);
    }
    let mut report = Report::read(&mut events, &mut AsTree::default(), &wanted);
    if let Some(field) = &content.by {
        let version = events.major_version();
        let tells =
            |of: &Metadata| role_of(of, None, version).is_edge() || span_of_record(of).is_some();
        let tellers = "start, end or record of a span";
        say(suggestions::unknown_field("--by", field, events.type_totals(), (tells, tellers)))?;
    }
    if let Some(heph) = original.end()? {
        report.was_made_of("Heph 0.1.0", heph.bytes, heph.failure);
    }
    about.missing().into_iter().for_each(|sentence| report.note(sentence));
    Ok((report, events.totals().clone()))
}

/// How the trace ended.
pub(crate) fn end(report: Report) -> Result<(), Failure> {
    report.into_damage().map_or(Ok(()), |damage| Err(damage.into()))
}

/// Spells events as `nettrace tree` does.
#[derive(Default)]
struct AsTree {
    types: PerType<EventType>,
    namesakes: DuplicateTypeNames,
}

impl Describe for AsTree {
    fn event(&mut self, event: &Event<'_>) -> String {
        let ty = self.types.of(event, EventType::of);
        let place = self.namesakes.place(event.metadata());
        text(tree::text::event(event, place, ty, &Payload::of(event, ty), EventLook::default()))
    }

    fn details(&mut self, event: &Event<'_>, is_start: bool) -> String {
        let ty = self.types.of(event, EventType::of);
        text(tree::text::details(event, &Payload::of(event, ty), is_start, Detail::Short))
    }
}

fn text(written: io::Result<Vec<u8>>) -> String {
    // A vector takes everything.
    let text = written.unwrap_or_default();
    String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
