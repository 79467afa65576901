//! LabelList blocks. Rows refer to label lists by id; the ids apply up to the next sequence point.

use alloc::vec::Vec;

#[doc(inline)]
pub use nettrace_event::label::{LAST_LABEL, LabelBytes, put_label, read_label, split_label};

use crate::{
    blocks::BlockKind,
    content::Label,
    error::FormatError,
    primitive::MAX_VARUINT64,
    v6::{
        block::{BLOCK_HEADER, header, split},
        stack::{check_ids, id_prefix},
    },
};

/// Appends label lists with the ids `first_id`, `first_id + 1` and so on. Writes no LabelList block
/// without lists, and several if one block cannot hold them.
///
/// ```
/// use nettrace_format::v6::{Label, label_list_block};
///
/// let list = [Label::SpanId(0x2B), Label::Str("tenant", "contoso")];
/// let mut out = Vec::new();
/// label_list_block(1, &[&list], &mut out)?;
/// // The block ends with the text, which is marked as the list's last label.
/// assert!(out.ends_with(b"\x85\x06tenant\x07contoso"));
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
///
/// # Errors
/// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`], [`FormatError::EmptyLabelList`], and
/// [`FormatError::BlockTooLarge`] if a single list exceeds a block. An error leaves `out`
/// unchanged.
pub fn label_list_block(
    first_id: u32,
    lists: &[&[Label<'_>]],
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    check_ids(BlockKind::LabelList, first_id, lists.len())?;
    let mut rows = Vec::new();
    let mut ends = Vec::with_capacity(lists.len());
    for (list, id) in lists.iter().zip(first_id..=u32::MAX) {
        if list.is_empty() {
            return Err(FormatError::EmptyLabelList { id });
        }
        label_list_row(list.iter().copied(), &mut rows);
        ends.push(rows.len());
    }
    split(BlockKind::LabelList, &rows, &ends, |range| id_prefix(first_id, range), out)
}

/// Appends the row of one label list: its labels as [`put_label`] writes them, with [`LAST_LABEL`]
/// in the kind of the last one. A list without labels has no bytes.
///
/// ```
/// use nettrace_format::v6::{LAST_LABEL, Label, label_list_row};
///
/// let mut row = Vec::new();
/// label_list_row([Label::SpanId(0x2B), Label::Level(2)], &mut row);
/// assert_eq!(row.len(), 9 + 2);
/// assert_eq!((row[0] & LAST_LABEL, row[9] & LAST_LABEL), (0, LAST_LABEL));
/// ```
pub fn label_list_row<'a>(labels: impl IntoIterator<Item = Label<'a>>, out: &mut Vec<u8>) {
    let mut last = None;
    for entry in labels {
        last = Some(out.len());
        label(&entry, out);
    }
    if let Some(last) = last {
        out[last] |= LAST_LABEL;
    }
}

/// Returns the first bytes of a LabelList block, before its rows: of `count` lists with the ids
/// `first_id`, `first_id + 1` and so on. The caller appends a [row](label_list_row) for each list,
/// `rows_len` bytes in all.
///
/// # Errors
/// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`], [`FormatError::BlockTooLarge`].
///
/// ```
/// use nettrace_format::v6::{LAST_LABEL, Label, label_list_block, label_rows_header, put_label};
///
/// let mut rows = [0; 32];
/// let len = put_label(&Label::Level(2), &mut rows).expect("it fits");
/// rows[0] |= LAST_LABEL;
/// let mut from_labels = Vec::new();
/// label_list_block(1, &[&[Label::Level(2)]], &mut from_labels)?;
/// assert_eq!([&label_rows_header(1, 1, len)?, &rows[..len]].concat(), from_labels);
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
pub fn label_rows_header(
    first_id: u32,
    count: u32,
    rows_len: usize,
) -> Result<[u8; BLOCK_HEADER + 8], FormatError> {
    check_ids(BlockKind::LabelList, first_id, count as usize)?;
    let mut bytes = [0; BLOCK_HEADER + 8];
    bytes[..4].copy_from_slice(&header(BlockKind::LabelList, rows_len.saturating_add(8))?);
    bytes[4..].copy_from_slice(&id_prefix(first_id, 0..count as usize));
    Ok(bytes)
}

fn label(label: &Label<'_>, out: &mut Vec<u8>) {
    let most = match *label {
        Label::Str(key, value) => key.len() + value.len() + 1 + 2 * MAX_VARUINT64,
        Label::Int(key, _) => key.len() + 1 + 2 * MAX_VARUINT64,
        _ => 17,
    };
    let start = out.len();
    out.resize(start + most, 0);
    let len = put_label(label, &mut out[start..]).unwrap_or(0);
    out.truncate(start + len);
}
