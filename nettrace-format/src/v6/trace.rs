//! The start of a file: the stream header and the Trace block.

use alloc::vec::Vec;

use crate::{
    content::TraceInfo,
    error::FormatError,
    primitive,
    v6::block::{BlockKind, block},
};

/// Appends the 20 bytes that begin a file: `Nettrace`, a reserved 0, major version 6, minor version
/// 0.
pub fn stream_header(out: &mut Vec<u8>) {
    out.extend_from_slice(b"Nettrace");
    for number in [0_u32, 6, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Appends the Trace block, the first block of every file.
///
/// # Errors
/// [`FormatError::PointerSize`] other than 4 or 8, [`FormatError::ClockRate`], and
/// [`FormatError::BlockTooLarge`] where the key-values take more than 16 MiB.
pub fn trace_block(info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
    info.check()?;
    block(BlockKind::Trace, out, |out| {
        info.put_clock(out);
        out.extend_from_slice(&info.pointer_size.to_le_bytes());
        // The block's 24-bit size bounds the count long before 32 bits do.
        out.extend_from_slice(&(info.key_values.len() as u32).to_le_bytes());
        for (key, value) in info.key_values {
            primitive::string(key, out);
            primitive::string(value, out);
        }
        Ok(())
    })
}
