//! LabelList blocks. Rows refer to label lists by id; the ids apply up to the next sequence point.

use alloc::vec::Vec;

use nettrace_event::label::LabelForm;
#[doc(inline)]
pub use nettrace_event::label::{LAST_LABEL, LabelBytes, put_label, read_label, split_label};

use crate::{
    blocks::BlockKind,
    content::Label,
    cursor::{Cursor, Damage},
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
        append_label(&entry, out);
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

/// Appends a label as [`put_label`] writes it.
pub(crate) fn append_label(label: &Label<'_>, out: &mut Vec<u8>) {
    let most = 17 + label.text_len() + 2 * MAX_VARUINT64;
    let start = out.len();
    out.resize(start + most, 0);
    let len = put_label(label, &mut out[start..]).unwrap_or(0);
    out.truncate(start + len);
}

/// A label list, as it is encoded. It is sound.
///
/// [`read_label_lists`] has an example.
#[derive(Clone, Copy, Debug)]
pub struct EncodedLabels<'a> {
    bytes: &'a [u8],
    /// Bit `n`: the list has a label of kind `n`.
    kinds: u32,
}

impl<'a> EncodedLabels<'a> {
    /// Reads the list that comes next, but makes nothing of it.
    ///
    /// # Errors
    /// [`Damage`] if a label is cut or of an unknown kind.
    pub fn read(cursor: &mut Cursor<'a>) -> Result<Self, Damage> {
        let mut end = *cursor;
        let mut kinds = 0;
        loop {
            let rest = end.rest();
            let label = split_label(rest).ok_or_else(|| damage(end))?;
            kinds |= 1 << label.kind;
            end.bytes(label.len)?;
            if rest[0] & LAST_LABEL != 0 {
                let bytes = cursor.bytes(end.position() - cursor.position())?;
                return Ok(Self { bytes, kinds });
            }
        }
    }

    /// The bytes of the list.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it has a label of this [kind](nettrace_event::label::kind).
    #[must_use]
    pub fn has(self, kind: u8) -> bool {
        self.kinds & 1 << kind != 0
    }

    /// Its labels, each with its place in the list.
    pub fn labels(self) -> impl Iterator<Item = (usize, LabelBytes<'a>)> {
        labels_in(self.bytes)
    }
}

/// Where and why a label cannot be read.
#[cold]
fn damage(mut cursor: Cursor<'_>) -> Damage {
    let at = cursor;
    let mut read = || {
        let unknown = at.damage("a label is of an unknown kind");
        match LabelForm::of(cursor.u8()? & !LAST_LABEL).ok_or(unknown)? {
            LabelForm::Bytes(len) => drop(cursor.bytes(len)?),
            LabelForm::Text => {
                cursor.skip_string()?;
                cursor.skip_string()?;
            }
            LabelForm::Number => {
                cursor.skip_string()?;
                cursor.varint64()?;
            }
        }
        Ok(())
    };
    read().err().unwrap_or(at.damage("a label cannot be read"))
}

/// The labels of the list that begins at the first of these bytes, each with its place among them.
/// The list is sound.
pub fn labels_in(bytes: &[u8]) -> impl Iterator<Item = (usize, LabelBytes<'_>)> {
    let mut next = Some(0);
    core::iter::from_fn(move || {
        let at = next?;
        let label = split_label(&bytes[at..])?;
        next = (bytes[at] & LAST_LABEL == 0).then_some(at + label.len);
        Some((at, label))
    })
}

/// Calls `define` with the offset, id and content of each list in a LabelList block.
///
/// ```
/// use nettrace_format::{
///     Cursor, Damage,
///     v6::{BLOCK_HEADER, Label, label_list_block, read_label_lists},
/// };
///
/// let mut block = Vec::new();
/// label_list_block(1, &[&[Label::SpanId(0x2B), Label::Level(2)]], &mut block)?;
/// read_label_lists(Cursor::new(&block[BLOCK_HEADER..], 0), |_, id, list| {
///     let (_, first) = list.labels().next().expect("a label");
///     assert_eq!((id, first.decode(|_| Some(""))), (1, Some(Label::SpanId(0x2B))));
///     Ok::<(), Damage>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Damage`] if a list is cut or an id is 0 or too large, and what `define` returns.
pub fn read_label_lists<'a, E: From<Damage>>(
    mut cursor: Cursor<'a>,
    mut define: impl FnMut(u64, u32, EncodedLabels<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let first = cursor.u32()?;
    if first == 0 {
        return Err(cursor.damage("label lists are counted from 1").into());
    }
    let count = cursor.u32()?;
    for i in 0..count {
        let at = cursor;
        let list = EncodedLabels::read(&mut cursor)?;
        let id = first
            .checked_add(i)
            .ok_or(at.damage("the index of a label list does not fit 32 bits"))?;
        define(at.offset(), id, list)?;
    }
    Ok(())
}
