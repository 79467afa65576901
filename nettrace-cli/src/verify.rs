//! `nettrace verify`: checks every promise of a trace's writer. It fails if a rule of the format is
//! broken; what the format allows is listed alone.

use std::{collections::BTreeMap, fmt::Display, io::Write, path::Path};

use serde::Serialize;

use crate::{
    failure::Failure, info::write_json, read_options::ReadOptions, source::Source,
    spelling::OneLine,
};

/// Options of `verify`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct VerifyOptions {
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// How many violations to list; all are counted
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) most: usize,
    /// Exit with 1 for every violation, also of what the format allows: what the reference reader
    /// does not read right, and what this project promises beyond the format
    #[arg(long)]
    pub(crate) strict: bool,
}

/// The result of a check.
#[derive(Debug, Serialize)]
pub(crate) struct Findings<T> {
    pub(crate) sound: bool,
    /// The number of all violations, listed or not.
    pub(crate) violations_count: u64,
    /// The number of violations of rules of the format.
    pub(crate) format_violations_count: u64,
    pub(crate) violations: Vec<Finding>,
    #[serde(flatten)]
    pub(crate) totals: T,
}

/// A broken promise.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) offset: u64,
    pub(crate) rule: Option<String>,
    /// Where the rule comes from.
    pub(crate) basis: String,
    pub(crate) detail: String,
}

#[derive(Debug, Serialize)]
struct CheckTotals {
    events: u64,
    lost: u64,
    blocks: u64,
    sequence_points: u64,
    bytes: u64,
}

pub(crate) fn run(
    source: Source,
    limits: ReadOptions,
    options: VerifyOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let report = nettrace_reader::verify_with(source, limits.options(), options.most)?;
    let counts = (report.count, report.format_count);
    if !options.json {
        let totals = format!(
            "events={} lost={} blocks={} sequence_points={} bytes={} of_format={}",
            report.events,
            report.lost,
            report.blocks,
            report.sequence_points,
            report.bytes,
            report.format_count
        );
        write_text(&report.violations, report.count, &totals, out)?;
        return result(counts, options.strict);
    }
    let findings = report.violations.into_iter().map(|violation| Finding {
        offset: violation.offset,
        rule: Some(violation.rule.to_string()),
        basis: violation.rule.basis().to_string(),
        detail: violation.detail,
    });
    let totals = CheckTotals {
        events: report.events,
        lost: report.lost,
        blocks: report.blocks,
        sequence_points: report.sequence_points,
        bytes: report.bytes,
    };
    write_findings(findings.collect(), counts, totals, out)?;
    result(counts, options.strict)
}

/// Writes which of several files the result that follows is of. As JSON it is a line of its own.
pub(crate) fn write_file(file: &Path, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    match json {
        true => write_json(&BTreeMap::from([("file", file.to_string_lossy())]), out),
        false => Ok(writeln!(out, "{}:", OneLine(file.display()))?),
    }
}

/// Writes the result of a check as one JSON object.
pub(crate) fn write_findings(
    violations: Vec<Finding>,
    (count, of_format): (u64, u64),
    totals: impl Serialize,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let findings = Findings {
        sound: count == 0,
        violations_count: count,
        format_violations_count: of_format,
        violations,
        totals,
    };
    write_json(&findings, out)
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
    Ok(writeln!(out, "# violations={count} {totals}")?)
}

/// Fails for violations of the format's rules, or for all that were counted.
pub(crate) fn result((all, of_format): (u64, u64), is_strict: bool) -> Result<(), Failure> {
    match if is_strict { all } else { of_format } {
        0 => Ok(()),
        count if is_strict => Err(Failure::Broken(count)),
        count => Err(Failure::Illegal(count)),
    }
}
