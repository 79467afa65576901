//! Labels of events, and the parser of LabelList blocks of version 6.

use std::sync::Arc;

use nettrace_event::label::{LAST_LABEL, kind};
use nettrace_format::{Cursor, Damage};

use crate::error::Read;

/// One label of an event. The kinds are those of NetTrace V6, "LabelList".
///
/// ```
/// use nettrace_reader::Label;
///
/// /// The W3C trace id of an event, as hexadecimal digits.
/// fn trace_id(labels: &[Label]) -> Option<String> {
///     labels.iter().rev().find_map(|label| match label {
///         Label::TraceId(id) => Some(id.iter().map(|byte| format!("{byte:02x}")).collect()),
///         _ => None,
///     })
/// }
///
/// let labels = [Label::SpanId(7), Label::TraceId([0xAB; 16])];
/// assert_eq!(trace_id(&labels).unwrap(), "ab".repeat(16));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Label {
    /// The activity that the event belongs to (a GUID in the byte order of the format).
    ActivityId([u8; 16]),
    /// A related activity, usually the one that started this one.
    RelatedActivityId([u8; 16]),
    /// W3C trace id.
    TraceId([u8; 16]),
    /// W3C span id.
    SpanId(u64),
    /// A text with a name.
    Text(String, String),
    /// A number with a name.
    Number(String, i64),
    /// Replaces the opcode of the event type.
    OpCode(u8),
    /// Replaces the keywords of the event type.
    Keywords(u64),
    /// Replaces the level of the event type.
    Level(u8),
    /// Replaces the version of the event type.
    Version(u8),
}

/// The labels of an event, in the order of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelList {
    /// The labels. If two have the same meaning, the last one applies.
    pub labels: Vec<Label>,
}

/// What a label says, as it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LabelKind {
    ActivityId = kind::ACTIVITY_ID,
    RelatedActivityId = kind::RELATED_ACTIVITY_ID,
    TraceId = kind::TRACE_ID,
    SpanId = kind::SPAN_ID,
    Text = kind::STR,
    Number = kind::INT,
    OpCode = kind::OPCODE,
    Keywords = kind::KEYWORDS,
    Level = kind::LEVEL,
    Version = kind::VERSION,
}

impl LabelKind {
    /// Bit of an encoded kind: the label is the last one of its list.
    pub(crate) const LAST: u8 = LAST_LABEL;

    /// The kind, and whether the label is the last one of its list.
    #[inline]
    fn read(cursor: &mut Cursor<'_>) -> Read<(Self, bool)> {
        let at = *cursor;
        let byte = cursor.u8()?;
        let of = match byte & !Self::LAST {
            kind::ACTIVITY_ID => Self::ActivityId,
            kind::RELATED_ACTIVITY_ID => Self::RelatedActivityId,
            kind::TRACE_ID => Self::TraceId,
            kind::SPAN_ID => Self::SpanId,
            kind::STR => Self::Text,
            kind::INT => Self::Number,
            kind::OPCODE => Self::OpCode,
            kind::KEYWORDS => Self::Keywords,
            kind::LEVEL => Self::Level,
            kind::VERSION => Self::Version,
            _ => return Err(at.damage("a label is of an unknown kind")),
        };
        Ok((of, byte & Self::LAST != 0))
    }

    /// Reads the value of a label of this kind, but makes nothing of it.
    #[inline]
    fn skip(self, cursor: &mut Cursor<'_>) -> Read<()> {
        match self {
            Self::ActivityId | Self::RelatedActivityId | Self::TraceId => cursor.bytes(16)?,
            Self::SpanId | Self::Keywords => cursor.bytes(8)?,
            Self::Text => {
                cursor.skip_string()?;
                return cursor.skip_string();
            }
            Self::Number => {
                cursor.skip_string()?;
                return cursor.varint64().map(drop);
            }
            Self::OpCode | Self::Level | Self::Version => cursor.bytes(1)?,
        };
        Ok(())
    }

    /// Reads a label of this kind.
    fn label(self, cursor: &mut Cursor<'_>) -> Read<Label> {
        Ok(match self {
            Self::ActivityId => Label::ActivityId(cursor.array()?),
            Self::RelatedActivityId => Label::RelatedActivityId(cursor.array()?),
            Self::TraceId => Label::TraceId(cursor.array()?),
            Self::SpanId => Label::SpanId(cursor.u64()?),
            Self::Text => Label::Text(cursor.string()?, cursor.string()?),
            Self::Number => Label::Number(cursor.string()?, cursor.varint64()?),
            Self::OpCode => Label::OpCode(cursor.u8()?),
            Self::Keywords => Label::Keywords(cursor.u64()?),
            Self::Level => Label::Level(cursor.u8()?),
            Self::Version => Label::Version(cursor.u8()?),
        })
    }
}

/// A label list, as it is encoded. It is sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedLabels<'a> {
    bytes: &'a [u8],
    /// Bit `n`: the list has a label of kind `n`.
    kinds: u32,
}

impl<'a> EncodedLabels<'a> {
    /// Reads a list, but makes nothing of it.
    fn read(cursor: &mut Cursor<'a>) -> Read<Self> {
        let mut end = *cursor;
        let mut kinds = 0;
        loop {
            let (kind, is_last) = LabelKind::read(&mut end)?;
            kind.skip(&mut end)?;
            kinds |= 1 << kind as u32;
            if is_last {
                let bytes = cursor.bytes(end.position() - cursor.position())?;
                return Ok(Self { bytes, kinds });
            }
        }
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn has(self, kind: LabelKind) -> bool {
        self.kinds & 1 << kind as u32 != 0
    }
}

/// The kind of each label of the list that begins at the first of these bytes, and a position
/// before its value. The list is sound.
pub(crate) fn labels(bytes: &[u8]) -> impl Iterator<Item = (LabelKind, Cursor<'_>)> {
    let mut cursor = Some(Cursor::new(bytes, 0));
    std::iter::from_fn(move || {
        let mut value = cursor?;
        let (kind, is_last) = LabelKind::read(&mut value).ok()?;
        let mut next = value;
        kind.skip(&mut next).ok()?;
        cursor = (!is_last).then_some(next);
        Some((kind, value))
    })
}

/// The size of the list that begins at the first of these bytes. The list is sound.
pub(crate) fn encoded_len(bytes: &[u8]) -> usize {
    EncodedLabels::read(&mut Cursor::new(bytes, 0)).map_or(0, |list| list.bytes.len())
}

/// Decodes the list that begins at the first of these bytes. The list is sound.
pub(crate) fn decode(bytes: &[u8]) -> LabelList {
    // Most lists are short, so this allocates once.
    let mut labels = Vec::with_capacity(4);
    decode_into(bytes, &mut labels);
    LabelList { labels }
}

/// The same, behind other labels. Returns the size of the list.
fn decode_into(bytes: &[u8], labels: &mut Vec<Label>) -> usize {
    let mut cursor = Cursor::new(bytes, 0);
    while let Ok((kind, is_last)) = LabelKind::read(&mut cursor) {
        labels.extend(kind.label(&mut cursor).ok());
        if is_last {
            break;
        }
    }
    cursor.position()
}

/// A list that is too long to be decoded, or even compared, for each event that has it. Events take
/// a few bytes, and one list can be that of all.
#[derive(Debug)]
pub(crate) struct LongList {
    encoded: Vec<u8>,
    pub(crate) labels: Vec<Label>,
    /// The values of the last labels that replace a fact of the event type, by their kinds.
    overrides: [Option<u64>; 4],
}

impl LongList {
    /// The list that begins at the first of these bytes. It is sound.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut labels = Vec::new();
        let size = decode_into(bytes, &mut labels);
        let mut overrides = [None; 4];
        for label in &labels {
            let (kind, value) = match *label {
                Label::OpCode(code) => (LabelKind::OpCode, code.into()),
                Label::Keywords(keywords) => (LabelKind::Keywords, keywords),
                Label::Level(level) => (LabelKind::Level, level.into()),
                Label::Version(version) => (LabelKind::Version, version.into()),
                _ => continue,
            };
            overrides[kind as usize - LabelKind::OpCode as usize] = Some(value);
        }
        Self { encoded: bytes[..size].to_vec(), labels, overrides }
    }

    /// About how many bytes it takes.
    pub(crate) fn cost(&self) -> usize {
        2 * self.encoded.len() + self.labels.len() * size_of::<Label>() + size_of::<Self>()
    }

    /// The value of the last label of a kind that replaces a fact of the event type.
    pub(crate) fn override_by(&self, kind: LabelKind) -> Option<u64> {
        let at = (kind as usize).checked_sub(LabelKind::OpCode as usize)?;
        self.overrides.get(at).copied().flatten()
    }
}

/// The labels of the last event. Who asks for those of each event saves to make them anew, as many
/// events have the list of the event before.
#[derive(Debug, Default)]
pub struct LastLabels {
    /// The list, if it is encoded in the trace.
    encoded: Vec<u8>,
    labels: Vec<Label>,
    /// Instead of both.
    long: Option<Arc<LongList>>,
}

impl LastLabels {
    /// The labels, in the order of the stream.
    #[inline]
    #[must_use]
    pub fn labels(&self) -> &[Label] {
        self.long.as_ref().map_or(&self.labels, |list| &list.labels)
    }

    /// The list as it is encoded. Empty if it is not, or if there are no labels.
    #[inline]
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        self.long.as_ref().map_or(&self.encoded, |list| &list.encoded)
    }

    /// Takes the list that begins at the first of these bytes, which is sound. Returns whether it
    /// is another one.
    #[inline]
    pub(crate) fn take_encoded(&mut self, bytes: &[u8]) -> bool {
        self.long = None;
        // A list tells by itself where it ends.
        if !self.encoded.is_empty() && bytes.starts_with(&self.encoded) {
            return false;
        }
        self.labels.clear();
        let size = decode_into(bytes, &mut self.labels);
        self.encoded.clear();
        self.encoded.extend_from_slice(&bytes[..size]);
        true
    }

    /// Takes a list that is shared. Returns whether it is another one.
    pub(crate) fn take_long(&mut self, list: &Arc<LongList>) -> bool {
        if self.long.as_ref().is_some_and(|last| Arc::ptr_eq(last, list)) {
            return false;
        }
        self.long = Some(Arc::clone(list));
        self.encoded.clear();
        self.labels.clear();
        true
    }

    /// Takes labels that are not encoded. Returns whether they are others.
    #[inline]
    pub(crate) fn take(&mut self, labels: &[Label]) -> bool {
        self.encoded.clear();
        let is_new = self.long.take().is_some() || self.labels != labels;
        if is_new {
            labels.clone_into(&mut self.labels);
        }
        is_new
    }
}

/// The label lists of one block: an iterator over the index and the labels of each. It decodes one
/// at a time, so it takes no memory, however many there are.
///
/// ```
/// use nettrace_reader::{Item, Reader};
///
/// # let file = nettrace_reader::example();
/// let mut reader = Reader::new(&file[..])?;
/// let mut labels = 0;
/// while let Some(item) = reader.next_item()? {
///     if let Item::LabelLists(lists) = item {
///         labels += lists.map(|(_, list)| list.labels.len()).sum::<usize>();
///     }
/// }
/// assert!(labels > 0);
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LabelLists<'a> {
    lists: Cursor<'a>,
    next: u32,
    left: u32,
}

impl<'a> LabelLists<'a> {
    /// The lists of a block that [`parse_label_lists`] has accepted.
    pub(crate) fn of(mut lists: Cursor<'a>) -> Read<Self> {
        let (next, left) = (lists.u32()?, lists.u32()?);
        Ok(Self { lists, next, left })
    }
}

impl Iterator for LabelLists<'_> {
    type Item = (u32, LabelList);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let list = EncodedLabels::read(&mut self.lists).ok()?;
        let index = self.next;
        self.next = self.next.wrapping_add(1);
        Some((index, decode(list.bytes())))
    }
}

/// Calls `define` with the offset, index and content of each list in a LabelList block of version
/// 6.
pub(crate) fn parse_label_lists<E: From<Damage>>(
    mut cursor: Cursor<'_>,
    mut define: impl FnMut(u64, u32, EncodedLabels<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let first = cursor.u32()?;
    if first == 0 {
        return Err(cursor.damage("label lists are counted from 1").into());
    }
    let count = cursor.u32()?;
    for i in 0..count {
        let at = cursor;
        let list = EncodedLabels::read(&mut cursor)?;
        let index = first
            .checked_add(i)
            .ok_or(at.damage("the index of a label list does not fit 32 bits"))?;
        define(at.offset(), index, list)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Cursor, EncodedLabels, Label, LastLabels, decode, parse_label_lists};
    use nettrace_format::Damage;

    #[test]
    fn two_lists_by_hand() {
        let mut bytes = vec![5, 0, 0, 0, 2, 0, 0, 0];
        bytes.extend([4, 1, 0, 0, 0, 0, 0, 0, 0x80]);
        bytes.extend([5 | 0x80, 1, b'k', 1, b'v']);
        bytes.extend([6, 1, b'n', 3, 7, 1, 9, 2, 10 | 0x80, 3]);
        let mut lists = Vec::new();
        parse_label_lists(Cursor::new(&bytes, 0), |offset, index, list| {
            lists.push((offset, index, decode(list.bytes()).labels));
            Ok::<_, Damage>(())
        })
        .unwrap();
        let first = vec![Label::SpanId(0x8000_0000_0000_0001), Label::Text("k".into(), "v".into())];
        let second = vec![
            Label::Number("n".into(), -2),
            Label::OpCode(1),
            Label::Level(2),
            Label::Version(3),
        ];
        assert_eq!(lists, [(8, 5, first), (22, 6, second)]);
    }

    #[test]
    fn the_last_list_is_known_again() {
        let span = |id: u8| [&[4, id][..], &[0; 7], &[9 | 0x80, id]].concat();
        let label = |id: u8| vec![Label::SpanId(id.into()), Label::Level(id)];
        let mut last = LastLabels::default();
        assert!(!last.take(&[]));
        for (id, is_new) in [(1, true), (1, false), (2, true), (1, true)] {
            // Another list follows.
            let bytes = [span(id), span(7)].concat();
            assert_eq!((last.take_encoded(&bytes), last.labels()), (is_new, &*label(id)));
        }
        assert!(!last.take(&label(1)));
        assert!(last.take(&label(3)));
        assert_eq!(last.labels(), label(3));
        assert!(last.take_encoded(&span(1)));
        assert!(last.take(&[]));
        assert!(last.labels().is_empty());
    }

    #[test]
    fn damage() {
        let parse = |bytes: &[u8]| {
            parse_label_lists(Cursor::new(bytes, 0), |_, _, _: EncodedLabels<'_>| {
                Ok::<_, Damage>(())
            })
            .unwrap_err()
            .what
        };
        assert_eq!(parse(&[0, 0, 0, 0, 0, 0, 0, 0]), "label lists are counted from 1");
        assert_eq!(parse(&[1, 0, 0, 0, 1, 0, 0, 0, 0x8B]), "a label is of an unknown kind");
        assert_eq!(parse(&[1, 0, 0, 0, 1, 0, 0, 0, 7, 1]), "it ends inside a field");
    }
}
