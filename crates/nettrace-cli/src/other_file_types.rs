//! Files that are no traces, or that have one packed inside: what to do with them.

use std::path::Path;

/// The first bytes of a file, its type, and advice.
const KNOWN: [(&[u8], &str, &str); 13] = [
    (b"\x1f\x8b", "compressed by gzip", "unpack it first: gzip -dc FILE | nettrace … -"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it first: zstd -dc FILE | nettrace … -"),
    (b"\xfd7zXZ\0", "compressed by xz", "unpack it first: xz -dc FILE | nettrace … -"),
    (b"BZh", "compressed by bzip2", "unpack it first: bzip2 -dc FILE | nettrace … -"),
    (b"\x04\x22\x4d\x18", "compressed by lz4", "unpack it first: lz4 -dc FILE | nettrace … -"),
    (b"PK\x03\x04", "a ZIP archive", "unpack it first: unzip FILE"),
    (b"{", "JSON, perhaps what a conversion has made", READS),
    (b"[", "JSON, perhaps what a conversion has made", READS),
    (b"<", "XML or HTML, perhaps a report", READS),
    (b"PAR1", "a Parquet table", READS),
    (b"ARROW1", "an Arrow table", READS),
    (
        b"NTRecord",
        "a recorder file, the memory of a session",
        "when its process has ended, `nettrace recover` makes a trace of it",
    ),
    (b"PERFILE2", "a recording of perf", "`eventheader decode` shows its EventHeader events"),
];

const READS: &str = "give this command the trace itself, NetTrace or Heph";

/// The number of bytes that suffice to recognize a file.
pub(crate) const LONGEST: usize = 8;

/// The type of a file that begins with these bytes, and advice. `None`: it can be a trace, or is
/// unknown.
pub(crate) fn tell(first: &[u8], file: &Path) -> Option<(&'static str, &'static str)> {
    if b"Nettrace".starts_with(first) || first == b"Nettrace" {
        return None;
    }
    if let Some((_, what, advice)) = KNOWN.iter().find(|(magic, ..)| first.starts_with(magic)) {
        return Some((what, advice));
    }
    // These have no bytes that tell.
    let is_etl = file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("etl"));
    is_etl.then_some((
        "a trace of Windows (.etl)",
        "PerfView and Windows Performance Analyzer open it",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_told_by_its_bytes() {
        let what = |first: &[u8], file: &str| tell(first, Path::new(file)).map(|(what, _)| what);
        assert_eq!(what(b"Nettrace", "a.etl"), None);
        assert_eq!(what(b"", "a.nettrace"), None);
        assert_eq!(what(b"\x1f\x8b\x08\0\0\0\0\0", "a.nettrace"), Some("compressed by gzip"));
        assert_eq!(what(b"PK\x03\x04\x14\0\0\0", "-"), Some("a ZIP archive"));
        assert_eq!(what(b"\0\0\x01\0\0\0\x01\0", "A.ETL"), Some("a trace of Windows (.etl)"));
        assert_eq!(what(b"\0\0\x01\0\0\0\x01\0", "a.bin"), None);
        assert!(KNOWN.iter().all(|(magic, ..)| (1..=LONGEST).contains(&magic.len())));
    }
}
