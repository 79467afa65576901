//! The outermost layer: which version of the family a stream is, and where its blocks begin and end.
//!
//! V4 and V5 frame their blocks as FastSerialization objects; they belong beside V6 here, behind the
//! same [`Blocks`], which yields a kind and a body whatever the framing.

use std::io::Read;

use crate::{
    block::BlockKind,
    error::{Error, ErrorKind, Result},
    input::Input,
};

/// What is known of a block before its body is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub(crate) kind: BlockKind,
    /// Stream offset of the block's header.
    pub(crate) offset: u64,
    /// Stream offset of the block's body.
    pub(crate) body: u64,
}

/// The blocks of a stream, one at a time.
#[derive(Debug)]
pub(crate) struct Blocks<R> {
    input: Input<R>,
    minor: u32,
    /// Size of the body that stands at the front of the input.
    current: usize,
}

impl<R: Read> Blocks<R> {
    /// Reads the stream header.
    pub(crate) fn open(source: R) -> Result<Self> {
        let mut input = Input::new(source);
        let minor = read_stream_header(&mut input)?;
        Ok(Self { input, minor, current: 0 })
    }

    /// The minor version that the stream header states.
    pub(crate) fn minor_version(&self) -> u32 {
        self.minor
    }

    /// Stream offset of the block that [`next`](Self::next) will read.
    pub(crate) fn offset(&self) -> u64 {
        self.input.offset() + self.current as u64
    }

    /// Moves to the next block and makes its body available. The end of stream is a block like the
    /// others, with an empty body; nothing behind it is read.
    pub(crate) fn next(&mut self) -> Result<BlockHead> {
        self.input.consume(self.current);
        self.current = 0;
        let offset = self.input.offset();
        let header = fill(&mut self.input, V6_BLOCK_HEADER)?;
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
        self.input.consume(V6_BLOCK_HEADER);
        let body = self.input.offset();
        let held = fill(&mut self.input, size)?.len();
        if held < size {
            let missing = (size - held) as u64;
            return Err(Error::new(offset, ErrorKind::Truncated { missing }));
        }
        self.current = size;
        Ok(BlockHead { kind, offset, body })
    }

    /// The body of the block that [`next`](Self::next) moved to.
    pub(crate) fn body(&self) -> &[u8] {
        self.input.window(self.current)
    }
}

/// V6: 24 bits of size, 8 bits of kind.
const V6_BLOCK_HEADER: usize = 4;

/// Checks the stream header and returns the minor version. Sizes: NetTrace V6, "Stream header"; how the
/// older versions are told apart by it: the same, and V4 before it.
fn read_stream_header<R: Read>(input: &mut Input<R>) -> Result<u32> {
    let header = fill(input, 20)?;
    let magic = b"Nettrace";
    if header.get(..8) != Some(magic) {
        // V1 to V3 begin with the FastSerialization header at once.
        let kind = match header.get(..20) {
            Some(start) if start[4..] == *b"!FastSerializati" => {
                ErrorKind::UnsupportedVersion("NetPerf (V1, V2 or V3)")
            }
            _ if header.len() < 8 && magic.starts_with(header) => ErrorKind::NoEndOfStream,
            _ => ErrorKind::NotNetTrace,
        };
        return Err(Error::new(0, kind));
    }
    let word = |at: usize| {
        header.get(at..at + 4).map(|four| four.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b)))
    };
    let (Some(reserved), major, minor) = (word(8), word(12), word(16)) else {
        return Err(Error::new(8, ErrorKind::Truncated { missing: 20 - header.len() as u64 }));
    };
    if reserved != 0 {
        return Err(Error::new(8, ErrorKind::UnsupportedVersion("NetTrace V4 or V5")));
    }
    let (Some(major), Some(minor)) = (major, minor) else {
        return Err(Error::new(12, ErrorKind::Truncated { missing: 20 - header.len() as u64 }));
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
    Ok(minor)
}

fn fill<R: Read>(input: &mut Input<R>, len: usize) -> Result<&[u8]> {
    let offset = input.offset();
    input.fill(len).map_err(|source| Error::new(offset, ErrorKind::Io(source)))
}
