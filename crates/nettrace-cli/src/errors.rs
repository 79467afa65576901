//! `nettrace errors`: errors, warnings and spans that failed, from the report of a trace.

use std::io::Write;

use crate::{
    failure::Failure, files::SourceFiles, filter::EventFilter, heph::Original,
    read_options::ReadOptions, report, source::Source, spelling::LevelBound, standard_error::say,
};

/// Options of `errors`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ErrorsOptions {
    /// Print one JSON object per line for each group, and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// The most groups that are shown; the trace has at most 500 [default: 30, or all as JSON]
    #[arg(long, value_name = "N", aliases = ["top", "head", "limit"])]
    most: Option<usize>,
    /// Tell spans apart by the values of this field, as report --by does
    #[arg(long, value_name = "FIELD")]
    by: Option<String>,
    #[command(flatten)]
    filter: EventFilter,
}

impl ErrorsOptions {
    /// The filters but for the level, which chooses among the groups.
    pub(crate) fn filter(&self) -> EventFilter {
        let mut filter = self.filter.clone();
        filter.level = None;
        filter
    }
}

/// The level of those that are shown, unless another one is asked for.
const WARNING: u8 = 3;
const ERROR: u8 = 2;

/// How many groups are shown as text.
const MOST: usize = 30;

/// Writes the groups of errors of `trace`.
pub(crate) fn run(
    trace: (Source, Original),
    limits: ReadOptions,
    about: SourceFiles<'_>,
    options: &ErrorsOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let content = report::Content::without_trees(options.by.clone());
    let (report, totals) = report::read(trace, limits, about, &content)?;
    let mut shown = Vec::new();
    let level = options.filter.level.map_or(WARNING, |level| level.most);
    match options.json {
        true => {
            report.write_errors_json(level, options.most.unwrap_or(usize::MAX), &mut shown)?;
        }
        false => report.write_errors(level, options.most.unwrap_or(MOST), &mut shown)?,
    }
    if shown.is_empty() {
        let events = totals.events;
        let bound = options.filter.level;
        let bound = bound.unwrap_or(LevelBound { most: WARNING, has_trace: true });
        // A span that failed is an error.
        let failed = if level < ERROR { "" } else { ", and no span failed" };
        say(Some(format_args!(
            "nothing was shown: of {events} events, none has level {bound} or a more severe \
             one{failed}"
        )))?;
    }
    out.write_all(&shown)?;
    say(Some(format_args!(
        "# events={} lost={} groups={} of_no_group={}",
        totals.events,
        totals.lost,
        report.error_groups(level),
        report.other_errors(),
    )))?;
    report::end(report)
}
