//! `nettrace headers`: one line of columns for each event.

use std::{fmt, io::Write};

use crate::{
    dump::{each, processor},
    failure::Failure,
    filter::FilterOptions,
    read_options::ReadOptions,
    source::Source,
    spelling::OneLine,
    summary::Reach,
};

pub(crate) fn run(
    source: Source,
    limits: ReadOptions,
    options: &FilterOptions,
    out: &mut impl Write,
) -> Result<Reach, Failure> {
    each(source, limits, options, false, out, |event, _, _, facts, line| {
        let metadata = event.metadata();
        writeln!(
            line,
            "{}\t{}\t{}\t{}\t0x{:x}\t{}\t{}\t{}\t{}\t{}\t{:08x}",
            OneLine(&metadata.provider),
            metadata.event_id,
            event.version(),
            event.level(),
            event.keywords(),
            event.opcode(),
            OrDash(event.thread().os_thread_id),
            OrDash(processor(event)),
            OrDash(facts.clock.exactly(event.header.timestamp).map(Milliseconds)),
            event.payload.len(),
            fnv1a(event.payload)
        )
    })
}

/// Shows a value, or a dash if it is unknown.
struct OrDash<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrDash<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// Nanoseconds as milliseconds with six decimals.
struct Milliseconds(i128);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:06}", nanos / 1_000_000, nanos % 1_000_000)
    }
}

/// FNV-1a with 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    #[test]
    fn fnv1a() {
        assert_eq!(super::fnv1a(b""), 0x811C_9DC5);
        assert_eq!(super::fnv1a(b"a"), 0xE40C_292C);
        assert_eq!(super::fnv1a(b"foobar"), 0xBF9C_F968);
    }
}
