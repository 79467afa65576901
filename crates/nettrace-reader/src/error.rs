//! The errors of reading.

use std::{error, fmt, io};

use nettrace_format::Damage;

use crate::block_kind::BlockKind;

/// The result of this crate's reading functions.
///
/// ```
/// fn count(trace: &[u8]) -> nettrace_reader::Result<u64> {
///     let mut reader = nettrace_reader::Reader::new(trace)?;
///     reader.read_to_end()?;
///     Ok(reader.totals().events)
/// }
///
/// # let file = nettrace_reader::example();
/// assert_eq!(count(&file)?, 2);
/// assert!(count(b"Nettrace").is_err());
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// Why reading stopped, and at which byte of the stream.
///
/// A reader returns it after it has delivered everything before the damage.
///
/// ```
/// use nettrace_reader::{ErrorKind, Reader};
///
/// let error = Reader::new(&b"GIF89a and more"[..]).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::NotNetTrace));
/// assert_eq!(error.offset(), 0);
/// ```
#[derive(Debug)]
pub struct Error {
    offset: u64,
    kind: ErrorKind,
}

impl Error {
    /// The position of the damage, in bytes from the start of the stream: where the field that
    /// could not be read begins, or the block or row that contains it.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// // The last block, of four bytes, is missing.
    /// let cut = &file[..file.len() - 4];
    /// let error = nettrace_reader::Reader::new(cut)?.read_to_end().unwrap_err();
    /// assert_eq!(error.offset(), cut.len() as u64);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What is wrong there.
    ///
    /// ```
    /// use nettrace_reader::{ErrorKind, Reader};
    ///
    /// /// Whether more of the file may come, because its writer is still at work.
    /// fn may_grow(error: &nettrace_reader::Error) -> bool {
    ///     matches!(error.kind(), ErrorKind::NoEndOfStream | ErrorKind::Truncated { .. })
    /// }
    ///
    /// # let file = nettrace_reader::example();
    /// let mut reader = Reader::new(&file[..file.len() - 4])?;
    /// assert!(may_grow(&reader.read_to_end().unwrap_err()));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    pub(crate) fn new(offset: u64, kind: ErrorKind) -> Self {
        Self { offset, kind }
    }

    pub(crate) fn malformed(block: BlockKind, damage: Damage) -> Self {
        Self::new(damage.offset, ErrorKind::Malformed { block, what: damage.what })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.offset, &self.kind) {
            // Nothing stands before.
            (0, ErrorKind::NoEndOfStream) => f.write_str("at byte 0: the stream is empty"),
            (offset, kind) => write!(f, "at byte {offset}: {kind}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(source) => Some(source),
            _ => None,
        }
    }
}

/// The kinds of errors.
///
/// ```
/// use nettrace_reader::{ErrorKind, Reader};
///
/// let error = Reader::new(&b"Nettrace\0\0\0\0\x07\0\0\0\0\0\0\0"[..]).unwrap_err();
/// match error.kind() {
///     ErrorKind::TooNew { major } => assert_eq!(*major, 7),
///     ErrorKind::Io(source) => panic!("the disk failed: {source}"),
///     other => panic!("the file is damaged: {other}"),
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The source of the bytes failed.
    Io(io::Error),
    /// The stream does not begin with the eight bytes `Nettrace`.
    NotNetTrace,
    /// The trace does not begin with a packet of Heph's format.
    NotHeph,
    /// A packet of a Heph trace is damaged.
    Packet {
        /// What is wrong with it.
        what: &'static str,
    },
    /// An older or related format that this reader does not read, by its name.
    UnsupportedVersion(&'static str),
    /// A major version newer than 6. Its content is unknown.
    TooNew {
        /// The major version that the stream header states.
        major: u32,
    },
    /// The stream ends without an end-of-stream block: it was cut off, or its writer was killed.
    NoEndOfStream,
    /// The stream ends inside a block or header.
    Truncated {
        /// How many bytes are missing.
        missing: u64,
    },
    /// The objects that frame the blocks of versions 4 and 5 are damaged.
    Framing {
        /// What is wrong with them.
        what: &'static str,
    },
    /// An object of versions 4 and 5 of an unknown type that cannot be skipped.
    UnknownObject {
        /// The name of its type.
        name: String,
    },
    /// The first block is not the Trace block.
    NoTraceBlock,
    /// Behind the end of the stream another one begins, which was not read: see
    /// [`Options::alone`](crate::Options::alone).
    AnotherStream,
    /// In a source of [joined](crate::Options::joined) streams, one is not of the recording of the
    /// first, or not of version 6.
    OtherRecording,
    /// The content of a block violates the format.
    Malformed {
        /// The kind of the block.
        block: BlockKind,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Descriptions of event types are damaged. The reader went on with the next description, so
    /// this comes at the end of the stream. The offset is that of the first damage.
    DamagedTypes {
        /// How many are damaged.
        count: u64,
        /// What is wrong with the first one.
        what: &'static str,
    },
    /// A reference to something that no earlier block defines, or that was flushed since.
    Undefined {
        /// What kind of definition is missing.
        table: Table,
        /// The id that was referred to.
        id: u64,
    },
    /// An id that is already defined and was not flushed since.
    Duplicate {
        /// What kind of definition is repeated.
        table: Table,
        /// The id that is defined twice.
        id: u64,
    },
    /// A payload does not have the fields that its event type states.
    Payload {
        /// What is wrong with it.
        what: &'static str,
    },
    /// Reading on would take more memory than [`Options`](crate::Options) allows.
    LimitExceeded {
        /// What takes too much memory.
        what: &'static str,
        /// The limit, in bytes.
        limit: usize,
    },
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(source) => write!(f, "the source could not be read: {source}"),
            Self::NotNetTrace => write!(
                f,
                "this is no NetTrace stream (it does not begin with `Nettrace`); V3 and older are \
                 not read"
            ),
            Self::NotHeph => {
                write!(f, "this is no Heph trace (it does not begin with a packet)")
            }
            Self::Packet { what } => write!(f, "a packet is damaged: {what}"),
            Self::UnsupportedVersion(name) => {
                write!(f, "this is a {name} stream, which this reader does not read")
            }
            Self::TooNew { major } => {
                write!(f, "the stream has major version {major}, newer than 6: use a newer reader")
            }
            Self::NoEndOfStream => write!(
                f,
                "the stream ends without its end-of-stream block; what stands before was \
                 delivered, the rest is missing"
            ),
            Self::Truncated { missing } => write!(
                f,
                "the stream ends in the middle of a block, {missing} byte{s} short; what stands \
                 before was delivered",
                s = if *missing == 1 { "" } else { "s" }
            ),
            Self::Framing { what } => {
                write!(f, "the objects that the stream consists of are damaged: {what}")
            }
            Self::UnknownObject { name } => write!(
                f,
                "an object is of the unknown type {name:?} and cannot be skipped: use a newer \
                 reader"
            ),
            Self::AnotherStream => write!(
                f,
                "behind the end of the stream another one begins, which was not read: cut the \
                 source here, and read both; everything before was delivered"
            ),
            Self::NoTraceBlock => write!(f, "the first block is not a Trace block"),
            Self::OtherRecording => write!(
                f,
                "here begins a stream that does not go on with the recording of the first one"
            ),
            Self::Malformed { block, what } => {
                write!(f, "damage in a block of kind {block}: {what}")
            }
            Self::DamagedTypes { count: 1, what } => write!(
                f,
                "the description of an event type is damaged: {what}; everything else was \
                 delivered, and the type's events as far as their fields are known"
            ),
            Self::DamagedTypes { count, what } => write!(
                f,
                "{count} descriptions of event types are damaged, the first one here: {what}; \
                 everything else was delivered, and their events as far as their fields are known"
            ),
            Self::Undefined { table, id } => {
                write!(f, "{table} {id} is referred to but not defined before")
            }
            Self::Duplicate { table, id } => write!(f, "{table} {id} is defined twice"),
            Self::Payload { what } => {
                write!(f, "a payload does not have the fields of its event type: {what}")
            }
            Self::LimitExceeded { what, limit } => write!(
                f,
                "{what} would take more than {limit} bytes of memory; raise the limit in the \
                 options if the stream is to be trusted"
            ),
        }
    }
}

/// The kinds of definitions that rows refer to.
///
/// ```
/// assert_eq!(nettrace_reader::Table::Thread.to_string(), "thread index");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Table {
    /// Event types, by metadata id.
    Metadata,
    /// Threads, by index.
    Thread,
    /// Stacks, by stack id.
    Stack,
    /// Label lists, by index.
    LabelList,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metadata => "metadata id",
            Self::Thread => "thread index",
            Self::Stack => "stack id",
            Self::LabelList => "label list",
        })
    }
}

/// What a parser returns. With the kind of the block, the [`Damage`] becomes an [`Error`].
pub(crate) type Read<T> = std::result::Result<T, Damage>;
