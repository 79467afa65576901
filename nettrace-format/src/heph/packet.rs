//! Packets, one by one.

use alloc::vec::Vec;

use crate::error::FormatError;

/// What an event packet begins with.
const EVENT_MAGIC: u32 = 0xC1FC_1FB7;

/// What a metadata packet begins with.
const METADATA_MAGIC: u32 = 0x75D1_1D4D;

/// The types of attributes.
pub(super) mod code {
    pub(in crate::heph) const U64: u8 = 1;
    pub(in crate::heph) const I64: u8 = 2;
    pub(in crate::heph) const F64: u8 = 3;
    pub(in crate::heph) const STRING: u8 = 4;
    /// Set beside the type of the elements.
    pub(in crate::heph) const ARRAY: u8 = 0x80;
}

/// Appends the metadata packet that sets the trace's zero time, in nanoseconds since 1970-01-01
/// UTC: 23 bytes.
pub fn epoch(unix_nanos: u64, out: &mut Vec<u8>) {
    // The name is short enough, and so is the packet.
    let _ = option("epoch", &unix_nanos.to_be_bytes(), out);
}

/// Appends a metadata packet: an option's name and the bytes of its value.
///
/// The format knows no option but the [`epoch`]; readers skip what they do not know.
///
/// # Errors
/// [`FormatError::HephOptionNameTooLong`], [`FormatError::HephPacketTooLarge`]. `out` is then as it
/// was.
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

/// The option that bytes without meaning are the value of: room that a file sink has taken and not
/// yet used. An invention of this project; other readers skip it as they do all options that they
/// do not know.
pub const PAD: &str = "nettrace.pad";

/// The bytes that [`padding`] begins with, and at the same time its least size.
pub const PADDING: usize = 10 + PAD.len();

/// What `size` bytes of padding begin with, these included: the metadata packet of an option whose
/// value is the rest, whatever stands there. `size` is [`PADDING`] or more.
#[must_use]
pub fn padding(size: u32) -> [u8; PADDING] {
    let mut start = [0; PADDING];
    start[..4].copy_from_slice(&METADATA_MAGIC.to_be_bytes());
    start[4..8].copy_from_slice(&size.to_be_bytes());
    start[8..10].copy_from_slice(&(PAD.len() as u16).to_be_bytes());
    start[10..].copy_from_slice(PAD.as_bytes());
    start
}

/// What every event packet says, besides its description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventHeader {
    /// The thread of execution, unique in the trace.
    pub stream: u32,
    /// The event's number in its stream; 0 comes after 2^32 - 1.
    pub counter: u32,
    /// What runs on the stream by turns with others, a task for example.
    pub substream: u64,
    /// When it began, in nanoseconds since the trace's epoch.
    pub start: u64,
    /// When it ended, in nanoseconds since the trace's epoch.
    pub end: u64,
}

/// The value of an attribute.
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

/// An event packet in the making: its attributes are to follow. Unless it is
/// [finished](Self::finish), nothing of it stays in the output.
#[derive(Debug)]
pub struct EventPacket<'a> {
    out: &'a mut Vec<u8>,
    /// Where it starts, until it is finished.
    start: Option<usize>,
}

impl<'a> EventPacket<'a> {
    /// Begins a packet where `out` ends.
    ///
    /// # Errors
    /// [`FormatError::HephDescriptionTooLong`]. `out` is then as it was.
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

    /// Adds an attribute. The format does not forbid two of one name.
    ///
    /// # Errors
    /// [`FormatError::HephAttributeNameTooLong`], [`FormatError::HephStringTooLong`],
    /// [`FormatError::HephArrayTooLong`]. The packet is then as it was, and can go on without it.
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
    /// [`FormatError::HephPacketTooLarge`]. The packet is then gone from the output.
    pub fn finish(mut self) -> Result<(), FormatError> {
        let Some(start) = self.start else { return Ok(()) };
        let size = self.out.len() - start;
        let packet_size =
            u32::try_from(size).map_err(|_| FormatError::HephPacketTooLarge { size })?;
        self.out[start + 4..start + 8].copy_from_slice(&packet_size.to_be_bytes());
        self.start = None;
        Ok(())
    }

    /// Where attributes are appended.
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

/// What an attribute begins with; type and value are to follow.
pub(super) fn attribute_name(name: &str, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let size = name.len();
    let count = u16::try_from(size).map_err(|_| FormatError::HephAttributeNameTooLong { size })?;
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    Ok(())
}

/// The type of an array, and how many elements follow.
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

/// Leaves room for a string's length; its bytes follow. Returns where they begin.
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
