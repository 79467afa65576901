//! The outermost layer: the version of a stream, and where its blocks begin and end.
//!
//! In version 6 a block has a header of four bytes. Versions 4 and 5 have FastSerialization objects
//! ([`objects`]). [`Blocks`] returns a kind and a body in either case. [`Format`] states how to
//! parse a body.

use crate::{
    block_kind::BlockKind,
    error::{Error, ErrorKind, Result},
    input::{Input, Source},
};

mod objects;

/// How blocks are framed, and how their bodies are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Versions 4 and 5, which differ only in the content of metadata.
    V5,
    /// Version 6.
    V6,
}

/// What the framing states of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub(crate) kind: BlockKind,
    /// The stream offset of the block's header.
    pub(crate) offset: u64,
    /// The stream offset of the block's body.
    pub(crate) body: u64,
    /// A violation in the framing that does not prevent reading.
    pub(crate) flaw: Option<&'static str>,
}

/// The blocks of a stream, one at a time.
#[derive(Debug)]
pub(crate) struct Blocks<R> {
    input: Input<R>,
    format: Format,
    minor: u32,
    /// The size of the body, which begins at the front of the input.
    current: usize,
    /// Whether the end of the current object has not been found yet.
    open: bool,
    /// The largest body allowed, in bytes.
    limit: usize,
    /// The head of the current block.
    head: Option<BlockHead>,
}

impl<R: Source> Blocks<R> {
    /// Reads the stream header. Bodies larger than `limit` bytes will be refused.
    pub(crate) fn open(source: R, limit: usize) -> Result<Self> {
        let mut input = Input::new(source);
        let (format, minor) = read_stream_header(&mut input)?;
        Ok(Self { input, format, minor, current: 0, open: false, limit, head: None })
    }

    /// Goes on with the stream that follows the end of this one, if there is one of the same
    /// format. Returns `None` at the end of the source, and whether the format is the same.
    pub(crate) fn next_stream(&mut self) -> Result<Option<bool>> {
        self.input.consume(self.current);
        self.current = 0;
        if fill(&mut self.input, 1)?.is_empty() {
            return Ok(None);
        }
        let (format, _) = read_stream_header(&mut self.input)?;
        Ok(Some(format == Format::V6 && self.format == format))
    }

    /// Whether another stream begins behind the end of this one. Bytes of other kinds are not
    /// part of any.
    pub(crate) fn another_begins(&mut self) -> Result<bool> {
        self.input.consume(self.current);
        self.current = 0;
        Ok(fill(&mut self.input, MAGIC.len())? == MAGIC)
    }

    /// How to parse the stream's blocks.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// The minor version in the stream header; 0 for versions 4 and 5.
    pub(crate) fn minor_version(&self) -> u32 {
        self.minor
    }

    /// The stream offset of the block that [`next`](Self::next) will read. For objects, the offset
    /// after the current body.
    pub(crate) fn offset(&self) -> u64 {
        self.input.offset() + self.current as u64
    }

    /// Moves to the next block and makes its body available. The end of stream counts as a block
    /// with an empty body. Nothing after it is read.
    pub(crate) fn next(&mut self) -> Result<BlockHead> {
        self.input.consume(self.current);
        self.current = 0;
        let (head, size) = match self.format {
            Format::V6 => read_block_header(&mut self.input)?,
            Format::V5 => {
                if std::mem::take(&mut self.open) {
                    objects::read_end(&mut self.input)?;
                }
                let found = objects::read_start(&mut self.input)?;
                self.open = found.0.kind != BlockKind::EndOfStream;
                found
            }
        };
        if size > self.limit {
            let kind = ErrorKind::LimitExceeded { what: "one block", limit: self.limit };
            return Err(Error::new(head.offset, kind));
        }
        let held = fill(&mut self.input, size)?.len();
        if held < size {
            let missing = (size - held) as u64;
            return Err(Error::new(head.offset, ErrorKind::Truncated { missing }));
        }
        self.current = size;
        self.head = Some(head);
        Ok(head)
    }

    /// The head of the current block. `None` before the first.
    pub(crate) fn head(&self) -> Option<BlockHead> {
        self.head
    }

    /// The body of the current block.
    #[inline]
    pub(crate) fn body(&self) -> &[u8] {
        self.input.window(self.current)
    }
}

/// The first bytes of a stream.
const MAGIC: &[u8; 8] = b"Nettrace";

/// A block header of version 6: 24 bits of size, 8 bits of kind.
const V6_BLOCK_HEADER: usize = 4;

/// Reads the header of a block of version 6. Also returns the size of its body.
fn read_block_header<R: Source>(input: &mut Input<R>) -> Result<(BlockHead, usize)> {
    let offset = input.offset();
    let header = fill(input, V6_BLOCK_HEADER)?;
    let Ok(header) = <[u8; V6_BLOCK_HEADER]>::try_from(header) else {
        let missing = (V6_BLOCK_HEADER - header.len()) as u64;
        let kind = match header {
            [] => ErrorKind::NoEndOfStream,
            _ => ErrorKind::Truncated { missing },
        };
        return Err(Error::new(offset, kind));
    };
    let header = u32::from_le_bytes(header);
    let kind = BlockKind::from_v6((header >> 24) as u8);
    let size = match kind {
        BlockKind::EndOfStream => 0,
        _ => (header & 0xFF_FFFF) as usize,
    };
    input.consume(V6_BLOCK_HEADER);
    Ok((BlockHead { kind, offset, body: input.offset(), flaw: None }, size))
}

/// Checks the stream header. Also returns the minor version. The sizes, and the way to recognize
/// the older versions, are those of NetTrace V6, "Stream header", and of NetTrace V4.
fn read_stream_header<R: Source>(input: &mut Input<R>) -> Result<(Format, u32)> {
    let magic = MAGIC;
    let header = fill(input, 20)?;
    if header.get(..8) != Some(magic) {
        let kind = if objects::begins(header) {
            // Versions 1 to 3 begin with the FastSerialization header, without a magic.
            ErrorKind::UnsupportedVersion(objects::old_version(input)?)
        } else if header.len() < 8 && magic.starts_with(header) {
            ErrorKind::NoEndOfStream
        } else {
            ErrorKind::NotNetTrace
        };
        return Err(Error::new(0, kind));
    }
    let missing = 20 - header.len() as u64;
    let truncated = |at| Error::new(at, ErrorKind::Truncated { missing });
    let reserved = word(header, 8).ok_or_else(|| truncated(8))?;
    if reserved != 0 {
        input.consume(8);
        objects::read_stream_header(input)?;
        return Ok((Format::V5, 0));
    }
    let (Some(major), Some(minor)) = (word(header, 12), word(header, 16)) else {
        return Err(truncated(12));
    };
    match major {
        6 => {}
        0..6 => {
            return Err(Error::new(
                12,
                ErrorKind::UnsupportedVersion("NetTrace with a V6 header and an older version"),
            ));
        }
        major => return Err(Error::new(12, ErrorKind::TooNew { major })),
    }
    input.consume(20);
    Ok((Format::V6, minor))
}

/// Reads the 32-bit number at `at`.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

fn fill<R: Source>(input: &mut Input<R>, len: usize) -> Result<&[u8]> {
    let offset = input.offset();
    input.fill(len).map_err(|source| Error::new(offset, ErrorKind::Io(source)))
}
