//! Writes single packets.

use alloc::vec::Vec;

use nettrace_event::keys;

use crate::error::FormatError;

/// The first four bytes of an event packet.
const EVENT_MAGIC: u32 = 0xC1FC_1FB7;

/// The first four bytes of a metadata packet.
const METADATA_MAGIC: u32 = 0x75D1_1D4D;

/// The type codes of attributes.
pub(super) mod code {
    pub(in crate::heph) const U64: u8 = 1;
    pub(in crate::heph) const I64: u8 = 2;
    pub(in crate::heph) const F64: u8 = 3;
    pub(in crate::heph) const STRING: u8 = 4;
    /// Marks an array: combined with the type code of its elements.
    pub(in crate::heph) const ARRAY: u8 = 0x80;
}

/// Appends the metadata packet that sets the trace's epoch, in nanoseconds since 1970-01-01 UTC: 23
/// bytes.
///
/// ```
/// let mut trace = Vec::new();
/// nettrace_format::heph::epoch(1_700_000_000_000_000_000, &mut trace);
/// assert_eq!(trace.len(), 23);
/// ```
pub fn epoch(unix_nanos: u64, out: &mut Vec<u8>) {
    // Name and value are within the limits.
    let _ = option("epoch", &unix_nanos.to_be_bytes(), out);
}

/// Appends a metadata packet: the name of an option and the bytes of its value.
///
/// The format defines only the option [`epoch`]. Readers skip options that they do not know.
///
/// ```
/// let mut packet = Vec::new();
/// nettrace_format::heph::option("host", b"web-1", &mut packet)?;
/// // Magic number and size take 4 bytes each, the length of the name 2.
/// assert_eq!(packet[4..8], 19_u32.to_be_bytes());
/// assert_eq!(packet[8..], *b"\0\x04hostweb-1");
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
///
/// # Errors
/// [`FormatError::HephOptionNameTooLong`], [`FormatError::HephPacketTooLarge`]. An error leaves
/// `out` unchanged.
pub fn option(name: &str, value: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
    let size = name.len();
    let name_size = u16::try_from(size).map_err(|_| FormatError::HephOptionNameTooLong { size })?;
    let size = 10 + name.len() + value.len();
    let packet_size = u32::try_from(size).map_err(|_| FormatError::HephPacketTooLarge { size })?;
    out.extend_from_slice(&METADATA_MAGIC.to_be_bytes());
    out.extend_from_slice(&packet_size.to_be_bytes());
    out.extend_from_slice(&name_size.to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value);
    Ok(())
}

/// The number of bytes that [`padding`] returns, which is also the smallest size of padding.
pub const PADDING: usize = 10 + keys::HEPH_PAD.len();

/// Returns the first bytes of `size` bytes of padding: a metadata packet whose value, the rest of
/// those bytes, has no meaning. `size` must be at least [`PADDING`].
///
/// ```
/// use nettrace_format::heph::{PADDING, padding};
///
/// // Room for 100 bytes. A reader skips all of it.
/// let mut room = [0; 100];
/// room[..PADDING].copy_from_slice(&padding(100));
/// assert_eq!(room[4..8], 100_u32.to_be_bytes());
/// ```
#[must_use]
pub fn padding(size: u32) -> [u8; PADDING] {
    let mut start = [0; PADDING];
    start[..4].copy_from_slice(&METADATA_MAGIC.to_be_bytes());
    start[4..8].copy_from_slice(&size.to_be_bytes());
    start[8..10].copy_from_slice(&(keys::HEPH_PAD.len() as u16).to_be_bytes());
    start[10..].copy_from_slice(keys::HEPH_PAD.as_bytes());
    start
}

/// The fields of an event packet that come before its description.
///
/// [`EventPacket`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventHeader {
    /// The thread of execution, unique in the trace.
    pub stream: u32,
    /// The event's number in its stream; 0 comes after 2^32 - 1.
    pub counter: u32,
    /// The task within the stream, where several tasks take turns on a thread; 0 for none.
    pub substream: u64,
    /// Start of the event, in nanoseconds since the trace's epoch.
    pub start: u64,
    /// End of the event, in nanoseconds since the trace's epoch.
    pub end: u64,
}

/// The value of an attribute.
///
/// [`EventPacket`] has an example.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Value<'a> {
    U64(u64),
    I64(i64),
    F64(f64),
    Str(&'a str),
    U64Array(&'a [u64]),
    I64Array(&'a [i64]),
    F64Array(&'a [f64]),
    StrArray(&'a [&'a str]),
}

/// An event packet under construction, which takes attributes. Dropping it without
/// [`finish`](Self::finish) removes it from the output.
///
/// ```
/// use nettrace_format::heph::{EventHeader, EventPacket, Value, epoch};
///
/// let mut trace = Vec::new();
/// epoch(1_700_000_000_000_000_000, &mut trace);
///
/// let header = EventHeader { stream: 17, counter: 1, substream: 0, start: 2_000, end: 5_000 };
/// let mut packet = EventPacket::begin(&header, "query", &mut trace)?;
/// packet.attribute("rows", Value::U64(43))?;
/// packet.attribute("tables", Value::StrArray(&["orders", "users"]))?;
/// packet.finish()?;
///
/// let mut reader = nettrace_reader::heph::Reader::new(&trace[..]);
/// let event = reader.next_event()?.expect("there is one event");
/// assert_eq!((event.description, event.attributes().count()), ("query", 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventPacket<'a> {
    out: &'a mut Vec<u8>,
    /// The packet's position in the output; `None` once it is finished.
    start: Option<usize>,
}

impl<'a> EventPacket<'a> {
    /// Begins a packet at the end of `out`.
    ///
    /// # Errors
    /// [`FormatError::HephDescriptionTooLong`]. An error leaves `out` unchanged.
    pub fn begin(
        header: &EventHeader,
        description: &str,
        out: &'a mut Vec<u8>,
    ) -> Result<Self, FormatError> {
        let size = description.len();
        let description_size =
            u16::try_from(size).map_err(|_| FormatError::HephDescriptionTooLong { size })?;
        let start = out.len();
        out.extend_from_slice(&EVENT_MAGIC.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&header.stream.to_be_bytes());
        out.extend_from_slice(&header.counter.to_be_bytes());
        out.extend_from_slice(&header.substream.to_be_bytes());
        out.extend_from_slice(&header.start.to_be_bytes());
        out.extend_from_slice(&header.end.to_be_bytes());
        out.extend_from_slice(&description_size.to_be_bytes());
        out.extend_from_slice(description.as_bytes());
        Ok(Self { out, start: Some(start) })
    }

    /// Adds an attribute. The format allows two attributes with the same name.
    ///
    /// # Errors
    /// [`FormatError::HephAttributeNameTooLong`], [`FormatError::HephStringTooLong`],
    /// [`FormatError::HephArrayTooLong`]. An error leaves the packet without the attribute; it can
    /// take others.
    pub fn attribute(&mut self, name: &str, value: Value<'_>) -> Result<(), FormatError> {
        let before = self.out.len();
        let result = attribute(name, value, self.out);
        if result.is_err() {
            self.out.truncate(before);
        }
        result
    }

    /// Completes the packet.
    ///
    /// # Errors
    /// [`FormatError::HephPacketTooLarge`]. The packet is then removed from the output.
    pub fn finish(mut self) -> Result<(), FormatError> {
        let Some(start) = self.start else { return Ok(()) };
        let size = self.out.len() - start;
        let packet_size =
            u32::try_from(size).map_err(|_| FormatError::HephPacketTooLarge { size })?;
        self.out[start + 4..start + 8].copy_from_slice(&packet_size.to_be_bytes());
        self.start = None;
        Ok(())
    }

    /// The output, for appending attributes.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }
}

impl Drop for EventPacket<'_> {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            self.out.truncate(start);
        }
    }
}

fn attribute(name: &str, value: Value<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
    attribute_name(name, out)?;
    match value {
        Value::U64(value) => {
            out.push(code::U64);
            out.extend_from_slice(&value.to_be_bytes());
        }
        Value::I64(value) => {
            out.push(code::I64);
            out.extend_from_slice(&value.to_be_bytes());
        }
        Value::F64(value) => {
            out.push(code::F64);
            out.extend_from_slice(&value.to_be_bytes());
        }
        Value::Str(value) => {
            out.push(code::STRING);
            string(value, out)?;
        }
        Value::U64Array(values) => {
            array(code::U64, values.len(), out)?;
            values.iter().for_each(|value| out.extend_from_slice(&value.to_be_bytes()));
        }
        Value::I64Array(values) => {
            array(code::I64, values.len(), out)?;
            values.iter().for_each(|value| out.extend_from_slice(&value.to_be_bytes()));
        }
        Value::F64Array(values) => {
            array(code::F64, values.len(), out)?;
            values.iter().for_each(|value| out.extend_from_slice(&value.to_be_bytes()));
        }
        Value::StrArray(values) => {
            array(code::STRING, values.len(), out)?;
            values.iter().try_for_each(|value| string(value, out))?;
        }
    }
    Ok(())
}

/// Appends an attribute's name; the caller appends its type and value.
pub(super) fn attribute_name(name: &str, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let size = name.len();
    let count = u16::try_from(size).map_err(|_| FormatError::HephAttributeNameTooLong { size })?;
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    Ok(())
}

/// Appends the type and length of an array; the caller appends its elements.
pub(super) fn array(element: u8, len: usize, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let count = u16::try_from(len).map_err(|_| FormatError::HephArrayTooLong { len })?;
    out.push(element | code::ARRAY);
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

fn string(value: &str, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let start = begin_string(out);
    out.extend_from_slice(value.as_bytes());
    end_string(start, out)
}

/// Reserves room for a string's length and returns where its bytes begin.
pub(super) fn begin_string(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 2]);
    out.len()
}

/// Ends the string whose bytes begin at `start`.
pub(super) fn end_string(start: usize, out: &mut [u8]) -> Result<(), FormatError> {
    let size = out.len() - start;
    let count = u16::try_from(size).map_err(|_| FormatError::HephStringTooLong { size })?;
    out[start - 2..start].copy_from_slice(&count.to_be_bytes());
    Ok(())
}
