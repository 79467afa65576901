//! The ids by which rows name threads.

use alloc::vec::Vec;

use crate::{format::Format, writer::IdRules};

/// Gives ids to the threads of a trace, by the rules of its format.
///
/// In some formats rows name threads by OS ids, in the others by an index that
/// the stream defines. Indices and OS ids never overlap, because the
/// reference reader removes threads by OS id even where it is told an index.
///
/// ```
/// use nettrace_format::{Format, ThreadIds};
///
/// let mut ids = ThreadIds::new(Format::V5);
/// assert_eq!(ids.recorder(1_234), 1_234);
/// // Another thread that the system has given the same id. Readers would take its first event for
/// // a loss, because the numbers of an id must continue.
/// assert_eq!(ids.recorder(1_234), 1 << 32);
/// ```
#[derive(Debug)]
pub struct ThreadIds {
    rules: IdRules,
    next_index: u64,
    /// A bit for each OS id below [`BOUND`], set once a thread has had the id.
    taken: Vec<u64>,
}

/// OS ids from here on are never taken, because the table of those that are taken must have a
/// bound: 512 KiB. Linux gives no higher id.
const BOUND: u64 = 1 << 22;

impl ThreadIds {
    /// Gives ids for traces of `format`.
    #[must_use]
    pub fn new(format: Format) -> Self {
        let rules = format.definition().thread_ids;
        Self { rules, next_index: rules.first_index, taken: Vec::new() }
    }

    /// The id of a new thread that records events: that for
    /// [`RowHeader::capture_thread`](crate::content::RowHeader::capture_thread). No two threads get
    /// the same one, even if the system gives them the same id one after the other. `os_id` is 0 if
    /// it is unknown.
    ///
    /// ```
    /// use nettrace_format::{Format, ThreadIds};
    ///
    /// let mut ids = ThreadIds::new(Format::V5);
    /// let _ = ids.recorder(17);
    /// // The system gives the id to a second thread. Rows about it still name it by that id.
    /// let second = ids.recorder(17);
    /// assert!(ids.is_index(second));
    /// assert_eq!(ids.os_subject(17), Some(17));
    /// ```
    #[must_use]
    pub fn recorder(&mut self, os_id: u64) -> u64 {
        let is_own = self.rules.are_os_ids && self.take(os_id);
        if is_own { os_id } else { self.index() }
    }

    /// The id by which rows name a thread that they are about, whatever id it records under: the
    /// thread's OS id. `None` if rows of the format name a thread by the id that it records under,
    /// or if the OS id is unknown (0).
    ///
    /// ```
    /// use nettrace_format::{Format, ThreadIds};
    ///
    /// assert_eq!(ThreadIds::new(Format::V5).os_subject(17), Some(17));
    /// assert_eq!(ThreadIds::new(Format::V6).os_subject(17), None);
    /// ```
    #[must_use]
    pub fn os_subject(&self, os_id: u64) -> Option<u64> {
        (self.rules.has_os_subjects && self.is_os_id(os_id)).then_some(os_id)
    }

    /// Whether rows name a thread that they are about, and that may record none itself, by this OS
    /// id, without a definition.
    pub(crate) fn names_by_os_id(&self, os_id: u64) -> bool {
        self.rules.are_os_ids && self.is_os_id(os_id)
    }

    /// A new index.
    ///
    /// ```
    /// use nettrace_format::{Format, ThreadIds};
    ///
    /// let mut ids = ThreadIds::new(Format::V6);
    /// assert_ne!(ids.index(), ids.index());
    /// ```
    #[must_use]
    pub fn index(&mut self) -> u64 {
        self.next_index += 1;
        self.next_index - 1
    }

    /// Whether an id is an index, rather than an OS id.
    ///
    /// ```
    /// use nettrace_format::{Format, ThreadIds};
    ///
    /// let mut ids = ThreadIds::new(Format::V6);
    /// let index = ids.index();
    /// assert!(ids.is_index(index) && !ids.is_index(17));
    /// ```
    #[must_use]
    pub fn is_index(&self, id: u64) -> bool {
        id >= self.rules.first_index
    }

    /// Whether the format can store an id that another trace has given.
    ///
    /// ```
    /// use nettrace_format::{Format, ThreadIds};
    ///
    /// // The numbers of streams have 32 bits.
    /// assert!(!ThreadIds::new(Format::Heph).can_store(1 << 32));
    /// assert!(ThreadIds::new(Format::V6).can_store(1 << 32));
    /// ```
    #[must_use]
    pub fn can_store(&self, id: u64) -> bool {
        id <= self.rules.most
    }

    /// Whether rows can name a thread by this OS id.
    fn is_os_id(&self, os_id: u64) -> bool {
        os_id != 0 && !self.is_index(os_id)
    }

    /// Takes an OS id as an id of the trace. Returns `false` if a thread has had it before.
    fn take(&mut self, os_id: u64) -> bool {
        if os_id == 0 || os_id >= BOUND {
            return false;
        }
        let (word, bit) = ((os_id / 64) as usize, 1 << (os_id % 64));
        if self.taken.len() <= word {
            self.taken.resize(word + 1, 0);
        }
        let is_new = self.taken[word] & bit == 0;
        self.taken[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_os_id_is_taken_once() {
        let mut ids = ThreadIds::new(Format::Heph);
        let first = 1 << 22;
        assert_eq!([7, 7, 0, first].map(|id| ids.recorder(id)), [7, first, first + 1, first + 2]);
        assert!(ids.names_by_os_id(7) && !ids.names_by_os_id(0) && !ids.names_by_os_id(first));
        assert_eq!(ids.os_subject(7), None);
        assert!(ids.can_store(u32::MAX.into()) && !ids.can_store(1 << 32));
    }

    #[test]
    fn a_subject_keeps_its_os_id_in_versions_4_and_5() {
        for format in [Format::V4, Format::V5] {
            let mut ids = ThreadIds::new(format);
            assert_eq!([7, 7].map(|id| ids.recorder(id)), [7, 1 << 32]);
            // Not taken, because the table would grow; but no index equals it.
            assert_ne!(ids.recorder(1 << 30), 1 << 30);
            assert_eq!([7, 1 << 30].map(|id| ids.os_subject(id)), [Some(7), Some(1 << 30)]);
        }
    }

    #[test]
    fn version_6_has_indices_alone() {
        let mut ids = ThreadIds::new(Format::V6);
        assert_eq!(ids.recorder(7), 1 << 32);
        assert!(!ids.names_by_os_id(7));
        assert!(ids.is_index(1 << 32) && !ids.is_index(7));
    }
}
