//! Big-endian bytes of packets.

use std::str;

use nettrace_format::Damage;

use crate::error::{Error, ErrorKind};

pub(super) type Read<T> = Result<T, Damage>;

/// The error for damage within a packet.
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

    /// Reads a length of 16 bits and that many bytes of UTF-8.
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
