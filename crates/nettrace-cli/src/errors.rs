//! `nettrace errors`: errors, warnings and spans that failed, from the report of a trace.

use std::io::Write;

use crate::{
    failure::Failure, files::SourceFiles, heph::Original, read_options::ReadOptions, report,
    source::Source, spelling::read_level, standard_error::say,
};

/// Options of `errors`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ErrorsOptions {
    /// Print one JSON object per line for each group, and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// Only those of this level or a more severe one: critical, error or warning. Spans that failed
    /// count as errors
    #[arg(long, value_name = "LEVEL", value_parser = read_level, default_value = "warning")]
    level: u8,
    /// The most groups that are shown; the trace has at most 500
    #[arg(long, value_name = "N", default_value_t = 30)]
    most: usize,
    /// Tell spans apart by the values of this field, as report --by does
    #[arg(long, value_name = "FIELD")]
    by: Option<String>,
}

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
    match options.json {
        true => report.write_errors_json(options.level, options.most, &mut shown)?,
        false => report.write_errors(options.level, options.most, &mut shown)?,
    }
    if shown.is_empty() {
        let events = totals.events;
        say(Some(format_args!(
            "nothing was shown: of {events} events, none is so severe, and no span failed"
        )))?;
    }
    out.write_all(&shown)?;
    say(Some(format_args!("# events={} lost={}", totals.events, totals.lost)))?;
    report::end(report)
}
