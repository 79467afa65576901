//! Stack blocks. Rows refer to stacks of code addresses by id; the ids apply up to the next
//! sequence point.

use alloc::vec::Vec;

use crate::{
    blocks::{BlockKind, MAX_STACK},
    cursor::{Cursor, Damage},
    error::FormatError,
    v6::block::split,
};

/// Whether a stack can have an address, where addresses have `pointer_size` bytes.
///
/// ```
/// use nettrace_format::v6::takes_address;
///
/// assert!(takes_address(0x7FFF_0000_1000, 8));
/// assert!(!takes_address(0x7FFF_0000_1000, 4));
/// ```
#[must_use]
pub const fn takes_address(address: u64, pointer_size: u32) -> bool {
    pointer_size == 8 || address <= u32::MAX as u64
}

/// Appends stacks with the ids `first_id`, `first_id + 1` and so on. Writes no Stack block without
/// stacks, and several if one block cannot hold them.
///
/// Frames are addresses, leaf first, of `pointer_size` bytes each, as in the Trace block.
///
/// ```
/// // The ids 1 and 2. The second stack has two frames, the innermost first.
/// let mut out = Vec::new();
/// nettrace_format::v6::stack_block(1, &[&[0x1000], &[0x2000, 0x1000]], 8, &mut out)?;
/// assert!(out.ends_with(&[0x2000_u64.to_le_bytes(), 0x1000_u64.to_le_bytes()].concat()));
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
///
/// # Errors
/// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`], [`FormatError::PointerSize`],
/// [`FormatError::AddressTooLarge`], [`FormatError::StackTooDeep`]. An error leaves `out`
/// unchanged.
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

/// Calls `define` with the offset, id and addresses of each stack in a Stack block.
///
/// # Errors
/// [`Damage`] if a stack is cut or an id too large, and what `define` returns.
pub fn read_stacks<'a, E: From<Damage>>(
    cursor: &mut Cursor<'a>,
    mut define: impl FnMut(u64, u32, &'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let first = cursor.u32()?;
    let count = cursor.u32()?;
    for i in 0..count {
        let offset = cursor.offset();
        let size = cursor.u32()?;
        let addresses = cursor.bytes(size as usize)?;
        let id = first.checked_add(i).ok_or(cursor.damage("a stack id does not fit 32 bits"))?;
        define(offset, id, addresses)?;
    }
    Ok(())
}

/// Returns the rows of stack blocks and the end of each. The ids must be valid.
pub(crate) fn stack_rows(
    first_id: u32,
    stacks: &[&[u64]],
    pointer_size: u32,
) -> Result<(Vec<u8>, Vec<usize>), FormatError> {
    let mut rows = Vec::new();
    let mut ends = Vec::with_capacity(stacks.len());
    for (stack, id) in stacks.iter().zip(first_id..=u32::MAX) {
        stack_row(id, stack.iter().copied(), pointer_size, &mut rows)?;
        ends.push(rows.len());
    }
    Ok((rows, ends))
}

/// Appends the row of a stack: its size in bytes, then its addresses. An error leaves `out`
/// unchanged.
pub(crate) fn stack_row(
    id: u32,
    addresses: impl IntoIterator<Item = u64>,
    pointer_size: u32,
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    if !matches!(pointer_size, 4 | 8) {
        return Err(FormatError::PointerSize { given: pointer_size });
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut frames = 0_usize;
    for address in addresses {
        if !takes_address(address, pointer_size) {
            out.truncate(start);
            return Err(FormatError::AddressTooLarge { stack: id, address });
        }
        frames += 1;
        out.extend_from_slice(&address.to_le_bytes()[..pointer_size as usize]);
    }
    let size = out.len() - start - 4;
    if size > MAX_STACK {
        out.truncate(start);
        return Err(FormatError::StackTooDeep { stack: id, frames });
    }
    out[start..start + 4].copy_from_slice(&(size as u32).to_le_bytes());
    Ok(())
}

/// Checks that `count` ids starting at `first_id` are valid: not 0, and at most 2^32 - 1.
pub(crate) fn check_ids(kind: BlockKind, first_id: u32, count: usize) -> Result<(), FormatError> {
    let last = u64::from(first_id) + (count as u64).saturating_sub(1);
    match first_id {
        0 => Err(FormatError::ZeroId { kind }),
        _ if last > u64::from(u32::MAX) => Err(FormatError::IdTooLarge { kind, id: 1 << 32 }),
        _ => Ok(()),
    }
}

/// The first bytes of Stack and LabelList blocks: the first id and the number of rows.
pub(crate) fn id_prefix(first_id: u32, range: core::ops::Range<usize>) -> [u8; 8] {
    // Both fit, because `check_ids` checked the last id.
    let id = first_id + range.start as u32;
    let count = range.len() as u32;
    (u64::from(id) | u64::from(count) << 32).to_le_bytes()
}
