//! `nettrace verify`: checks every promise of a trace's writer. It fails if a rule of the format is
//! broken; what the format allows is listed alone.

use std::{collections::BTreeMap, io::Write, path::Path};

use nettrace_reader::heph;
use serde::{Serialize, Serializer};

use crate::{
    failure::Failure, heph::Trace, info::write_json, read_options::ReadOptions, source::Source,
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
struct Findings {
    sound: bool,
    /// The number of all violations, listed or not.
    violations_count: u64,
    /// The number of violations of rules of the format.
    format_violations_count: u64,
    violations: Vec<Finding>,
    #[serde(flatten)]
    totals: Totals,
}

/// A broken promise.
#[derive(Debug, Serialize)]
struct Finding {
    offset: u64,
    /// The promises of Heph's format have no names.
    rule: Option<String>,
    /// Where the rule comes from.
    basis: String,
    detail: String,
    #[serde(skip)]
    text: String,
}

/// Counts, which differ between formats.
#[derive(Debug)]
struct Totals(Vec<(&'static str, u64)>);

impl Serialize for Totals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

pub(crate) fn run(
    trace: Trace,
    limits: ReadOptions,
    options: VerifyOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let findings = match trace {
        Trace::NetTrace(source) | Trace::Made(source, _) => {
            of_nettrace(source, limits, options.most)?
        }
        Trace::Heph(source) => of_heph(source.verify(limits, options.most)?),
    };
    match options.json {
        true => write_json(&findings, out)?,
        false => write_text(&findings, out)?,
    }
    match (findings.violations_count, findings.format_violations_count) {
        (count @ 1.., _) if options.strict => Err(Failure::Broken(count)),
        (_, count @ 1..) if !options.strict => Err(Failure::Illegal(count)),
        _ => Ok(()),
    }
}

fn of_nettrace(source: Source, limits: ReadOptions, most: usize) -> Result<Findings, Failure> {
    let report = nettrace_reader::verify_with(source, limits.options(), most)?;
    let violations = report.violations.into_iter().map(|it| Finding {
        offset: it.offset,
        rule: Some(it.rule.to_string()),
        basis: it.rule.basis().to_string(),
        text: it.to_string(),
        detail: it.detail,
    });
    let totals = vec![
        ("events", report.events),
        ("lost", report.lost),
        ("blocks", report.blocks),
        ("sequence_points", report.sequence_points),
        ("bytes", report.bytes),
    ];
    Ok(Findings::new(violations.collect(), (report.count, report.format_count), totals))
}

fn of_heph(report: heph::Report) -> Findings {
    let violations = report.violations.into_iter().map(|it| Finding {
        offset: it.offset,
        rule: None,
        basis: it.basis.to_string(),
        text: it.to_string(),
        detail: it.what,
    });
    let totals = vec![
        ("events", report.events),
        ("lost", report.lost),
        ("spans", report.spans),
        ("packets", report.packets),
        ("bytes", report.bytes),
    ];
    Findings::new(violations.collect(), (report.count, report.format_count), totals)
}

impl Findings {
    fn new(
        violations: Vec<Finding>,
        (count, of_format): (u64, u64),
        totals: Vec<(&'static str, u64)>,
    ) -> Self {
        Self {
            sound: count == 0,
            violations_count: count,
            format_violations_count: of_format,
            violations,
            totals: Totals(totals),
        }
    }
}

/// Writes which of several files the result that follows is of. As JSON it is a line of its own.
pub(crate) fn write_file(file: &Path, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    match json {
        true => write_json(&BTreeMap::from([("file", file.to_string_lossy())]), out),
        false => Ok(writeln!(out, "{}:", OneLine(file.display()))?),
    }
}

/// Writes the violations, and a line of totals.
fn write_text(findings: &Findings, out: &mut impl Write) -> Result<(), Failure> {
    for violation in &findings.violations {
        writeln!(out, "{}", OneLine(&violation.text))?;
    }
    let count = findings.violations_count;
    let hidden = count - findings.violations.len() as u64;
    if hidden > 0 {
        writeln!(out, "… and {hidden} more; --most lists more")?;
    }
    write!(out, "# violations={count}")?;
    for (what, count) in &findings.totals.0 {
        write!(out, " {what}={count}")?;
    }
    Ok(writeln!(out, " of_format={}", findings.format_violations_count)?)
}
