//! Conversion to the formats of viewers.

use std::io::{self, Write};

use nettrace_reader::Reader;
use nettrace_views::{Options, View};

use crate::{args::Limits, convert::destination::Destination, failure::Failure, source::Source};

/// Writes the trace of `reader` in the format of a viewer.
pub(super) fn run(
    view: View,
    reader: Reader<Source>,
    limits: Limits,
    destination: Destination<'_, impl Write>,
) -> Result<(), Failure> {
    let mut events = reader.sorted();
    let mut out = Out { destination, failure: None };
    let options = Options::default().spans_limit(limits.definitions());
    let written = nettrace_views::write(view, &mut events, &mut out, &options);
    let written = match (written, out.failure) {
        (_, Some(failure)) => return Err(failure),
        (written, None) => written?,
    };
    let size = out.destination.finish()?;
    super::report(events.totals(), written.left_out.lines(), view.title(), size)?;
    Ok(written.end?)
}

/// The destination as a writer. It keeps a failure, which says more than an error of a writer.
struct Out<'a, W: Write> {
    destination: Destination<'a, W>,
    failure: Option<Failure>,
}

impl<W: Write> Write for Out<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.destination.write(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(failure) => {
                self.failure = Some(failure);
                Err(io::ErrorKind::Other.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
