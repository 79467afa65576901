//! Memory for rows that are copied and completed, one after the other.

use std::ops::Range;

use nettrace_format::v6::RELABEL_ROOM;

/// Runs of rows up to this size are copied. One more piece in a batch would cost more than the
/// copy.
pub(super) const COPIED: usize = 1_024;
/// Runs of rows up to this size are copied without a call.
const SHORT: usize = 64;

/// Parts of a chunk that are not copied, and where among the rows each of them belongs.
pub(super) type Parts = Vec<(usize, Range<usize>)>;

/// Rows, with bytes of any value behind them.
///
/// So a write of a constant number of bytes, of which not all stay, looks at nothing but the length
/// of a slice.
#[derive(Debug, Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    len: usize,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Forgets the rows behind the first `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends bytes.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let end = self.len + bytes.len();
        self.bytes[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    /// Appends a run of the rows of a chunk, or a part to `parts` if it is long.
    pub(super) fn add(&mut self, chunk: &[u8], run: Range<usize>, parts: &mut Parts) {
        self.with_room(run.len().min(COPIED), |room| room.add(chunk, run, parts));
    }

    /// Calls `write`, which appends at most `most` bytes.
    #[inline]
    pub(super) fn with_room(&mut self, most: usize, write: impl FnOnce(&mut Room<'_>)) {
        self.reserve(most);
        // A value of its own, so that the length is in a register.
        let mut room = Room { bytes: &mut self.bytes, len: self.len };
        write(&mut room);
        self.len = room.len;
    }

    /// Makes room for `len` bytes, and for those behind them that a write may touch.
    fn reserve(&mut self, len: usize) {
        let len = self.len + len + SHORT.max(RELABEL_ROOM);
        if self.bytes.len() < len {
            self.bytes.resize(len.next_power_of_two(), 0);
        }
    }
}

/// Room for all that is appended.
pub(super) struct Room<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl Room<'_> {
    /// [`Rows::add`].
    #[inline(always)]
    pub(super) fn add(&mut self, chunk: &[u8], run: Range<usize>, parts: &mut Parts) {
        let len = run.len();
        let short = chunk[run.start..].first_chunk::<SHORT>().filter(|_| len <= SHORT);
        if let Some(bytes) = short {
            // All of them, so that their number is constant.
            self.bytes[self.len..][..SHORT].copy_from_slice(bytes);
            self.len += len;
        } else if len <= COPIED {
            self.bytes[self.len..][..len].copy_from_slice(&chunk[run]);
            self.len += len;
        } else {
            parts.push((self.len, run));
        }
    }

    /// Appends what `relabel` writes, which has the results of [`relabel_row`]. Returns how many
    /// bytes of the row it replaces.
    ///
    /// [`relabel_row`]: nettrace_format::v6::relabel_row
    #[inline]
    pub(super) fn relabel(
        &mut self,
        relabel: impl FnOnce(&mut [u8; RELABEL_ROOM]) -> Option<(usize, usize)>,
    ) -> usize {
        let room = self.bytes[self.len..].first_chunk_mut().expect("room is reserved");
        let (replaced, len) = relabel(room).unwrap_or_default();
        self.len += len;
        replaced
    }
}
