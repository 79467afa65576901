//! Traces in the formats of viewers, each compared with the source, with the others, and with the
//! programs that read it.

mod chrome;
mod firefox;
mod hostile;
mod judge_dotnet;
mod libraries;
mod perfetto;
mod profiles;
mod schemas;
mod sources;
mod speedscope_page;

use nettrace_reader::Reader;
use nettrace_views::viewers::{Options, View, write};

/// A trace in the format of a viewer. `None`: it cannot be read.
fn convert(view: View, source: &[u8]) -> Option<Vec<u8>> {
    let mut events = Reader::new(source).ok()?.sorted();
    let mut out = Vec::new();
    write(view, &mut events, &mut out, &Options::default()).unwrap();
    Some(out)
}
