//! Labels of events.

use std::sync::Arc;

use nettrace_event::label::{LabelOf, REPLACEMENTS};
use nettrace_format::{
    Cursor,
    v6::{EncodedLabels, labels_in},
};

use crate::error::Read;

/// One label of an event, with its own texts. Invalid UTF-8 becomes U+FFFD.
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
pub type Label = LabelOf<String>;

/// The labels of an event, in the order of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelList {
    /// The labels. If two have the same meaning, the last one applies.
    pub labels: Vec<Label>,
}

/// The size of the list that begins at the first of these bytes. The list is sound.
pub(crate) fn encoded_len(bytes: &[u8]) -> usize {
    labels_in(bytes).last().map_or(0, |(at, label)| at + label.len)
}

/// Decodes the list that begins at the first of these bytes. The list is sound.
pub(crate) fn decode(bytes: &[u8]) -> LabelList {
    // Most lists are short, so this allocates once.
    let mut labels = Vec::with_capacity(4);
    decode_into(bytes, &mut labels);
    LabelList { labels }
}

/// The same, behind other labels. Returns the size of the list.
fn decode_into(bytes: &[u8], to: &mut Vec<Label>) -> usize {
    let mut size = 0;
    for (at, label) in labels_in(bytes) {
        to.extend(label.decode(|text| Some(String::from_utf8_lossy(text).into_owned())));
        size = at + label.len;
    }
    size
}

/// A list that is too long to be decoded, or even compared, for each event that has it. Events take
/// a few bytes, and one list can be that of all.
#[derive(Debug)]
pub(crate) struct LongList {
    encoded: Vec<u8>,
    pub(crate) labels: Vec<Label>,
    /// The values of the last labels of each kind in [`REPLACEMENTS`].
    overrides: [Option<u64>; REPLACEMENTS.len()],
}

impl LongList {
    /// The list that begins at the first of these bytes. It is sound.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut labels = Vec::new();
        let size = decode_into(bytes, &mut labels);
        let last = |kind| labels.iter().rev().find(|label| label.kind() == kind);
        let overrides = REPLACEMENTS.map(|kind| last(kind).and_then(Label::replacement));
        Self { encoded: bytes[..size].to_vec(), labels, overrides }
    }

    /// About how many bytes it takes.
    pub(crate) fn cost(&self) -> usize {
        2 * self.encoded.len() + self.labels.len() * size_of::<Label>() + size_of::<Self>()
    }

    /// The value of the last label of a kind that replaces a fact of the event type.
    pub(crate) fn override_by(&self, kind: u8) -> Option<u64> {
        let at = REPLACEMENTS.iter().position(|replacement| *replacement == kind)?;
        self.overrides[at]
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
    /// The lists of a block that [`read_label_lists`](nettrace_format::v6::read_label_lists) has
    /// accepted.
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

#[cfg(test)]
mod tests {
    use super::{Cursor, EncodedLabels, Label, LastLabels, decode};
    use nettrace_format::{Damage, v6::read_label_lists};

    #[test]
    fn two_lists_by_hand() {
        let mut bytes = vec![5, 0, 0, 0, 2, 0, 0, 0];
        bytes.extend([4, 1, 0, 0, 0, 0, 0, 0, 0x80]);
        bytes.extend([5 | 0x80, 1, b'k', 1, b'v']);
        bytes.extend([6, 1, b'n', 3, 7, 1, 9, 2, 10 | 0x80, 3]);
        let mut lists = Vec::new();
        read_label_lists(Cursor::new(&bytes, 0), |offset, index, list| {
            lists.push((offset, index, decode(list.bytes()).labels));
            Ok::<_, Damage>(())
        })
        .unwrap();
        let first = vec![Label::SpanId(0x8000_0000_0000_0001), Label::Str("k".into(), "v".into())];
        let second =
            vec![Label::Int("n".into(), -2), Label::OpCode(1), Label::Level(2), Label::Version(3)];
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
            read_label_lists(
                Cursor::new(bytes, 0),
                |_, _, _: EncodedLabels<'_>| Ok::<_, Damage>(()),
            )
            .unwrap_err()
            .what
        };
        assert_eq!(parse(&[0, 0, 0, 0, 0, 0, 0, 0]), "label lists are counted from 1");
        assert_eq!(parse(&[1, 0, 0, 0, 1, 0, 0, 0, 0x8B]), "a label is of an unknown kind");
        assert_eq!(parse(&[1, 0, 0, 0, 1, 0, 0, 0, 7, 1]), "it ends inside a field");
    }
}
