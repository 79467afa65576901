//! Packets that arrive one by one, over UDP: in any order, twice, or not at all.
//!
//! What comes out is a trace: the packets of each stream in the order of their counter. A gap in
//! the counter is what the network has lost, as far as the sender did not state it. A packet waits
//! while those before it may still come: until so many others have come, or somebody asks.

use std::collections::{BTreeMap, HashMap};

use crate::heph::{
    packet::{EVENT_MAGIC, Event, METADATA_MAGIC, MIN_METADATA},
    reader::{EPOCH, LOST, PAD},
};

/// How many bytes of packets wait, at most.
const MOST_BYTES: usize = 32 << 20;

/// How many streams are known, at most. They take about 20 MB.
const MOST_STREAMS: usize = 1 << 17;

/// How many options are passed on that are neither the epoch nor losses.
const MOST_OPTIONS: u64 = 1 << 10;

/// Where the counter of a stream begins, so that numbers before the first one are not negative.
const FIRST: i64 = 1 << 40;

/// What became of the datagrams so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramTotals {
    /// How many came.
    pub datagrams: u64,
    /// How many were events and were passed on.
    pub events: u64,
    /// How many events are missing: on the way, or because the sender lost them. What comes after
    /// it has counted as missing is [late](Self::late), and stays missing.
    pub lost: u64,
    /// How many came too late or a second time, and were left out.
    pub late: u64,
    /// How many were no whole and valid packet, or belong to a stream beyond the limit, and were
    /// left out.
    pub refused: u64,
}

/// Puts packets in order that arrive as datagrams, and counts what is missing.
///
/// ```
/// use nettrace_reader::heph::{Datagrams, Reader};
///
/// # let file = nettrace_reader::heph_example();
/// # let sizes = || { let mut rest = &file[..]; std::iter::from_fn(move || { let size =
/// #     u32::from_be_bytes(rest.get(4..8)?.try_into().ok()?) as usize;
/// #     let (first, others) = rest.split_at(size); rest = others; Some(first) }) };
/// # let [epoch, sale, close] = sizes().collect::<Vec<_>>()[..] else { panic!() };
/// // The three packets of an example, in another order.
/// let (mut datagrams, mut trace) = (Datagrams::new(100), Vec::new());
/// for packet in [close, epoch, sale] {
///     datagrams.push(packet, &mut trace);
/// }
/// datagrams.release(&mut trace);
///
/// let mut reader = Reader::new(&trace[..]);
/// assert_eq!(reader.next_event()?.map(|event| event.description == "sale"), Some(true));
/// assert_eq!(reader.next_event()?.map(|event| event.description == "close"), Some(true));
/// // Event 2 of the stream is missing.
/// assert_eq!((datagrams.totals().lost, reader.totals().lost), (1, 1));
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Debug)]
pub struct Datagrams {
    /// How many packets wait, at most.
    window: usize,
    lanes: HashMap<u32, Lane>,
    /// The streams of the packets that wait, by arrival.
    waiting: BTreeMap<u64, u32>,
    waiting_bytes: usize,
    arrivals: u64,
    epoch: Option<[u8; 8]>,
    options: u64,
    totals: DatagramTotals,
}

/// The packets of a stream.
#[derive(Debug, Default)]
struct Lane {
    /// The number that comes next; `None` before the first.
    next: Option<i64>,
    /// What waits, by the number of its first event. What states losses comes first.
    waiting: BTreeMap<(i64, Kind), Waiting>,
    /// Whether a number other than 0 has come. A sender may leave the counter at 0.
    is_counted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Lost,
    Event,
}

#[derive(Debug)]
struct Waiting {
    arrival: u64,
    /// The number after its last event.
    end: i64,
    packet: Box<[u8]>,
}

impl Lane {
    /// The place of a number, which has 32 bits, in the whole count.
    fn place(&self, number: u32) -> i64 {
        let first = self.waiting.first_key_value().map(|((start, _), _)| *start);
        let near = self.next.or(first).unwrap_or(FIRST + i64::from(number));
        near + i64::from(number.wrapping_sub(near as u32) as i32)
    }
}

impl Datagrams {
    /// Nothing has arrived. A packet waits for those before it until `window` packets wait, and
    /// they take at most 32 MiB.
    #[must_use]
    pub fn new(window: usize) -> Self {
        Self {
            window,
            lanes: HashMap::new(),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            arrivals: 0,
            epoch: None,
            options: 0,
            totals: DatagramTotals::default(),
        }
    }

    /// Takes a datagram, and appends the packets whose turn it is to `out`.
    pub fn push(&mut self, datagram: &[u8], out: &mut Vec<u8>) {
        self.totals.datagrams += 1;
        if self.take(datagram, out).is_none() {
            self.totals.refused += 1;
        }
        while self.waiting.len() > self.window || self.waiting_bytes > MOST_BYTES {
            self.release_oldest(out);
        }
    }

    /// Appends all packets that wait to `out`. What comes before them has not come, and counts as
    /// lost. Call it at the end, or when nothing has come for some time.
    pub fn release(&mut self, out: &mut Vec<u8>) {
        while !self.waiting.is_empty() {
            self.release_oldest(out);
        }
    }

    /// The counts so far. Packets that wait are in none but that of the datagrams.
    #[must_use]
    pub fn totals(&self) -> &DatagramTotals {
        &self.totals
    }

    /// `None` if the datagram is refused.
    fn take(&mut self, datagram: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let (magic, rest) = datagram.split_first_chunk()?;
        let (size, _) = rest.split_first_chunk()?;
        if u32::from_be_bytes(*size) as usize != datagram.len() {
            return None;
        }
        match u32::from_be_bytes(*magic) {
            EVENT_MAGIC => {
                let event = Event::parse(datagram, 0).ok()?;
                if event.attributes().any(|attribute| attribute.is_err()) {
                    return None;
                }
                self.event(event.stream, event.counter, datagram, out)
            }
            METADATA_MAGIC => self.option(datagram, out),
            _ => None,
        }
    }

    fn option(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let name_len = u16::from_be_bytes(*packet.get(8..)?.first_chunk()?);
        let (name, value) = packet[MIN_METADATA..].split_at_checked(name_len.into())?;
        match name {
            EPOCH => {
                let epoch = value.try_into().ok()?;
                // It is repeated for receivers that come later.
                let before = self.epoch.replace(epoch);
                if before == Some(epoch) {
                    return Some(());
                }
                if before.is_some() {
                    // Another trace of the sender, whose counters begin again.
                    self.release(out);
                    self.lanes.clear();
                }
                out.extend_from_slice(packet);
            }
            LOST => {
                let (stream, rest) = value.split_first_chunk()?;
                let (last, count) = rest.split_first_chunk()?;
                let count = u64::from_be_bytes(count.try_into().ok()?);
                let count = u32::try_from(count).ok()?;
                let (stream, last) = (u32::from_be_bytes(*stream), u32::from_be_bytes(*last));
                let lane = self.lane(stream)?;
                let end = lane.place(last) + 1;
                let start = end - i64::from(count);
                self.wait(stream, (start, Kind::Lost), end, packet, out);
            }
            PAD => {}
            _ if self.options < MOST_OPTIONS => {
                self.options += 1;
                out.extend_from_slice(packet);
            }
            _ => return None,
        }
        Some(())
    }

    fn event(&mut self, stream: u32, number: u32, packet: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let lane = self.lane(stream)?;
        let place = lane.place(number);
        let key = (place, Kind::Event);
        lane.is_counted |= number != 0;
        let waiting = lane.waiting.get(&key);
        let is_another = waiting.map_or(lane.next.is_some(), |it| *it.packet != *packet);
        if !lane.is_counted && is_another {
            // Two with the number 0: the sender does not count.
            while self.lanes.get(&stream).is_some_and(|lane| !lane.waiting.is_empty()) {
                self.release_first(stream, out);
            }
            self.totals.events += 1;
            out.extend_from_slice(packet);
            return Some(());
        }
        self.wait(stream, key, place + 1, packet, out);
        Some(())
    }

    fn lane(&mut self, stream: u32) -> Option<&mut Lane> {
        let is_full = self.lanes.len() >= MOST_STREAMS && !self.lanes.contains_key(&stream);
        if is_full { None } else { Some(self.lanes.entry(stream).or_default()) }
    }

    /// Lets a packet wait for its turn, which can be at once.
    fn wait(&mut self, stream: u32, key: (i64, Kind), end: i64, packet: &[u8], out: &mut Vec<u8>) {
        let lane = self.lanes.entry(stream).or_default();
        let is_mark = key.0 == end;
        if lane.next.is_some_and(|next| key.0 < next || (is_mark && end == next)) {
            // A mark says what is known already.
            self.totals.late += u64::from(!is_mark);
            return;
        }
        if lane.waiting.contains_key(&key) {
            self.totals.late += u64::from(!is_mark);
            return;
        }
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.waiting.insert(arrival, stream);
        self.waiting_bytes += packet.len();
        lane.waiting.insert(key, Waiting { arrival, end, packet: packet.into() });
        self.release_due(stream, out);
    }

    /// Appends what waits in a stream and comes next.
    fn release_due(&mut self, stream: u32, out: &mut Vec<u8>) {
        while let Some(lane) = self.lanes.get(&stream) {
            let first = lane.waiting.first_key_value().map(|((start, _), _)| *start);
            if first.is_none() || first > lane.next || lane.next.is_none() {
                return;
            }
            self.release_first(stream, out);
        }
    }

    fn release_oldest(&mut self, out: &mut Vec<u8>) {
        let Some((_, stream)) = self.waiting.first_key_value() else { return };
        let stream = *stream;
        self.release_first(stream, out);
        self.release_due(stream, out);
    }

    /// Appends the first packet that waits in a stream. What is missing before it is lost.
    fn release_first(&mut self, stream: u32, out: &mut Vec<u8>) {
        let Some(lane) = self.lanes.get_mut(&stream) else { return };
        let Some(((start, kind), waiting)) = lane.waiting.pop_first() else { return };
        let Waiting { arrival, end, packet } = waiting;
        self.waiting.remove(&arrival);
        self.waiting_bytes -= packet.len();
        let next = lane.next.unwrap_or(start);
        if end < next || (kind == Kind::Event && start < next) {
            // It is in what was stated as lost.
            self.totals.late += 1;
            return;
        }
        lane.next = Some(end);
        match kind {
            Kind::Event => {
                self.totals.events += 1;
                self.totals.lost += (start - next) as u64;
                out.extend_from_slice(&packet);
            }
            Kind::Lost => {
                // With what is missing before it, which a counter does not show any more.
                let count = (end - next) as u64;
                self.totals.lost += count;
                if count > 0 {
                    let value_at = packet.len() - 8;
                    out.extend_from_slice(&packet[..value_at]);
                    out.extend_from_slice(&count.to_be_bytes());
                }
            }
        }
    }
}
