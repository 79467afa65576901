//! `nettrace verify` for a Heph trace.

use std::io::Write;

use serde::Serialize;

use crate::{
    failure::Failure,
    heph::HephSource,
    read_options::ReadOptions,
    verify::{Finding, VerifyOptions, result, write_findings, write_text},
};

#[derive(Serialize)]
struct Totals {
    events: u64,
    lost: u64,
    spans: u64,
    packets: u64,
    bytes: u64,
}

pub(crate) fn verify(
    source: HephSource,
    limits: ReadOptions,
    wanted: VerifyOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let options = source.options(limits);
    let report = nettrace_reader::heph::verify(source.bytes, options, wanted.most)?;
    let counts = (report.count, report.format_count);
    if !wanted.json {
        let totals = format!(
            "events={} lost={} spans={} packets={} bytes={} of_format={}",
            report.events,
            report.lost,
            report.spans,
            report.packets,
            report.bytes,
            report.format_count
        );
        write_text(&report.violations, report.count, &totals, out)?;
        return result(counts, wanted.strict);
    }
    // The promises of this format have no names.
    let findings = report.violations.into_iter().map(|violation| Finding {
        offset: violation.offset,
        rule: None,
        basis: violation.basis.to_string(),
        detail: violation.what,
    });
    let totals = Totals {
        events: report.events,
        lost: report.lost,
        spans: report.spans,
        packets: report.packets,
        bytes: report.bytes,
    };
    write_findings(findings.collect(), counts, totals, out)?;
    result(counts, wanted.strict)
}
