//! The end of a complete stream.

/// What a complete stream ends with: an end of stream, or nothing at all.
///
/// Formats without an end of stream are complete after every block. There readers skip
/// [padding](Self::padding), which a file can end with while it grows.
///
/// ```
/// use nettrace_format::Format;
///
/// // A block header of kind 0 and length 0.
/// assert_eq!(Format::V6.end().bytes(), [0; 4]);
/// assert!(Format::Heph.end().bytes().is_empty());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StreamEnd {
    bytes: &'static [u8],
    padding: Option<Padding>,
}

impl StreamEnd {
    /// The most bytes that an end of stream has in any format.
    pub const MAX_BYTES: usize = 16;

    /// An end of stream. Recorders get theirs from [`Format::end`](crate::Format::end).
    ///
    /// A sink's test can make one:
    ///
    /// ```
    /// use nettrace_format::StreamEnd;
    ///
    /// let end = StreamEnd::new(b"end");
    /// assert_eq!(end.bytes(), b"end");
    /// assert!(end.padding().is_none());
    /// ```
    #[must_use]
    pub const fn new(bytes: &'static [u8]) -> Self {
        Self { bytes, padding: None }
    }

    /// No end of stream, and padding that readers skip.
    ///
    /// ```
    /// use nettrace_format::{Padding, StreamEnd, heph};
    ///
    /// let end = StreamEnd::padded(Padding::new(heph::padding));
    /// assert!(end.bytes().is_empty() && end.padding().is_some());
    /// ```
    #[must_use]
    pub const fn padded(padding: Padding) -> Self {
        Self { bytes: &[], padding: Some(padding) }
    }

    /// The end of stream; empty for formats that have none.
    ///
    /// Where a block could begin, a reader needs this many bytes to see whether the stream ends
    /// there. No block is shorter.
    #[must_use]
    pub const fn bytes(self) -> &'static [u8] {
        self.bytes
    }

    /// How a file that grows can end instead, in formats without an end of stream.
    ///
    /// ```
    /// use nettrace_format::Format;
    ///
    /// assert!(Format::Heph.end().padding().is_some());
    /// assert!(Format::V6.end().padding().is_none());
    /// ```
    #[must_use]
    pub const fn padding(self) -> Option<Padding> {
        self.padding
    }
}

/// Bytes between blocks that readers skip.
///
/// Padding begins with [`start`](Self::start), which tells its size. The bytes after these have no
/// meaning.
///
/// ```
/// use nettrace_format::{Format, Padding};
///
/// let padding = Format::Heph.end().padding().expect("Heph has no end of stream");
/// // A file that has reserved 4,096 bytes more than it uses.
/// let mut room = vec![0; 4_096];
/// room[..Padding::START].copy_from_slice(&padding.start(4_096));
/// let mut reader = nettrace_reader::heph::Reader::new(&room[..]);
/// assert!(reader.next_event()?.is_none());
/// assert_eq!(reader.totals().padding, 4_096);
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Padding {
    start: fn(u32) -> [u8; Self::START],
}

impl Padding {
    /// The number of bytes that padding begins with, in every format that has some. No padding and
    /// no block is shorter.
    pub const START: usize = 22;

    /// Padding that begins as `start` says for a size in bytes.
    #[must_use]
    pub const fn new(start: fn(u32) -> [u8; Self::START]) -> Self {
        Self { start }
    }

    /// The first bytes of `size` bytes of padding; `size` includes them.
    #[must_use]
    pub fn start(self, size: u32) -> [u8; Self::START] {
        (self.start)(size)
    }
}
