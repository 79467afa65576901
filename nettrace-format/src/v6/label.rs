//! LabelList blocks: lists of labels that rows refer to by id, up to the next sequence point.

use alloc::vec::Vec;

use crate::{
    content::Label,
    error::FormatError,
    primitive,
    v6::{
        block::{BlockKind, split},
        stack::{check_ids, id_prefix},
    },
};

/// Appends label lists with the ids `first_id`, `first_id + 1` and so on, as one LabelList block,
/// or as several where they exceed one, or as none where there are none.
///
/// # Errors
/// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`], [`FormatError::EmptyLabelList`], and
/// [`FormatError::BlockTooLarge`] where one list alone exceeds a block. `out` is then as it was.
pub fn label_list_block(
    first_id: u32,
    lists: &[&[Label<'_>]],
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    check_ids(BlockKind::LabelList, first_id, lists.len())?;
    let mut rows = Vec::new();
    let mut ends = Vec::with_capacity(lists.len());
    for (list, id) in lists.iter().zip(first_id..=u32::MAX) {
        let Some((last, others)) = list.split_last() else {
            return Err(FormatError::EmptyLabelList { id });
        };
        for entry in others {
            label(entry, 0, &mut rows);
        }
        label(last, LAST_OF_LIST, &mut rows);
        ends.push(rows.len());
    }
    split(BlockKind::LabelList, &rows, &ends, |range| id_prefix(first_id, range), out)
}

/// Marks, in a label's kind, the last label of a list.
const LAST_OF_LIST: u8 = 0x80;

fn label(label: &Label<'_>, mark: u8, out: &mut Vec<u8>) {
    match *label {
        Label::ActivityId(guid) => {
            out.push(1 | mark);
            out.extend_from_slice(&primitive::guid(&guid));
        }
        Label::RelatedActivityId(guid) => {
            out.push(2 | mark);
            out.extend_from_slice(&primitive::guid(&guid));
        }
        Label::TraceId(bytes) => {
            out.push(3 | mark);
            out.extend_from_slice(&bytes);
        }
        Label::SpanId(id) => {
            out.push(4 | mark);
            out.extend_from_slice(&id.to_le_bytes());
        }
        Label::Str(key, value) => {
            out.push(5 | mark);
            primitive::string(key, out);
            primitive::string(value, out);
        }
        Label::Int(key, value) => {
            out.push(6 | mark);
            primitive::string(key, out);
            primitive::varuint(primitive::zigzag(value), out);
        }
        Label::OpCode(value) => out.extend_from_slice(&[7 | mark, value]),
        Label::Keywords(value) => {
            out.push(8 | mark);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Label::Level(value) => out.extend_from_slice(&[9 | mark, value]),
        Label::Version(value) => out.extend_from_slice(&[10 | mark, value]),
    }
}
