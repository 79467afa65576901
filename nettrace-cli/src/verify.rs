//! `nettrace verify`: every promise of a writer, checked.

use std::io::Write;

use crate::{args::Limits, failure::Failure, source::Source};

pub(crate) fn run(
    source: Source,
    limits: Limits,
    most: usize,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let report = nettrace_reader::verify_with(source, limits.options(), most)?;
    for violation in &report.violations {
        writeln!(out, "{violation}")?;
    }
    let hidden = report.count - report.violations.len() as u64;
    if hidden > 0 {
        writeln!(out, "… and {hidden} more")?;
    }
    writeln!(
        out,
        "# violations={} events={} lost={} blocks={} sequence_points={} bytes={}",
        report.count,
        report.events,
        report.lost,
        report.blocks,
        report.sequence_points,
        report.bytes
    )?;
    if report.is_sound() { Ok(()) } else { Err(Failure::Broken(report.count)) }
}
