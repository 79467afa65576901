//! `nettrace verify`: checks every promise of a trace's writer.

use std::{fmt::Display, io::Write};

use serde::Serialize;

use crate::{args::Limits, failure::Failure, info::write_json, source::Source, spelling::OneLine};

/// Options of `verify`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct VerifyOptions {
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// How many violations to list; all are counted
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) most: usize,
}

/// The result of a check.
#[derive(Debug, Serialize)]
pub(crate) struct Findings<T> {
    pub(crate) sound: bool,
    /// The number of all violations, listed or not.
    pub(crate) violations_count: u64,
    pub(crate) violations: Vec<Finding>,
    #[serde(flatten)]
    pub(crate) totals: T,
}

/// A broken promise.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) offset: u64,
    pub(crate) rule: Option<String>,
    pub(crate) detail: String,
}

#[derive(Debug, Serialize)]
struct Totals {
    events: u64,
    lost: u64,
    blocks: u64,
    sequence_points: u64,
    bytes: u64,
}

pub(crate) fn run(
    source: Source,
    limits: Limits,
    options: VerifyOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let report = nettrace_reader::verify_with(source, limits.options(), options.most)?;
    if !options.json {
        let totals = format!(
            "events={} lost={} blocks={} sequence_points={} bytes={}",
            report.events, report.lost, report.blocks, report.sequence_points, report.bytes
        );
        return write_text(&report.violations, report.count, &totals, out);
    }
    let findings = report.violations.into_iter().map(|violation| Finding {
        offset: violation.offset,
        rule: Some(violation.rule.to_string()),
        detail: violation.detail,
    });
    let totals = Totals {
        events: report.events,
        lost: report.lost,
        blocks: report.blocks,
        sequence_points: report.sequence_points,
        bytes: report.bytes,
    };
    write_findings(findings.collect(), report.count, totals, out)
}

/// Writes the result of a check as one JSON object.
pub(crate) fn write_findings(
    violations: Vec<Finding>,
    count: u64,
    totals: impl Serialize,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let sound = count == 0;
    write_json(&Findings { sound, violations_count: count, violations, totals }, out)?;
    result(count)
}

/// Writes the result of a check as text: the violations, and a line of totals.
pub(crate) fn write_text(
    violations: &[impl Display],
    count: u64,
    totals: &str,
    out: &mut impl Write,
) -> Result<(), Failure> {
    for violation in violations {
        writeln!(out, "{}", OneLine(violation))?;
    }
    let hidden = count - violations.len() as u64;
    if hidden > 0 {
        writeln!(out, "… and {hidden} more; --most lists more")?;
    }
    writeln!(out, "# violations={count} {totals}")?;
    result(count)
}

fn result(count: u64) -> Result<(), Failure> {
    if count == 0 { Ok(()) } else { Err(Failure::Broken(count)) }
}
