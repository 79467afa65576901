//! LabelList blocks. Rows refer to label lists by id; the ids apply up to the next sequence point.

use alloc::vec::Vec;

use crate::{
    blocks::BlockKind,
    content::Label,
    error::FormatError,
    primitive::{self, MAX_VARUINT64, read_varuint, read_varuint32},
    v6::{
        block::{block, split},
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
        let Some((last, others)) = list.split_last() else {
            return Err(FormatError::EmptyLabelList { id });
        };
        for entry in others {
            label(entry, 0, &mut rows);
        }
        label(last, LAST_LABEL, &mut rows);
        ends.push(rows.len());
    }
    split(BlockKind::LabelList, &rows, &ends, |range| id_prefix(first_id, range), out)
}

/// Appends `count` label lists with the ids `first_id`, `first_id + 1` and so on, from `rows`: the
/// labels of each list as [`put_label`] writes them, with [`LAST_LABEL`] in the kind of the list's
/// last label.
///
/// # Errors
/// [`FormatError::ZeroId`], [`FormatError::IdTooLarge`], [`FormatError::BlockTooLarge`]. An error
/// leaves `out` unchanged.
///
/// ```
/// use nettrace_format::v6::{LAST_LABEL, Label, label_list_block, label_rows_block, put_label};
///
/// let mut rows = [0; 32];
/// let len = put_label(&Label::Level(2), &mut rows).expect("it fits");
/// rows[0] |= LAST_LABEL;
/// let (mut encoded, mut from_labels) = (Vec::new(), Vec::new());
/// label_rows_block(1, 1, &rows[..len], &mut encoded)?;
/// label_list_block(1, &[&[Label::Level(2)]], &mut from_labels)?;
/// assert_eq!(encoded, from_labels);
/// # Ok::<(), nettrace_format::FormatError>(())
/// ```
pub fn label_rows_block(
    first_id: u32,
    count: u32,
    rows: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), FormatError> {
    check_ids(BlockKind::LabelList, first_id, count as usize)?;
    block(BlockKind::LabelList, out, |out| {
        out.extend_from_slice(&id_prefix(first_id, 0..count as usize));
        out.extend_from_slice(rows);
        Ok(())
    })
}

/// The bit in a label's kind, which is its first byte, that marks the last label of a list.
pub const LAST_LABEL: u8 = 0x80;

fn label(label: &Label<'_>, mark: u8, out: &mut Vec<u8>) {
    let most = match *label {
        Label::Str(key, value) => key.len() + value.len() + 1 + 2 * MAX_VARUINT64,
        Label::Int(key, _) => key.len() + 1 + 2 * MAX_VARUINT64,
        _ => 17,
    };
    let start = out.len();
    out.resize(start + most, 0);
    let len = put_label(label, &mut out[start..]).unwrap_or(0);
    out.truncate(start + len);
    out[start] |= mark;
}

/// Writes a label at the start of `out`, as LabelList blocks have it, without [`LAST_LABEL`].
/// Returns its length, or `None` if it does not fit.
///
/// ```
/// use nettrace_format::v6::{Label, put_label};
///
/// let mut bytes = [0; 8];
/// assert_eq!(put_label(&Label::Str("id", "a1"), &mut bytes), Some(7));
/// assert_eq!(bytes[..7], *b"\x05\x02id\x02a1");
/// assert_eq!(put_label(&Label::Str("name", "too long"), &mut bytes), None);
/// ```
#[inline]
pub fn put_label(label: &Label<'_>, out: &mut [u8]) -> Option<usize> {
    match *label {
        Label::ActivityId(guid) => fixed(1, primitive::guid(&guid), out),
        Label::RelatedActivityId(guid) => fixed(2, primitive::guid(&guid), out),
        Label::TraceId(bytes) => fixed(3, bytes, out),
        Label::SpanId(id) => fixed(4, id.to_le_bytes(), out),
        Label::Str(key, value) => {
            *out.first_mut()? = 5;
            let at = text(key, out, 1)?;
            text(value, out, at)
        }
        Label::Int(key, value) => {
            *out.first_mut()? = 6;
            let at = text(key, out, 1)?;
            varuint(primitive::zigzag(value), out, at)
        }
        Label::OpCode(value) => fixed(7, [value], out),
        Label::Keywords(value) => fixed(8, value.to_le_bytes(), out),
        Label::Level(value) => fixed(9, [value], out),
        Label::Version(value) => fixed(10, [value], out),
    }
}

#[inline(always)]
fn fixed<const N: usize>(kind: u8, bytes: [u8; N], out: &mut [u8]) -> Option<usize> {
    let (first, rest) = out.split_first_mut()?;
    *rest.first_chunk_mut()? = bytes;
    *first = kind;
    Some(1 + N)
}

/// Writes text at `at` and returns the position after it.
#[inline(always)]
fn text(text: &str, out: &mut [u8], at: usize) -> Option<usize> {
    let at = varuint(text.len() as u64, out, at)?;
    out.get_mut(at..)?.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    Some(at + text.len())
}

#[inline(always)]
fn varuint(value: u64, out: &mut [u8], at: usize) -> Option<usize> {
    if value < 0x80 {
        *out.get_mut(at)? = value as u8;
        return Some(at + 1);
    }
    let mut bytes = [0; MAX_VARUINT64];
    let len = primitive::put_varuint(&mut bytes, 0, value);
    out.get_mut(at..)?.get_mut(..len)?.copy_from_slice(&bytes[..len]);
    Some(at + len)
}

/// A label as [`put_label`] wrote it, whose value is not decoded.
///
/// [`split_label`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelBytes<'a> {
    /// The kind, without [`LAST_LABEL`].
    pub kind: u8,
    /// The key, in UTF-8, of a label that has one.
    pub key: &'a [u8],
    /// The bytes after the key.
    value: &'a [u8],
    /// The length of the label in bytes, its kind included.
    pub len: usize,
}

/// Finds the end of the label at the start of `bytes`. Returns `None` if there is none.
///
/// ```
/// use nettrace_format::v6::split_label;
///
/// // A list: a text, and a number that is the last label.
/// let list = b"\x05\x02id\x02a1\x86\x03try\x02";
/// let first = split_label(list).expect("there is a label");
/// assert_eq!((first.key, first.len), (&b"id"[..], 7));
/// let second = split_label(&list[first.len..]).expect("there is another");
/// assert_eq!(second.key, b"try");
/// ```
#[must_use]
#[inline]
pub fn split_label(bytes: &[u8]) -> Option<LabelBytes<'_>> {
    let kind = *bytes.first()? & !LAST_LABEL;
    let (mut key, mut at) = (&[][..], 1);
    if matches!(kind, 5 | 6) {
        key = counted(bytes, &mut at)?;
    }
    let value_at = at;
    match kind {
        1..=3 => at += 16,
        4 | 8 => at += 8,
        5 => _ = counted(bytes, &mut at)?,
        6 => _ = read_varuint(bytes, &mut at, MAX_VARUINT64)?,
        7 | 9 | 10 => at += 1,
        _ => return None,
    }
    Some(LabelBytes { kind, key, value: bytes.get(value_at..at)?, len: at })
}

#[inline]
fn counted<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len = read_varuint32(bytes, at)? as usize;
    let text = bytes.get(*at..)?.get(..len)?;
    *at += len;
    Some(text)
}

/// Reads the label at the start of `bytes`, and its length. Returns `None` if there is none.
///
/// ```
/// use nettrace_format::v6::{Label, read_label};
///
/// assert_eq!(read_label(b"\x05\x02id\x02a1 and more"), Some((Label::Str("id", "a1"), 7)));
/// assert_eq!(read_label(b"\x05\x02id"), None);
/// ```
#[must_use]
pub fn read_label(bytes: &[u8]) -> Option<(Label<'_>, usize)> {
    let LabelBytes { kind, key, value, len } = split_label(bytes)?;
    let key = core::str::from_utf8(key).ok()?;
    let word = || value.first_chunk().copied().map(u64::from_le_bytes);
    let byte = || value.first().copied();
    let label = match kind {
        1 => Label::ActivityId(primitive::guid(value.first_chunk()?)),
        2 => Label::RelatedActivityId(primitive::guid(value.first_chunk()?)),
        3 => Label::TraceId(*value.first_chunk()?),
        4 => Label::SpanId(word()?),
        5 => Label::Str(key, core::str::from_utf8(counted(value, &mut 0)?).ok()?),
        6 => Label::Int(key, unzigzag(read_varuint(value, &mut 0, MAX_VARUINT64)?)),
        7 => Label::OpCode(byte()?),
        8 => Label::Keywords(word()?),
        9 => Label::Level(byte()?),
        _ => Label::Version(byte()?),
    };
    Some((label, len))
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_reads_back_and_no_part_of_one_does() {
        let long = "x".repeat(200);
        let labels = [
            Label::ActivityId(*b"0123456789abcdef"),
            Label::RelatedActivityId([2; 16]),
            Label::TraceId([0xff; 16]),
            Label::SpanId(u64::MAX),
            Label::Str("ключ", ""),
            Label::Str("", &long),
            Label::Int("n", i64::MIN),
            Label::Int(&long, -1),
            Label::OpCode(7),
            Label::Keywords(1 << 63),
            Label::Level(2),
            Label::Version(255),
        ];
        for expected in labels {
            let mut bytes = Vec::new();
            label(&expected, LAST_LABEL, &mut bytes);
            assert_eq!(read_label(&bytes), Some((expected, bytes.len())));
            let mut again = alloc::vec![0; bytes.len()];
            assert_eq!(put_label(&expected, &mut again), Some(bytes.len()));
            again[0] |= LAST_LABEL;
            assert_eq!(again, bytes);
            for len in 0..bytes.len() {
                assert_eq!(read_label(&bytes[..len]), None, "{expected:?}");
                assert_eq!(put_label(&expected, &mut again[..len]), None, "{expected:?}");
            }
        }
    }
}
