//! The parser of packets.

use crate::{
    error::Result,
    heph::{
        bytes::{Bytes, Read, damaged},
        value::Attributes,
    },
};

/// The first bytes of an event packet.
pub(super) const EVENT_MAGIC: u32 = 0xC1FC_1FB7;

/// The first bytes of a metadata packet.
pub(super) const METADATA_MAGIC: u32 = 0x75D1_1D4D;

/// The size of a packet's header: the magic number and the packet's size.
pub(super) const PACKET_HEADER: usize = 8;

/// The size of an event packet without description and attributes.
pub(super) const MIN_EVENT: usize = 42;

/// The size of a metadata packet of an option without name and value.
pub(super) const MIN_METADATA: usize = 10;

/// One event. It borrows from the reader until the next event is read.
///
/// ```
/// use nettrace_reader::heph::Reader;
///
/// # let file = nettrace_reader::heph_example();
/// let mut reader = Reader::new(&file[..]);
/// let event = reader.next_event()?.unwrap();
/// assert_eq!((event.stream, event.description), (3, "sale"));
/// assert_eq!(event.end - event.start, 3_000);
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The position of its packet, in bytes from the start of the trace.
    pub offset: u64,
    /// The epoch of its times, in nanoseconds since 1970-01-01 UTC, if the trace states it before
    /// the event, or the options say it. See [`Reader::epoch`](crate::heph::Reader::epoch).
    pub epoch: Option<u64>,
    /// The stream: the thread on which it happened.
    pub stream: u32,
    /// Its number in the stream, modulo 2^32.
    pub counter: u32,
    /// The substream: one of several tasks that take turns on the stream.
    pub substream: u64,
    /// Its start, in nanoseconds since the trace's [epoch](crate::heph::Reader::epoch).
    pub start: u64,
    /// Its end, in nanoseconds since the trace's epoch. The format does not demand that it is after
    /// the start.
    pub end: u64,
    /// Its description.
    pub description: &'a str,
    /// The bytes of its attributes.
    attributes: &'a [u8],
    /// The position of the attributes in the trace.
    attributes_offset: u64,
}

impl<'a> Event<'a> {
    /// Parses a packet, including its header, that begins at `offset`.
    pub(super) fn parse(packet: &'a [u8], offset: u64) -> Result<Self> {
        Self::read(Bytes::new(packet, offset)).map_err(damaged)
    }

    /// Its attributes, in order.
    ///
    /// ```
    /// use nettrace_reader::heph::{Reader, Value};
    ///
    /// # let file = nettrace_reader::heph_example();
    /// # let mut reader = Reader::new(&file[..]);
    /// let event = reader.next_event()?.unwrap();
    /// let (name, value) = event.attributes().next().unwrap()?;
    /// assert_eq!((name, value), ("cents", Value::U64(1_250)));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes::new(Bytes::new(self.attributes, self.attributes_offset))
    }

    fn read(mut bytes: Bytes<'a>) -> Read<Self> {
        let offset = bytes.offset();
        bytes.take(PACKET_HEADER)?;
        Ok(Self {
            offset,
            epoch: None,
            stream: bytes.u32()?,
            counter: bytes.u32()?,
            substream: bytes.u64()?,
            start: bytes.u64()?,
            end: bytes.u64()?,
            description: bytes.string()?,
            attributes_offset: bytes.offset(),
            attributes: bytes.rest(),
        })
    }
}
