//! The part of a chunk that an event is written into, and the only code that writes it. It is
//! unsafe, by the invariants M1 to M4 of [`memory`](crate::protocol::memory).
#![allow(unsafe_code, reason = "M1 to M4")]

use crate::protocol::{
    record::{ATTENTION, Record},
    row::HEAD_ROOM,
};

/// The part of a chunk that is yet to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    start: *mut u8,
    len: usize,
}

impl Room {
    /// From a position in a chunk to the chunk's end.
    pub(crate) fn in_chunk((start, size): (*mut u8, usize), at: *mut u8) -> Self {
        let used = (at as usize).wrapping_sub(start as usize);
        assert!(used <= size, "a position in the chunk");
        Self { start: at, len: size - used }
    }

    /// From a busy record's position to the end of the chunk. `None` if there is no chunk, or if
    /// the next event must take the slow path.
    #[inline]
    pub(crate) fn to_limit(record: &Record) -> Option<Self> {
        // M2: the record is busy. If `limit` is an address it is HEAD_ROOM bytes before the end of
        // the chunk that `pos` is in.
        let (at, limit) = (record.pos(), record.limit());
        (limit > ATTENTION).then(|| Self { start: at, len: limit + HEAD_ROOM - at as usize })
    }

    /// The next `len` bytes of a busy record's chunk. `None` if they do not fit with the header of
    /// a row, if there is no chunk, or if the next event must take the slow path.
    #[inline]
    pub(crate) fn for_next(record: &Record, len: usize) -> Option<Self> {
        // M2: as in `to_limit`. What is no address is below every position.
        let start = record.pos();
        let fits = start as usize + len <= record.limit();
        fits.then_some(Self { start, len })
    }

    /// The place of a busy record's next row, up to `HEAD_ROOM` bytes before the end of the chunk.
    /// `None` if the row's header does not fit, if there is no chunk, or if the next event must
    /// take the slow path.
    #[inline]
    pub(crate) fn for_row(record: &Record) -> Option<Self> {
        // M2: as in `for_next`.
        let (start, limit) = (record.pos(), record.limit());
        let len = limit.checked_sub(start as usize)?;
        Some(Self { start, len })
    }

    /// Writes the first `len` bytes of a row's header, at most 7, to a room [`for_row`]: it becomes
    /// the room for the payload.
    ///
    /// [`for_row`]: Self::for_row
    #[inline]
    pub(crate) fn behind_head(self, head: u64, len: usize) -> Self {
        let Self { start, len: room } = self;
        // SAFETY: M3: 8 bytes, within the HEAD_ROOM that is free.
        unsafe { start.cast::<[u8; 8]>().write_unaligned(head.to_le_bytes()) };
        // As large as before: it ends later, within the HEAD_ROOM.
        Self { start: start.wrapping_add(len & 7), len: room }
    }

    /// [`behind_head`](Self::behind_head) for a header whose time has four bytes. `of_type` and
    /// `shift` are those of [`EventType`](nettrace_event::EventType).
    #[inline]
    pub(crate) fn behind_long_head(self, of_type: u64, shift: u32, delta: u32) -> Self {
        let before = (shift / 8) as usize & 3;
        let size = (of_type >> ((shift + 16) & 63)) as u16;
        let Self { start, len: room } = self.behind_head(of_type, before);
        // SAFETY: M3: 4 bytes after 3 at most, within the HEAD_ROOM that is free.
        unsafe { start.cast::<[u8; 4]>().write_unaligned(delta.to_le_bytes()) };
        // SAFETY: M3: 2 bytes after 7 at most, within the HEAD_ROOM as well.
        unsafe { start.wrapping_add(4).cast::<[u8; 2]>().write_unaligned(size.to_le_bytes()) };
        let len = ((of_type >> 61) as usize + 2 - before) & 7;
        Self { start: start.wrapping_add(len), len: room }
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The bytes.
    #[inline]
    pub(crate) fn bytes<'a>(self) -> &'a mut [u8] {
        // SAFETY: M1, M3, M4. M2: nothing else reads or writes them while the record is busy. The
        // caller is done with one slice before it asks for the next, and before it ends the event.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len()) }
    }

    /// Where the first `len` bytes end.
    #[inline]
    pub(crate) fn after(self, len: usize) -> *mut u8 {
        self.start.wrapping_add(len)
    }

    /// Stores the payload's size in the two bytes before it, which the header has for it.
    #[inline]
    pub(crate) fn set_size(self, size: u32) {
        let at = self.start.wrapping_sub(2).cast::<[u8; 2]>();
        // SAFETY: M3: the header before the payload has three bytes or more.
        unsafe { at.write_unaligned((size as u16).to_le_bytes()) };
    }
}
