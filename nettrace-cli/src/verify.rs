//! `nettrace verify`: every promise of a writer, checked.

use std::{fmt::Display, io::Write};

use crate::{args::Limits, failure::Failure, source::Source};

pub(crate) fn run(
    source: Source,
    limits: Limits,
    most: usize,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let report = nettrace_reader::verify_with(source, limits.options(), most)?;
    let totals = format!(
        "events={} lost={} blocks={} sequence_points={} bytes={}",
        report.events, report.lost, report.blocks, report.sequence_points, report.bytes
    );
    tell(&report.violations, report.count, &totals, out)
}

/// Prints what a check has found: the first violations of `count`, and a line of totals.
pub(crate) fn tell(
    violations: &[impl Display],
    count: u64,
    totals: &str,
    out: &mut impl Write,
) -> Result<(), Failure> {
    for violation in violations {
        writeln!(out, "{violation}")?;
    }
    let hidden = count - violations.len() as u64;
    if hidden > 0 {
        writeln!(out, "… and {hidden} more")?;
    }
    writeln!(out, "# violations={count} {totals}")?;
    if count == 0 { Ok(()) } else { Err(Failure::Broken(count)) }
}
