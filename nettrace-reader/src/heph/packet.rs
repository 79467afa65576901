//! What is in a packet.

use std::str;

use crate::{
    error::{Damage, Error, ErrorKind, Result},
    heph::value::Attributes,
};

/// What an event packet begins with.
pub(super) const EVENT_MAGIC: u32 = 0xC1FC_1FB7;

/// What a metadata packet begins with.
pub(super) const METADATA_MAGIC: u32 = 0x75D1_1D4D;

/// Magic constant and size: what every packet begins with.
pub(super) const PACKET_HEADER: usize = 8;

/// The size of an event packet without description and attributes.
pub(super) const MIN_EVENT: usize = 42;

/// The size of a metadata packet of an option without name and value.
pub(super) const MIN_METADATA: usize = 10;

/// One event, lent until the next is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// Bytes from the start of the trace to its packet.
    pub offset: u64,
    /// The thread of execution that it happened on.
    pub stream: u32,
    /// Its number in the stream; 0 comes after 2^32 - 1.
    pub counter: u32,
    /// What ran on the stream by turns with others.
    pub substream: u64,
    /// When it began, in nanoseconds since the trace's [epoch](crate::heph::Reader::epoch).
    pub start: u64,
    /// When it ended, in nanoseconds since the trace's epoch. The format does not say that it is
    /// not before the start.
    pub end: u64,
    /// What it is.
    pub description: &'a str,
    /// The bytes of its attributes.
    attributes: &'a [u8],
    /// Where they begin.
    attributes_offset: u64,
}

impl<'a> Event<'a> {
    /// The event in a packet, header included, that stands at `offset`.
    pub(super) fn parse(packet: &'a [u8], offset: u64) -> Result<Self> {
        Self::read(Bytes::new(packet, offset)).map_err(damaged)
    }

    /// Its attributes, in order.
    #[must_use]
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes::new(Bytes::new(self.attributes, self.attributes_offset))
    }

    fn read(mut bytes: Bytes<'a>) -> Read<Self> {
        let offset = bytes.offset();
        bytes.take(PACKET_HEADER)?;
        Ok(Self {
            offset,
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

pub(super) type Read<T> = std::result::Result<T, Damage>;

/// Damage within a packet, as the caller sees it.
pub(super) fn damaged(damage: Damage) -> Error {
    Error::new(damage.offset, ErrorKind::Packet { what: damage.what })
}

/// A checked position in big-endian bytes.
#[derive(Clone, Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    offset: u64,
}

impl<'a> Bytes<'a> {
    /// `rest` begins at `offset` of the trace.
    pub(super) fn new(rest: &'a [u8], offset: u64) -> Self {
        Self { rest, offset }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, len: usize) -> Read<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.damage("it ends inside a field"));
        };
        self.rest = rest;
        self.offset += len as u64;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Read<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Read<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Read<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A length of 16 bits and that many bytes of UTF-8.
    pub(super) fn string(&mut self) -> Read<&'a str> {
        let len = self.u16()?;
        let offset = self.offset;
        let bytes = self.take(len.into())?;
        str::from_utf8(bytes).map_err(|error| Damage {
            offset: offset + error.valid_up_to() as u64,
            what: "a string is not UTF-8",
        })
    }

    pub(super) fn damage(&self, what: &'static str) -> Damage {
        Damage { offset: self.offset, what }
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }
}
