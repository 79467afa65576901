//! The packets of a trace, one after the other.

use std::{
    collections::{HashMap, hash_map::Entry},
    io,
};

use crate::{
    error::{Error, ErrorKind, Result},
    heph::packet::{
        EVENT_MAGIC, Event, METADATA_MAGIC, MIN_EVENT, MIN_METADATA, PACKET_HEADER, damaged,
    },
    input::Input,
};

/// The option of the format itself: nanoseconds since 1970 in 64 bits.
const EPOCH: &[u8] = b"epoch";

/// The option of NetTrace for Rust which says that events are missing where a counter cannot: the
/// stream (32 bits), the number of the last of them (32 bits), how many (64 bits).
const LOST: &[u8] = b"nettrace.lost";

/// The option of NetTrace for Rust that says nothing: room which its file sink has not used.
const PAD: &[u8] = b"nettrace.pad";

/// The largest packet of an option that is looked at.
const MOST_OPTION: usize = MIN_METADATA + LOST.len() + 16;

/// How much of a packet that is skipped is held at a time.
const SKIPPED: u64 = 64 * 1024;

/// About what the table of streams takes for each, in bytes.
const STREAM: usize = 2 * size_of::<(u32, StreamTotals)>();

/// Bounds on memory.
#[derive(Clone, Debug)]
pub struct Options {
    packet_limit: usize,
    streams_limit: usize,
}

impl Options {
    /// The most bytes that the packet of an event may have; 64 MiB unless set. (The format's own
    /// bound is 4 GiB.) What is skipped does not count.
    #[must_use]
    pub fn packet_limit(mut self, bytes: usize) -> Self {
        self.packet_limit = bytes;
        self
    }

    /// The most bytes that the counters of streams may take; 64 MiB, for more than half a million
    /// of them, unless set.
    #[must_use]
    pub fn streams_limit(mut self, bytes: usize) -> Self {
        self.streams_limit = bytes;
        self
    }

    /// A reader of `source` with these bounds. Nothing is read yet.
    pub fn open<R: io::Read>(self, source: R) -> Reader<R> {
        Reader {
            input: Input::new(source),
            options: self,
            epoch: None,
            epochs_differ: None,
            streams: HashMap::new(),
            totals: Totals::default(),
            lent: 0,
            ended: false,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { packet_limit: 64 << 20, streams_limit: 64 << 20 }
    }
}

/// What was read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Events.
    pub events: u64,
    /// Numbers that the counters of streams left out. What is missing before a stream's first event
    /// or behind its last one shows only where the writer says so by the option `nettrace.lost`, as
    /// NetTrace for Rust does.
    pub lost: u64,
    /// Events whose number is not beyond all earlier ones of their stream: their packets changed
    /// places, came twice, or their writer does not count.
    pub step_backs: u64,
    /// Packets of both kinds.
    pub packets: u64,
    /// Metadata packets whose option nobody knows.
    pub unknown_options: u64,
    /// Bytes of packets without meaning (`nettrace.pad`): a file that is being written, or whose
    /// writer was killed, ends with some.
    pub padding: u64,
}

/// What was read so far of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamTotals {
    /// The stream.
    pub stream: u32,
    /// Its events.
    pub events: u64,
    /// As [`Totals::lost`].
    pub lost: u64,
    /// As [`Totals::step_backs`].
    pub step_backs: u64,
    /// The number of the first event, read or said to be lost.
    pub first_counter: u32,
    /// The highest number, in the sense that 0 comes after 2^32 - 1.
    pub last_counter: u32,
}

impl StreamTotals {
    /// Takes note of a further event's number; says how many are missing before it, or that it is
    /// late.
    fn step(&mut self, counter: u32) -> Step {
        // Half of all numbers are ahead of any, the other half behind.
        match counter.wrapping_sub(self.last_counter) {
            0 | 0x8000_0000.. => {
                self.step_backs += 1;
                Step::Back
            }
            ahead => {
                self.last_counter = counter;
                self.lost = self.lost.saturating_add(u64::from(ahead - 1));
                Step::Ahead(u64::from(ahead - 1))
            }
        }
    }
}

enum Step {
    Ahead(u64),
    Back,
}

/// Reads a trace front to back.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    options: Options,
    epoch: Option<u64>,
    /// Where a packet stands that set the epoch to something else.
    epochs_differ: Option<u64>,
    streams: HashMap<u32, StreamTotals>,
    totals: Totals,
    /// Bytes of the packet that was lent last.
    lent: usize,
    ended: bool,
}

impl<R: io::Read> Reader<R> {
    /// A reader with the usual bounds on memory. Nothing is read yet.
    pub fn new(source: R) -> Self {
        Options::default().open(source)
    }

    /// The next event; `None` at the end. After an error there are no more.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; [`ErrorKind::NotHeph`] where the trace does not begin with a packet,
    /// [`ErrorKind::Packet`] where a packet is damaged, [`ErrorKind::Truncated`] where the trace
    /// ends inside of one, [`ErrorKind::LimitExceeded`]. Attributes are only looked at when they
    /// are asked for.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>> {
        self.input.consume(std::mem::take(&mut self.lent));
        if self.ended {
            return Ok(None);
        }
        // Until the event is there, the trace is at its end.
        self.ended = true;
        let Some(size) = self.next_packet()? else { return Ok(None) };
        self.lent = size;
        let event = Event::parse(self.input.window(size), self.input.offset())?;
        count(&mut self.streams, &mut self.totals, &self.options, &event)?;
        self.ended = false;
        Ok(Some(event))
    }

    /// The time that events count from, in nanoseconds since 1970-01-01 UTC, if the trace has said
    /// so yet. The option applies to the whole trace, wherever it stands; the last one counts.
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// What was read so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The streams that were read so far, in no order.
    pub fn streams(&self) -> impl Iterator<Item = &StreamTotals> {
        self.streams.values()
    }

    /// Bytes read so far: the end of the last event's packet, or the place where reading stopped.
    pub fn offset(&self) -> u64 {
        self.input.offset() + self.lent as u64
    }

    /// Where a packet stands that set another epoch than the one before it.
    pub(super) fn epochs_differ(&self) -> Option<u64> {
        self.epochs_differ
    }

    /// Reads up to the next event packet; it is then in the window. Its size, or `None` at the end.
    fn next_packet(&mut self) -> Result<Option<usize>> {
        loop {
            let offset = self.input.offset();
            let header = self.fill(PACKET_HEADER)?;
            let is_metadata = match header.first_chunk().map(|magic| u32::from_be_bytes(*magic)) {
                Some(METADATA_MAGIC) => true,
                Some(EVENT_MAGIC) => false,
                None if header.is_empty() => return Ok(None),
                None if offset > 0 => return Err(truncated(offset, PACKET_HEADER, header.len())),
                _ if offset == 0 => return Err(Error::new(0, ErrorKind::NotHeph)),
                _ => return Err(packet(offset, "neither an event nor an option begins here")),
            };
            let Some(size) = header.get(4..).and_then(|size| size.first_chunk()) else {
                return Err(truncated(offset, PACKET_HEADER, header.len()));
            };
            let size = u32::from_be_bytes(*size);
            let least = if is_metadata { MIN_METADATA } else { MIN_EVENT };
            if u64::from(size) < least as u64 {
                return Err(packet(offset + 4, "its size is less than the least of its kind"));
            }
            self.totals.packets += 1;
            if is_metadata {
                self.metadata(offset, size.into())?;
                continue;
            }
            let limit = self.options.packet_limit;
            let size = match usize::try_from(size) {
                Ok(size) if size <= limit => size,
                _ => {
                    let kind = ErrorKind::LimitExceeded { what: "the packet of an event", limit };
                    return Err(Error::new(offset, kind));
                }
            };
            let held = self.fill(size)?.len();
            if held < size {
                return Err(truncated(offset, size, held));
            }
            return Ok(Some(size));
        }
    }

    /// Takes note of an option, or skips it.
    fn metadata(&mut self, offset: u64, size: u64) -> Result<()> {
        let head = self.fill(MOST_OPTION.min(size as usize))?;
        let Some(name_len) = head.get(8..).and_then(|len| len.first_chunk()) else {
            return Err(truncated(offset, size as usize, head.len()));
        };
        let name_len = u16::from_be_bytes(*name_len);
        if u64::from(name_len) > size - MIN_METADATA as u64 {
            return Err(packet(offset + 8, "the name of an option exceeds its packet"));
        }
        let value_at = MIN_METADATA + usize::from(name_len);
        let name = head.get(MIN_METADATA..value_at);
        let known = match name {
            Some(EPOCH) => Some((8, "the epoch does not have 8 bytes")),
            Some(LOST) => Some((16, "what is lost does not have 16 bytes")),
            _ => None,
        };
        if let Some((len, what)) = known {
            if size != (value_at + len) as u64 {
                return Err(packet(offset + value_at as u64, what));
            }
            if head.len() < value_at + len {
                return Err(truncated(offset, value_at + len, head.len()));
            }
            let value: Vec<u64> = head[value_at..]
                .chunks_exact(8)
                .map(|word| word.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
                .collect();
            match value[..] {
                [epoch] => self.set_epoch(epoch, offset),
                [which, count] => self.lose((which >> 32) as u32, which as u32, count, offset)?,
                _ => {}
            }
        } else if name == Some(PAD) {
            self.totals.padding = self.totals.padding.saturating_add(size);
        } else {
            self.totals.unknown_options += 1;
        }
        let mut left = size;
        while left > 0 {
            let part = left.min(SKIPPED) as usize;
            let held = self.fill(part)?.len();
            self.input.consume(held);
            left -= held as u64;
            if held < part {
                return Err(Error::new(offset, ErrorKind::Truncated { missing: left }));
            }
        }
        Ok(())
    }

    fn set_epoch(&mut self, epoch: u64, offset: u64) {
        if self.epoch.is_some_and(|earlier| earlier != epoch) {
            self.epochs_differ.get_or_insert(offset);
        }
        self.epoch = Some(epoch);
    }

    /// Counts events of a stream that are missing, up to a number.
    fn lose(&mut self, stream: u32, last: u32, count: u64, offset: u64) -> Result<()> {
        let first = last.wrapping_sub(count as u32).wrapping_add(1);
        let known = stream_totals(&mut self.streams, &self.options, stream, first, offset)?;
        known.lost = known.lost.saturating_add(count);
        known.last_counter = last;
        self.totals.lost = self.totals.lost.saturating_add(count);
        Ok(())
    }

    fn fill(&mut self, len: usize) -> Result<&[u8]> {
        let offset = self.input.offset();
        self.input.fill(len).map_err(|error| Error::new(offset, ErrorKind::Io(error)))
    }
}

fn count(
    streams: &mut HashMap<u32, StreamTotals>,
    totals: &mut Totals,
    options: &Options,
    event: &Event<'_>,
) -> Result<()> {
    let is_new = !streams.contains_key(&event.stream);
    let stream = stream_totals(streams, options, event.stream, event.counter, event.offset)?;
    totals.events += 1;
    stream.events += 1;
    if !is_new {
        match stream.step(event.counter) {
            Step::Ahead(missing) => totals.lost = totals.lost.saturating_add(missing),
            Step::Back => totals.step_backs += 1,
        }
    }
    Ok(())
}

/// What is known of a stream; of a new one, that it starts at `first`.
fn stream_totals<'a>(
    streams: &'a mut HashMap<u32, StreamTotals>,
    options: &Options,
    stream: u32,
    first: u32,
    offset: u64,
) -> Result<&'a mut StreamTotals> {
    let limit = options.streams_limit;
    let is_full = (streams.len() + 1).saturating_mul(STREAM) > limit;
    match streams.entry(stream) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(_) if is_full => {
            let kind = ErrorKind::LimitExceeded { what: "the table of streams", limit };
            Err(Error::new(offset, kind))
        }
        Entry::Vacant(vacant) => Ok(vacant.insert(StreamTotals {
            stream,
            events: 0,
            lost: 0,
            step_backs: 0,
            first_counter: first,
            last_counter: first,
        })),
    }
}

fn packet(offset: u64, what: &'static str) -> Error {
    damaged(crate::error::Damage { offset, what })
}

fn truncated(offset: u64, size: usize, held: usize) -> Error {
    Error::new(offset, ErrorKind::Truncated { missing: (size - held) as u64 })
}
