//! The reader of traces.

use std::{
    collections::{HashMap, hash_map::Entry},
    io,
};

use nettrace_event::keys;

use crate::{
    error::{Error, ErrorKind, Result},
    heph::{
        bytes::damaged,
        packet::{EVENT_MAGIC, Event, METADATA_MAGIC, MIN_EVENT, MIN_METADATA, PACKET_HEADER},
    },
    input::Input,
};

/// The option of the format itself: nanoseconds since 1970 in 64 bits.
pub(super) const EPOCH: &[u8] = b"epoch";

/// The option of NetTrace for Rust for losses that a counter cannot show: the stream (32 bits), the
/// number of the last lost event (32 bits), how many are lost (64 bits).
pub(super) const LOST: &[u8] = keys::HEPH_LOST.as_bytes();

/// The option of NetTrace for Rust for padding: room that its file sink has not used yet.
pub(super) const PAD: &[u8] = keys::HEPH_PAD.as_bytes();

/// The largest packet of an option that the reader interprets.
const MOST_OPTION: usize = MIN_METADATA + LOST.len() + 16;

/// How many bytes of a skipped packet are in memory at a time.
const SKIPPED: u64 = 64 * 1024;

/// About how many bytes the table of streams takes for each stream.
const STREAM: usize = 2 * size_of::<(u32, StreamTotals)>();

/// Limits on memory, and the epoch of a trace that states it late.
///
/// ```
/// use nettrace_reader::{ErrorKind, heph::Options};
///
/// # let file = nettrace_reader::heph_example();
/// let mut reader = Options::default().packet_limit(64).streams_limit(1 << 20).open(&file[..]);
/// // The first event takes more than 64 bytes.
/// let error = reader.next_event().unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::LimitExceeded { limit: 64, .. }));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    packet_limit: usize,
    streams_limit: usize,
    epoch: Option<u64>,
}

impl Options {
    /// Limits the size of an event's packet, in bytes. The default is 64 MiB; the format allows 4
    /// GiB. Skipped packets may be larger.
    #[must_use]
    pub fn packet_limit(mut self, bytes: usize) -> Self {
        self.packet_limit = bytes;
        self
    }

    /// Limits the memory for the counters of streams, in bytes. The default is 64 MiB, enough for
    /// more than half a million streams.
    #[must_use]
    pub fn streams_limit(mut self, bytes: usize) -> Self {
        self.streams_limit = bytes;
        self
    }

    /// Sets the epoch of events that come before the trace states it. An epoch holds for the whole
    /// trace, wherever it stands ("Metadata Packet": it "involves all other packets"). So a trace
    /// that does not begin with it has to be read twice: [`find_epoch`](Self::find_epoch) finds it.
    ///
    /// ```
    /// use nettrace_reader::heph::Options;
    ///
    /// # let example = nettrace_reader::heph_example();
    /// # let file = [&example[23..], &example[..23]].concat();
    /// let epoch = Options::default().find_epoch(&file[..])?;
    /// let mut reader = Options::default().epoch(epoch).open(&file[..]);
    /// let event = reader.next_event()?.unwrap();
    /// assert!(event.epoch.is_some());
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn epoch(mut self, unix_nanos: Option<u64>) -> Self {
        self.epoch = unix_nanos;
        self
    }

    /// Reads `source` up to the first epoch, in nanoseconds since 1970-01-01 UTC. Returns `None` if
    /// there is none before the end, or before damage.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the source fails.
    pub fn find_epoch<R: io::Read>(&self, source: R) -> Result<Option<u64>> {
        let mut reader = Self { epoch: None, ..self.clone() }.open(source);
        loop {
            let more = match reader.next_event() {
                Ok(event) => event.is_some(),
                Err(error) if matches!(error.kind(), ErrorKind::Io(_)) => return Err(error),
                Err(_) => false,
            };
            if reader.epoch().is_some() || !more {
                return Ok(reader.epoch());
            }
        }
    }

    /// A reader of `source` with these limits. It reads nothing yet.
    pub fn open<R: io::Read>(self, source: R) -> Reader<R> {
        Reader {
            input: Input::new(source),
            epoch: self.epoch,
            is_stated: false,
            options: self,
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
        Self { packet_limit: 64 << 20, streams_limit: 64 << 20, epoch: None }
    }
}

/// The counts of a reader so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// The number of events.
    pub events: u64,
    /// The number of lost events, which show as gaps in the counters of streams. Losses before a
    /// stream's first event and after its last one show only if the writer states them by the
    /// option `nettrace.lost`, as NetTrace for Rust does.
    pub lost: u64,
    /// The number of events whose number does not exceed all earlier ones of their stream. Their
    /// packets are out of order, or occur twice. A stream whose numbers are all 0 has no counter,
    /// which the format allows.
    pub step_backs: u64,
    /// The number of packets of both kinds.
    pub packets: u64,
    /// The number of metadata packets with an unknown option.
    pub unknown_options: u64,
    /// The size of padding (`nettrace.pad`) in bytes. A file ends with padding while it is written,
    /// and if its writer was killed.
    pub padding: u64,
}

/// The counts of one stream so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamTotals {
    /// The stream.
    pub stream: u32,
    /// The number of its events.
    pub events: u64,
    /// See [`Totals::lost`].
    pub lost: u64,
    /// See [`Totals::step_backs`].
    pub step_backs: u64,
    /// The number of its first event, including events that are stated as lost.
    pub first_counter: u32,
    /// Its highest number, where 0 follows 2^32 - 1.
    pub last_counter: u32,
    /// The number of events with number 0 after the first one, until there is another number.
    unnumbered: u64,
}

impl StreamTotals {
    /// Notes the number of another event. Returns how many events are missing before it, or that it
    /// is late.
    fn step(&mut self, counter: u32) -> Step {
        if (self.first_counter, self.last_counter, counter) == (0, 0, 0) {
            self.unnumbered += 1;
            return Step::Ahead(0);
        }
        // The stream has a counter after all.
        self.step_backs += std::mem::take(&mut self.unnumbered);
        // A number that is ahead by half the range or more counts as behind.
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

/// Reads a trace from front to back.
///
/// ```
/// use nettrace_reader::heph::Reader;
///
/// # let file = nettrace_reader::heph_example();
/// let mut reader = Reader::new(&file[..]);
/// let mut descriptions = Vec::new();
/// while let Some(event) = reader.next_event()? {
///     descriptions.push(event.description.to_owned());
/// }
/// assert_eq!(descriptions, ["sale", "close"]);
/// assert_eq!(reader.totals().lost, 1);
/// assert_eq!(reader.offset(), file.len() as u64);
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    options: Options,
    epoch: Option<u64>,
    /// Whether the trace has stated an epoch so far.
    is_stated: bool,
    /// The position of a packet that set another epoch than the one before it.
    epochs_differ: Option<u64>,
    streams: HashMap<u32, StreamTotals>,
    totals: Totals,
    /// The size in bytes of the packet that was lent last.
    lent: usize,
    ended: bool,
}

impl<R: io::Read> Reader<R> {
    /// A reader with the default limits on memory. It reads nothing yet.
    pub fn new(source: R) -> Self {
        Options::default().open(source)
    }

    /// The next event. Returns `None` at the end of the trace, and after an error.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the source fails, [`ErrorKind::NotHeph`] if the trace does not begin
    /// with a packet, [`ErrorKind::Packet`] if a packet is damaged, [`ErrorKind::Truncated`] if the
    /// trace ends inside a packet, [`ErrorKind::LimitExceeded`]. Attributes are decoded later, by
    /// [`Event::attributes`].
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>> {
        self.input.consume(std::mem::take(&mut self.lent));
        if self.ended {
            return Ok(None);
        }
        // If this returns early, the trace is at its end.
        self.ended = true;
        let Some(size) = self.next_packet()? else { return Ok(None) };
        self.lent = size;
        let mut event = Event::parse(self.input.window(size), self.input.offset())?;
        event.epoch = self.epoch;
        count(&mut self.streams, &mut self.totals, &self.options, &event)?;
        self.ended = false;
        Ok(Some(event))
    }

    /// The epoch of the events' times, in nanoseconds since 1970-01-01 UTC, if the trace has stated
    /// it so far, or the [options](Options::epoch) say it. It applies to the whole trace, also to
    /// events before. Traces that were written behind each other into one file state several. Then
    /// each applies up to the next, and [`verify`](crate::heph::verify) says so if they differ.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// # let file = nettrace_reader::heph_example();
    /// # let mut reader = nettrace_reader::heph::Reader::new(&file[..]);
    /// let event = reader.next_event()?.unwrap();
    /// let (start, epoch) = (event.start, reader.epoch().unwrap());
    /// let started = SystemTime::UNIX_EPOCH + Duration::from_nanos(epoch + start);
    /// assert!(started < SystemTime::now());
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// The counts so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The streams so far, in no particular order.
    ///
    /// ```
    /// # let file = nettrace_reader::heph_example();
    /// # let mut reader = nettrace_reader::heph::Reader::new(&file[..]);
    /// while reader.next_event()?.is_some() {}
    /// for stream in reader.streams() {
    ///     assert_eq!((stream.stream, stream.events, stream.lost), (3, 2, 1));
    /// }
    /// # assert_eq!(reader.streams().count(), 1);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn streams(&self) -> impl Iterator<Item = &StreamTotals> {
        self.streams.values()
    }

    /// How many bytes the reader has used: up to the end of the last event's packet, or the
    /// position at which reading stopped.
    pub fn offset(&self) -> u64 {
        self.input.offset() + self.lent as u64
    }

    /// Where a packet stands that set another epoch than the one before it.
    pub(super) fn epochs_differ(&self) -> Option<u64> {
        self.epochs_differ
    }

    /// Reads up to the next event packet, which is then in the window. Returns its size, or `None`
    /// at the end.
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

    /// Interprets an option, or skips it.
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
        if self.is_stated && self.epoch != Some(epoch) {
            self.epochs_differ.get_or_insert(offset);
        }
        self.is_stated = true;
        self.epoch = Some(epoch);
    }

    /// Counts lost events of a stream, up to a number.
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
        let before = stream.step_backs;
        if let Step::Ahead(missing) = stream.step(event.counter) {
            totals.lost = totals.lost.saturating_add(missing);
        }
        totals.step_backs += stream.step_backs - before;
    }
    Ok(())
}

/// The counts of a stream. A new stream starts at `first`.
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
            unnumbered: 0,
        })),
    }
}

fn packet(offset: u64, what: &'static str) -> Error {
    damaged(nettrace_format::Damage { offset, what })
}

fn truncated(offset: u64, size: usize, held: usize) -> Error {
    Error::new(offset, ErrorKind::Truncated { missing: (size - held) as u64 })
}
