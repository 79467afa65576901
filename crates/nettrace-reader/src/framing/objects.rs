//! FastSerialization objects, the framing of versions 4 and 5: where each object begins and ends,
//! and how to skip unknown parts.
//!
//! An object consists of a tag, its type (itself an object), its content, and an end tag. The
//! content of the Trace object has a fixed size. The content of any other object is a size, zeros
//! up to a multiple of four bytes from the start of the stream, and that number of bytes. Tagged
//! values may follow the known content, and the format demands that readers skip them. An object of
//! an unknown type can be skipped if it consists of tagged values only.
//!
//! The tags, names and versions are those of NetTrace V4, "Objects" and the sections after it. The
//! tags of values are those of the FastSerialization library, to which these sections refer.

use super::{BlockHead, fill, word};
use crate::{
    block_kind::BlockKind,
    error::{Error, ErrorKind, Result},
    input::{Input, Source},
};

/// The header of the library, with its length before it.
const HEADER: &[u8; 24] = b"\x14\0\0\0!FastSerialization.1";

const NULL_REFERENCE: u8 = 1;
const BEGIN_OBJECT: u8 = 4;
const BEGIN_PRIVATE_OBJECT: u8 = 5;
const END_OBJECT: u8 = 6;

/// The size of the Trace object's content.
const TRACE_SIZE: usize = 48;

/// The longest name of a type that is accepted.
const MAX_NAME: u32 = 256;

/// The version of block objects, and the newest of the Trace object.
const BLOCK_VERSION: u32 = 2;
const TRACE_VERSIONS: std::ops::RangeInclusive<u32> = 4..=5;

/// Whether a stream without the magic of NetTrace begins like versions 1 to 3.
pub(super) fn begins(stream: &[u8]) -> bool {
    stream.get(..20) == Some(&HEADER[..20])
}

/// The name of the version of a stream without a magic, which its first object shows.
pub(super) fn old_version<R: Source>(input: &mut Input<R>) -> Result<&'static str> {
    let start = fill(input, 128)?;
    let object = start.get(HEADER.len()..).unwrap_or_default();
    let [BEGIN_OBJECT | BEGIN_PRIVATE_OBJECT, BEGIN_OBJECT | BEGIN_PRIVATE_OBJECT, rest @ ..] =
        object
    else {
        return Ok("NetTrace version 3 or older (NetPerf)");
    };
    // A reference to the type of types: null, or an object reference of four bytes more.
    let rest = rest.get(if rest.first() == Some(&NULL_REFERENCE) { 1 } else { 5 }..);
    Ok(match rest.and_then(|rest| word(rest, 0)) {
        Some(1) => "NetTrace version 1 (NetPerf)",
        Some(2) => "NetTrace version 2 (NetPerf)",
        Some(3) => "NetTrace version 3 (NetPerf)",
        _ => "NetTrace version 3 or older (NetPerf)",
    })
}

/// Reads what follows the magic in versions 4 and 5.
pub(super) fn read_stream_header<R: Source>(input: &mut Input<R>) -> Result<()> {
    let offset = input.offset();
    let header = fill(input, HEADER.len())?;
    if !HEADER.starts_with(header) {
        let what = "there is no header `!FastSerialization.1` behind the magic";
        return Err(Error::new(offset, ErrorKind::Framing { what }));
    }
    let missing = (HEADER.len() - header.len()) as u64;
    if missing > 0 {
        return Err(Error::new(offset, ErrorKind::Truncated { missing }));
    }
    input.consume(HEADER.len());
    Ok(())
}

/// Reads the start of an object, or the end of the stream. Also returns the size of the body.
pub(super) fn read_start<R: Source>(input: &mut Input<R>) -> Result<(BlockHead, usize)> {
    let offset = input.offset();
    match fill(input, 1)?.first() {
        None => return Err(Error::new(offset, ErrorKind::NoEndOfStream)),
        Some(&NULL_REFERENCE) => {
            input.consume(1);
            let kind = BlockKind::EndOfStream;
            return Ok((BlockHead { kind, offset, body: input.offset(), flaw: None }, 0));
        }
        Some(&BEGIN_PRIVATE_OBJECT) => {}
        Some(_) => {
            return Err(broken(offset, "neither an object nor the end of the stream is here"));
        }
    }
    let kind = read_type(input, offset)?;
    let (size, flaw) = match kind {
        BlockKind::Trace => (TRACE_SIZE, None),
        BlockKind::UnknownObject => (0, None),
        _ => read_size(input, offset)?,
    };
    Ok((BlockHead { kind, offset, body: input.offset(), flaw }, size))
}

/// Finds the end of an object after its body.
pub(super) fn read_end<R: Source>(input: &mut Input<R>) -> Result<()> {
    loop {
        let offset = input.offset();
        let head = fill(input, 5)?;
        let Some(tag) = head.first() else {
            return Err(Error::new(offset, ErrorKind::Truncated { missing: 1 }));
        };
        let size = match tag {
            &END_OBJECT => {
                input.consume(1);
                return Ok(());
            }
            8 => 1,
            9 => 2,
            10 => 4,
            11 => 8,
            // A string or a blob, which begins with its size in bytes.
            13 | 14 => match word(head, 1) {
                Some(size) if size <= i32::MAX as u32 => 4 + u64::from(size),
                Some(_) => return Err(broken(offset, "a tagged value has a negative size")),
                None => {
                    let missing = 5 - head.len() as u64;
                    return Err(Error::new(offset, ErrorKind::Truncated { missing }));
                }
            },
            _ => return Err(broken(offset, "an object does not end behind its content")),
        };
        skip(input, offset, 1 + size)?;
    }
}

/// Skips bytes, possibly more than fit in memory.
fn skip<R: Source>(input: &mut Input<R>, offset: u64, mut size: u64) -> Result<()> {
    const AT_ONCE: u64 = 1 << 16;
    while size > 0 {
        let held = fill(input, size.min(AT_ONCE) as usize)?.len();
        if held == 0 {
            return Err(Error::new(offset, ErrorKind::Truncated { missing: size }));
        }
        input.consume(held);
        size -= held as u64;
    }
    Ok(())
}

/// Reads the type of an object. The first tag of the object is not consumed yet.
fn read_type<R: Source>(input: &mut Input<R>, offset: u64) -> Result<BlockKind> {
    const FIXED: usize = 15;
    let head = exactly(input, offset, FIXED)?;
    if head[1] != BEGIN_PRIVATE_OBJECT || head[2] != NULL_REFERENCE {
        return Err(broken(offset, "an object has no type"));
    }
    let number = |at| word(head, at).unwrap_or(0);
    let (version, reader_version, length) = (number(3), number(7), number(11));
    if length > MAX_NAME {
        return Err(broken(offset, "the name of an object's type is too long"));
    }
    let size = FIXED + length as usize + 1;
    let head = exactly(input, offset, size)?;
    if head[size - 1] != END_OBJECT {
        return Err(broken(offset, "the type of an object does not end"));
    }
    let kind = match &head[FIXED..size - 1] {
        b"Trace" => BlockKind::Trace,
        b"EventBlock" => BlockKind::Event,
        b"MetadataBlock" => BlockKind::Metadata,
        b"StackBlock" => BlockKind::Stack,
        b"SPBlock" => BlockKind::SequencePoint,
        _ => BlockKind::UnknownObject,
    };
    let supported = match kind {
        BlockKind::UnknownObject => true,
        BlockKind::Trace if version < *TRACE_VERSIONS.start() => {
            let kind = ErrorKind::UnsupportedVersion("NetTrace version 3 or older");
            return Err(Error::new(offset, kind));
        }
        BlockKind::Trace => reader_version <= *TRACE_VERSIONS.end(),
        _ => version >= BLOCK_VERSION && reader_version <= BLOCK_VERSION,
    };
    if !supported {
        let name = "NetTrace with objects of other versions than those of V4 and V5";
        return Err(Error::new(offset, ErrorKind::UnsupportedVersion(name)));
    }
    if kind == BlockKind::UnknownObject
        && !matches!(exactly(input, offset, size + 1)?[size], 6..=14)
    {
        let head = exactly(input, offset, size)?;
        let name = String::from_utf8_lossy(&head[FIXED..size - 1]).into_owned();
        return Err(Error::new(offset, ErrorKind::UnknownObject { name }));
    }
    input.consume(size);
    Ok(kind)
}

/// Reads the size of a body, and the padding before the body.
fn read_size<R: Source>(
    input: &mut Input<R>,
    offset: u64,
) -> Result<(usize, Option<&'static str>)> {
    let size = word(exactly(input, offset, 4)?, 0).unwrap_or(0);
    if size > i32::MAX as u32 {
        return Err(broken(offset, "a block has a negative size"));
    }
    input.consume(4);
    let padding = (input.offset().wrapping_neg() % 4) as usize;
    let zeros = exactly(input, offset, padding)?;
    let flaw = zeros.iter().any(|byte| *byte != 0).then_some("the padding before it is not zero");
    input.consume(padding);
    Ok((size as usize, flaw))
}

/// The next `len` bytes of the object that begins at `offset`.
fn exactly<R: Source>(input: &mut Input<R>, offset: u64, len: usize) -> Result<&[u8]> {
    let bytes = fill(input, len)?;
    if bytes.len() < len {
        let missing = (len - bytes.len()) as u64;
        return Err(Error::new(offset, ErrorKind::Truncated { missing }));
    }
    Ok(bytes)
}

fn broken(offset: u64, what: &'static str) -> Error {
    Error::new(offset, ErrorKind::Framing { what })
}
