//! Stack blocks: stacks of code addresses that rows refer to by id, up to the next sequence point.

use alloc::vec::Vec;

use crate::{
    error::FormatError,
    v6::block::{BlockKind, split},
};

/// The most bytes that one stack can have: 8,190 frames of 8 bytes.
///
/// The format allows 32 bits of size. But the reference reader adds 8 and keeps 16 bits of the sum,
/// so that it loses frames of a deeper stack or dies of it with the process (4.0.0, at 8,191
/// frames).
pub const MAX_STACK: usize = 65_527;

/// Appends stacks with the ids `first_id`, `first_id + 1` and so on, as one Stack block, or as
/// several where they exceed one, or as none where there are none.
///
/// Frames are addresses, leaf first, `pointer_size` bytes each, as the Trace block has it.
///
/// # Errors
/// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`], [`FormatError::PointerSize`],
/// [`FormatError::AddressTooLarge`], [`FormatError::StackTooDeep`]. `out` is then as it was.
pub fn stack_block(
    first_id: u32,
    stacks: &[&[u64]],
    pointer_size: u32,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    check_ids(BlockKind::Stack, first_id, stacks.len())?;
    let (rows, ends) = stack_rows(first_id, stacks, pointer_size)?;
    split(BlockKind::Stack, &rows, &ends, |range| id_prefix(first_id, range), out)
}

/// The rows of stack blocks, and where each ends; their ids exist.
pub(crate) fn stack_rows(
    first_id: u32,
    stacks: &[&[u64]],
    pointer_size: u32,
) -> Result<(Vec<u8>, Vec<usize>), FormatError> {
    if !matches!(pointer_size, 4 | 8) {
        return Err(FormatError::PointerSize { given: pointer_size });
    }
    let mut rows = Vec::new();
    let mut ends = Vec::with_capacity(stacks.len());
    for (stack, id) in stacks.iter().zip(first_id..=u32::MAX) {
        let size = stack.len().saturating_mul(pointer_size as usize);
        if size > MAX_STACK {
            return Err(FormatError::StackTooDeep { stack: id, frames: stack.len() });
        }
        rows.extend_from_slice(&(size as u32).to_le_bytes());
        for &address in *stack {
            match (pointer_size, u32::try_from(address)) {
                (8, _) => rows.extend_from_slice(&address.to_le_bytes()),
                (_, Ok(address)) => rows.extend_from_slice(&address.to_le_bytes()),
                (_, Err(_)) => return Err(FormatError::AddressTooLarge { stack: id, address }),
            }
        }
        ends.push(rows.len());
    }
    Ok((rows, ends))
}

/// Checks that `count` ids from `first_id` on exist.
pub(crate) fn check_ids(kind: BlockKind, first_id: u32, count: usize) -> Result<(), FormatError> {
    let last = u64::from(first_id) + (count as u64).saturating_sub(1);
    match first_id {
        0 => Err(FormatError::ZeroId { kind }),
        _ if last > u64::from(u32::MAX) => Err(FormatError::IdTooLarge { kind, id: 1 << 32 }),
        _ => Ok(()),
    }
}

/// What Stack and LabelList blocks begin with: the first id and the number of rows.
pub(crate) fn id_prefix(first_id: u32, range: core::ops::Range<usize>) -> [u8; 8] {
    // Both fit: check_ids has looked at the last of all ids.
    let id = first_id + range.start as u32;
    let count = range.len() as u32;
    (u64::from(id) | u64::from(count) << 32).to_le_bytes()
}
