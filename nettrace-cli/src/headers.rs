//! `nettrace headers`: one line of columns for each event.

use std::{io::Write, time::Instant};

use crate::{args::Limits, failure::Failure, shown::Shower, source::Source, summary::Delivered};

pub(crate) fn run(source: Source, limits: Limits, out: &mut impl Write) -> Result<(), Failure> {
    let started = Instant::now();
    let mut events = limits.options().open(source)?.sorted();
    let mut shower = Shower::new(events.major_version());
    let mut delivered = Delivered::default();
    let end = loop {
        let event = match events.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        delivered.count(&event);
        let shown = shower.show(&event);
        writeln!(
            out,
            "{}\t{}\t{}\t{}\t0x{:x}\t{}\t{}\t{}\t{:.4}\t{}\t{:08x}",
            event.metadata().provider,
            shown.event_id,
            event.version(),
            event.level(),
            event.keywords(),
            shown.opcode,
            shown.thread,
            shown.processor,
            shown.milliseconds,
            event.payload.len(),
            fnv1a(event.payload)
        )?;
    };
    delivered.write(events.trace(), events.totals(), started, out)?;
    Ok(end?)
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
