//! The outermost layer: which version of the family a stream is, and where its blocks begin and
//! end.
//!
//! Version 6 has blocks behind a header of four bytes. Versions 4 and 5 have FastSerialization
//! objects ([`objects`]). [`Blocks`] yields a kind and a body whatever the framing; how a body is
//! to be read, [`Format`] says.

use crate::{
    block::BlockKind,
    error::{Error, ErrorKind, Result},
    input::{Input, Source},
};

mod objects;

/// How blocks are framed, and what is in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Versions 4 and 5, which differ in nothing but what metadata may say.
    V5,
    /// Version 6.
    V6,
}

/// What is known of a block before its body is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub(crate) kind: BlockKind,
    /// Stream offset of the block's header.
    pub(crate) offset: u64,
    /// Stream offset of the block's body.
    pub(crate) body: u64,
    /// Something in the framing that no writer should do and that hinders no reader.
    pub(crate) flaw: Option<&'static str>,
}

/// The blocks of a stream, one at a time.
#[derive(Debug)]
pub(crate) struct Blocks<R> {
    input: Input<R>,
    format: Format,
    minor: u32,
    /// Size of the body that stands at the front of the input.
    current: usize,
    /// Whether the end of the current block is still to be found: that of an object.
    open: bool,
    /// Bodies may be so large.
    limit: usize,
    /// Of the current block.
    head: Option<BlockHead>,
}

impl<R: Source> Blocks<R> {
    /// Reads the stream header. Bodies of more than `limit` bytes are refused.
    pub(crate) fn open(source: R, limit: usize) -> Result<Self> {
        let mut input = Input::new(source);
        let (format, minor) = read_stream_header(&mut input)?;
        Ok(Self { input, format, minor, current: 0, open: false, limit, head: None })
    }

    /// How the stream's blocks are to be read.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// The minor version that the stream header states; 0 before version 6.
    pub(crate) fn minor_version(&self) -> u32 {
        self.minor
    }

    /// Stream offset of the block that [`next`](Self::next) will read. Of an object, that of what
    /// stands behind its body.
    pub(crate) fn offset(&self) -> u64 {
        self.input.offset() + self.current as u64
    }

    /// Moves to the next block and makes its body available. The end of stream is a block like the
    /// others, with an empty body; nothing behind it is read.
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

    /// The head of the block that [`next`](Self::next) moved to; `None` before the first.
    pub(crate) fn head(&self) -> Option<BlockHead> {
        self.head
    }

    /// The body of the block that [`next`](Self::next) moved to.
    #[inline]
    pub(crate) fn body(&self) -> &[u8] {
        self.input.window(self.current)
    }
}

/// V6: 24 bits of size, 8 bits of kind.
const V6_BLOCK_HEADER: usize = 4;

/// Reads the header of a V6 block; returns the size of its body too.
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

/// Checks the stream header; returns the minor version too. Sizes: NetTrace V6, "Stream header";
/// how the older versions are told apart by it: the same, and V4 before it.
fn read_stream_header<R: Source>(input: &mut Input<R>) -> Result<(Format, u32)> {
    let magic = b"Nettrace";
    let header = fill(input, 20)?;
    if header.get(..8) != Some(magic) {
        let kind = if objects::begins(header) {
            // V1 to V3 begin with the FastSerialization header at once.
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

/// The 32-bit number at `at`.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

fn fill<R: Source>(input: &mut Input<R>, len: usize) -> Result<&[u8]> {
    let offset = input.offset();
    input.fill(len).map_err(|source| Error::new(offset, ErrorKind::Io(source)))
}
