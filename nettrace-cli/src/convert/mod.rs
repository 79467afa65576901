//! `nettrace convert`: a trace, written again in another version of the format or in another
//! format.
//!
//! The items of the source ([`Reader::next_item`]) go one by one, in their order, to a
//! [`Target`]: the blocks and sequence points of the result stand where those of the source stood,
//! so that what the source proves of the order of its events, the result proves too. Nothing is
//! kept but what is defined at the moment, so that memory does not grow with the trace.
//!
//! | target | module |
//! |---|---|
//! | NetTrace V6 | [`current`]: it has words for whatever the other versions say |
//! | NetTrace V5, V4, Heph | [`older`]: payloads and threads as sessions have them |
//!
//! What the target cannot say is counted by kind ([`left_out`]) and listed on standard error.

mod current;
mod destination;
mod left_out;
mod numbers;
mod older;
mod types;

use std::{
    io::{self, Write},
    path::Path,
};

use nettrace_format::{
    Format,
    content::{SystemTimeParts, TraceInfo},
};
use nettrace_reader::{Item, Reader, Trace};

use crate::{
    args::{Limits, TargetFormat},
    convert::{current::Current, destination::Destination, left_out::LeftOut, older::Older},
    failure::Failure,
    source::Source,
};

/// Bytes that are collected before they are written.
const BATCH: usize = 1 << 20;

/// What to write, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    /// A path, or `-` for standard output.
    pub(crate) out: &'a Path,
    pub(crate) to: TargetFormat,
    /// Whether a file that is there may be replaced.
    pub(crate) force: bool,
}

/// Rewrites `source`. `stdout` is where the trace goes for `-`.
pub(crate) fn run(
    source: Source,
    limits: Limits,
    task: Task<'_>,
    stdout: &mut impl Write,
) -> Result<(), Failure> {
    let mut destination = Destination::open(task.out, task.force, stdout)?;
    let mut reader = limits.options().open(source)?;
    let mut target: Box<dyn Target> = match task.to.format() {
        Format::V6 => Box::new(Current::new(reader.major_version())),
        format => Box::new(Older::new(format, reader.major_version(), limits.definitions())),
    };
    let mut bytes = Vec::with_capacity(2 * BATCH);
    with_info(reader.trace(), |info| target.begin(info, &mut bytes))?;
    let end = copy(&mut reader, &mut *target, &mut bytes, &mut destination)?;
    // Whatever was readable is in the result, which is complete also where the source is not.
    target.finish(&mut bytes)?;
    destination.write(&bytes)?;
    let written = destination.finish()?;
    let unknown_blocks = reader.totals().unknown_blocks;
    report(&reader, LeftOut { unknown_blocks, ..target.left_out() }, task.to, written)?;
    Ok(end?)
}

/// A trace in the making.
trait Target {
    /// The first bytes.
    fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// What the source says next.
    fn item(&mut self, item: Item<'_>, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// The last bytes.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// What could not be said so far.
    fn left_out(&self) -> LeftOut;
}

/// Hands over all items. The inner result says how the source ended.
fn copy<W: Write>(
    reader: &mut Reader<Source>,
    target: &mut dyn Target,
    bytes: &mut Vec<u8>,
    destination: &mut Destination<'_, W>,
) -> Result<Result<(), nettrace_reader::Error>, Failure> {
    loop {
        match reader.next_item() {
            Ok(Some(item)) => target.item(item, bytes)?,
            Ok(None) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        }
        if bytes.len() >= BATCH {
            destination.write(bytes)?;
            bytes.clear();
        }
    }
}

/// What the trace says of itself, as writers take it.
fn with_info<T>(trace: &Trace, take: impl FnOnce(&TraceInfo<'_>) -> T) -> T {
    let time = &trace.sync_time;
    let key_values: Vec<_> =
        trace.key_values.iter().map(|(key, value)| (&**key, &**value)).collect();
    take(&TraceInfo {
        sync_utc: SystemTimeParts {
            year: time.year as u16,
            month: time.month as u16,
            day_of_week: time.day_of_week as u16,
            day: time.day as u16,
            hour: time.hour as u16,
            minute: time.minute as u16,
            second: time.second as u16,
            millisecond: time.millisecond as u16,
        },
        sync_ticks: trace.sync_ticks,
        ticks_per_second: trace.ticks_per_second,
        pointer_size: trace.pointer_size,
        key_values: &key_values,
    })
}

/// Says on standard error what was read and written, and what was left out.
fn report(
    reader: &Reader<Source>,
    left_out: LeftOut,
    to: TargetFormat,
    written: u64,
) -> io::Result<()> {
    let mut text = String::new();
    for (count, what) in left_out.lines() {
        text.push_str(&format!("left out, for {to} cannot say it: {count} {what}\n"));
    }
    let totals = reader.totals();
    text.push_str(&format!(
        "# events={} lost={} left_out={} bytes={written}\n",
        totals.events,
        totals.lost,
        left_out.total()
    ));
    match io::stderr().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// A GUID from the byte order of the format to that of RFC 4122, or back.
fn turned(guid: [u8; 16]) -> [u8; 16] {
    let mut turned = guid;
    turned[..4].reverse();
    turned[4..6].reverse();
    turned[6..8].reverse();
    turned
}
