//! The label lists of a stream, as they are encoded there.
//!
//! A trace of spans defines a list for each span: 43 bytes for a trace id, a span id and an
//! activity id. So lists are kept one after the other in one buffer, and decoded when an event is
//! asked for its labels. A decoded list takes several times as much, in blocks of its own.

use std::{borrow::Cow, mem::size_of, sync::Arc};

use foldhash::HashMap;
use nettrace_event::label::{REPLACEMENTS, kind};
use nettrace_format::v6::{EncodedLabels, labels_in};

use crate::{
    labels::{self, Label, LabelList, LastLabels, LongList},
    tables::{Definitions, spans::Spans},
};

/// How many lists with texts are kept decoded as well. Often a few lists with texts stand for many
/// events, and to make the texts anew for each event takes long.
const MOST_DECODED: usize = 1024;
/// The largest encoded size of a list that is decoded for each event, in bytes. All longer ones are
/// kept decoded.
const LARGEST_SHORT: usize = 1024;
/// The buffer is made anew only if at least so many bytes of it are no longer needed.
const LEAST_DEAD: usize = 64 << 10;

/// The lists that are valid, and replaced lists to which events may refer that are not delivered
/// yet.
#[derive(Debug, Default)]
pub(super) struct LabelLists {
    /// Encoded lists, with the ids that they leave out.
    bytes: Vec<u8>,
    spans: Spans,
    /// How many of these bytes are of lists that nothing refers to.
    dead: usize,
    /// Where the lists with the indices from `first` on are. Producers count their lists, so all
    /// lists of most streams are here.
    first: u32,
    counted: Vec<Place>,
    /// Where the other lists are.
    others: HashMap<u32, Place>,
    /// By index: replaced lists, the earliest first, each with the number of the definition that
    /// replaced it.
    replaced: HashMap<u32, Vec<(Definitions, Place)>>,
    /// How many lists `replaced` has.
    replacements: usize,
    /// By index: valid lists that have texts.
    decoded: HashMap<u32, LabelList>,
    /// By where they begin in the buffer: long lists, also replaced ones.
    long: HashMap<usize, Arc<LongList>>,
    /// About how many bytes `decoded` and `long` take.
    decoded_cost: usize,
}

/// Where a list begins in the buffer. The lowest bit says whether it has labels that replace facts
/// of the event type, which is rare.
#[derive(Clone, Copy, Debug)]
struct Place(usize);

impl Place {
    fn new(start: usize, list: EncodedLabels<'_>) -> Self {
        Self(start << 1 | usize::from(REPLACEMENTS.into_iter().any(|kind| list.has(kind))))
    }

    fn has_overrides(self) -> bool {
        self.0 & 1 != 0
    }

    fn start(self) -> usize {
        self.0 >> 1
    }

    /// The bytes from the start of the list on.
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start()..]
    }

    /// The bytes of the list.
    fn exactly_of(self, bytes: &[u8]) -> &[u8] {
        let rest = self.of(bytes);
        &rest[..labels::encoded_len(rest)]
    }

    fn moved_to(self, start: usize) -> Self {
        Self(start << 1 | self.0 & 1)
    }
}

impl LabelLists {
    /// About how many bytes the lists take.
    pub(super) fn cost(&self) -> usize {
        let counted = self.counted.len() * size_of::<Place>();
        // A map is half empty after it has grown, and a short vector too.
        let others = self.others.len() * 2 * size_of::<(u32, Place)>();
        let replaced = self.replacements * 4 * size_of::<(Definitions, Place)>();
        self.bytes.len() + self.spans.cost() + counted + others + replaced + self.decoded_cost
    }

    #[inline]
    pub(super) fn contains(&self, index: u32) -> bool {
        self.place(index).is_some()
    }

    /// The labels that had the index at a place of the stream.
    pub(super) fn labels(&self, definitions: Definitions, index: u32) -> Cow<'_, [Label]> {
        let replaced = self.replaced_since(definitions, index);
        if replaced.is_none() && !self.decoded.is_empty() {
            if let Some(list) = self.decoded.get(&index) {
                return Cow::Borrowed(&list.labels);
            }
        }
        match replaced.or_else(|| self.place(index)) {
            Some(place) => match self.long(place) {
                Some(list) => Cow::Borrowed(&list.labels),
                None => Cow::Owned(labels::decode(place.of(&self.bytes)).labels),
            },
            None => Cow::Borrowed(&[]),
        }
    }

    /// The same, if the labels of the event before are known. Returns whether these are others.
    #[inline]
    pub(super) fn labels_into(
        &self,
        definitions: Definitions,
        index: u32,
        last: &mut LastLabels,
    ) -> bool {
        let replaced = self.replaced_since(definitions, index);
        match replaced.or_else(|| self.place(index)) {
            Some(place) => match self.long(place) {
                Some(list) => last.take_long(list),
                None => last.take_encoded(place.of(&self.bytes)),
            },
            None => last.take(&[]),
        }
    }

    #[inline]
    fn long(&self, place: Place) -> Option<&Arc<LongList>> {
        if self.long.is_empty() {
            return None;
        }
        self.long.get(&place.start())
    }

    /// The value of the last of these labels that is of a kind that replaces a fact of the event
    /// type.
    pub(super) fn override_by(
        &self,
        definitions: Definitions,
        index: u32,
        wanted: u8,
    ) -> Option<u64> {
        let replaced = self.replaced_since(definitions, index);
        let place = replaced.or_else(|| self.place(index)).filter(|place| place.has_overrides())?;
        if let Some(list) = self.long(place) {
            return list.override_by(wanted);
        }
        let labels = labels_in(place.of(&self.bytes));
        let (_, last) = labels.filter(|(_, label)| label.kind == wanted).last()?;
        last.decode(|_| Some(""))?.replacement()
    }

    /// Where the list is that had the index at a place of the stream, if it was replaced since.
    fn replaced_since(&self, definitions: Definitions, index: u32) -> Option<Place> {
        if self.replaced.is_empty() {
            return None;
        }
        let replaced = self.replaced.get(&index)?;
        let (_, place) = replaced.get(replaced.partition_point(|(by, _)| *by <= definitions))?;
        Some(*place)
    }

    /// Adds the list of definition number `definition`. Returns whether it replaces another one.
    pub(super) fn insert(
        &mut self,
        definition: Definitions,
        index: u32,
        list: EncodedLabels<'_>,
    ) -> bool {
        let place = Place::new(self.bytes.len(), list);
        self.spans.append(list, &mut self.bytes);
        let replaced = self.set_place(index, place);
        if let Some(replaced) = replaced {
            self.replaced.entry(index).or_default().push((definition, replaced));
            self.replacements += 1;
            if let Some(list) = self.decoded.remove(&index) {
                self.decoded_cost -= cost_of_decoded(&list);
            }
        }
        let has_texts = list.has(kind::STR) || list.has(kind::INT);
        if list.bytes().len() > LARGEST_SHORT {
            let list = LongList::new(place.of(&self.bytes));
            self.decoded_cost += list.cost();
            self.long.insert(place.start(), Arc::new(list));
        } else if has_texts && self.decoded.len() < MOST_DECODED {
            let list = labels::decode(place.of(&self.bytes));
            self.decoded_cost += cost_of_decoded(&list);
            self.decoded.insert(index, list);
        }
        replaced.is_some()
    }

    /// Forgets replaced lists. All events that were read have been delivered.
    pub(super) fn forget_replaced(&mut self) {
        if self.replaced.is_empty() {
            return;
        }
        for (_, place) in self.replaced.drain().flat_map(|(_, lists)| lists) {
            self.dead += place.exactly_of(&self.bytes).len();
            if let Some(list) = self.long.remove(&place.start()) {
                self.decoded_cost -= list.cost();
            }
        }
        self.replacements = 0;
        if self.dead >= LEAST_DEAD && self.dead >= self.bytes.len() / 2 {
            self.make_anew();
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.counted.clear();
        self.others.clear();
        self.replaced.clear();
        self.decoded.clear();
        self.long.clear();
        (self.dead, self.replacements, self.decoded_cost) = (0, 0, 0);
    }

    fn place(&self, index: u32) -> Option<Place> {
        // An index below the first wraps around, and is then too large.
        let counted = self.counted.get(index.wrapping_sub(self.first) as usize).copied();
        counted.or_else(|| self.others.get(&index).copied())
    }

    /// Returns the place before.
    fn set_place(&mut self, index: u32, place: Place) -> Option<Place> {
        if self.counted.is_empty() {
            self.first = index;
        }
        let at = index.wrapping_sub(self.first) as usize;
        if let Some(counted) = self.counted.get_mut(at) {
            return Some(std::mem::replace(counted, place));
        }
        if at == self.counted.len() {
            self.counted.push(place);
            return self.others.remove(&index);
        }
        self.others.insert(index, place)
    }

    /// Makes the buffer anew, of the lists that are valid. Nothing may refer to another one.
    fn make_anew(&mut self) {
        let old = std::mem::take(&mut self.bytes);
        let mut long = std::mem::take(&mut self.long);
        self.bytes.reserve(old.len() - self.dead);
        for place in self.counted.iter_mut().chain(self.others.values_mut()) {
            let list = place.exactly_of(&old);
            if let Some(list) = long.remove(&place.start()) {
                self.long.insert(self.bytes.len(), list);
            }
            *place = place.moved_to(self.bytes.len());
            self.bytes.extend_from_slice(list);
        }
        self.dead = 0;
    }
}

fn cost_of_decoded(list: &LabelList) -> usize {
    let texts: usize = list.labels.iter().map(Label::text_len).sum();
    2 * size_of::<(u32, LabelList)>() + list.labels.len() * size_of::<Label>() + texts
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{LEAST_DEAD, LabelLists};
    use crate::labels::{Label, LastLabels};
    use nettrace_event::{guid, label::kind};
    use nettrace_format::{Cursor, Damage, v6::read_label_lists};

    /// Adds one list: a text and a level.
    fn insert(lists: &mut LabelLists, definition: u64, index: u32, text: &str, level: u8) -> bool {
        let mut block = [index.to_le_bytes(), 1_u32.to_le_bytes()].concat();
        block.extend([5, 1, b'k', text.len() as u8]);
        block.extend(text.bytes());
        block.extend([0x89, level]);
        let mut is_replaced = None;
        read_label_lists(Cursor::new(&block, 0), |_, index, list| {
            is_replaced = Some(lists.insert(definition, index, list));
            Ok::<_, Damage>(())
        })
        .unwrap();
        is_replaced.unwrap()
    }

    #[track_caller]
    fn check(lists: &LabelLists, definitions: u64, index: u32, text: &str, level: u8) {
        assert!(lists.contains(index));
        let expected = [Label::Str("k".into(), text.into()), Label::Level(level)];
        assert_eq!(*lists.labels(definitions, index), expected);
        let found = |kind| lists.override_by(definitions, index, kind);
        assert_eq!(found(kind::LEVEL), Some(level.into()));
        assert_eq!(found(kind::OPCODE), None);
    }

    #[test]
    fn any_order_of_indices() {
        let mut lists = LabelLists::default();
        let order = [7, 8, 3, 10, 9, 11, u32::MAX, 2];
        for (number, index) in order.into_iter().enumerate() {
            let text = index.to_string();
            assert!(!insert(&mut lists, number as u64, index, &text, index as u8));
        }
        for index in order {
            check(&lists, 100, index, &index.to_string(), index as u8);
        }
        // 9 was counted on from 8, and 10 and 11 were there already or followed it.
        assert!([1, 4, 6, 12, u32::MAX - 1].iter().all(|index| !lists.contains(*index)));
        assert!(insert(&mut lists, 100, 10, "ten", 1));
        assert!(insert(&mut lists, 101, 2, "two", 2));
        check(&lists, 101, 10, "ten", 1);
        check(&lists, 101, 2, "two", 2);
        lists.clear();
        assert!(order.iter().all(|index| !lists.contains(*index)));
        assert_eq!(lists.cost(), 0);
        assert!(lists.labels(101, 10).is_empty());
    }

    #[test]
    fn events_keep_the_list_of_their_place() {
        for index in [1, 40] {
            let mut lists = LabelLists::default();
            insert(&mut lists, 1, 1, "first", 1);
            insert(&mut lists, 2, 40, "first", 1);
            insert(&mut lists, 5, index, "second", 2);
            insert(&mut lists, 6, index, "third", 3);
            check(&lists, 4, index, "first", 1);
            check(&lists, 5, index, "second", 2);
            check(&lists, 6, index, "third", 3);
            check(&lists, 9, index, "third", 3);
            lists.forget_replaced();
            check(&lists, 9, index, "third", 3);
        }
    }

    #[test]
    fn lists_that_are_replaced_for_ever_take_no_memory() {
        let mut lists = LabelLists::default();
        let text = "x".repeat(100);
        let (mut number, mut highest) = (0, 0);
        for _ in 0..2 * LEAST_DEAD / 100 {
            for index in [1, 2, 77] {
                number += 1;
                let text = format!("{text} {number}");
                insert(&mut lists, number, index, &text, index as u8);
                check(&lists, number, index, &text, index as u8);
            }
            highest = highest.max(lists.cost());
            lists.forget_replaced();
        }
        assert!(highest < 2 * LEAST_DEAD, "{highest}");
        for (index, before) in [(1, 2), (2, 1), (77, 0)] {
            check(&lists, number, index, &format!("{text} {}", number - before), index as u8);
        }
    }

    /// Inserts a list of labels, each a kind and a value.
    fn insert_labels(lists: &mut LabelLists, index: u32, labels: &[(u8, &[u8])]) {
        let mut block = [index.to_le_bytes(), 1_u32.to_le_bytes()].concat();
        for (number, (kind, value)) in labels.iter().enumerate() {
            let is_last = number + 1 == labels.len();
            block.push(if is_last { kind | 0x80 } else { *kind });
            block.extend(*value);
        }
        read_label_lists(Cursor::new(&block, 0), |_, index, list| {
            lists.insert(index.into(), index, list);
            Ok::<_, Damage>(())
        })
        .unwrap();
    }

    #[test]
    fn ids_that_follow_from_activities_are_put_back() {
        let activity = |span: u8| [0xF0, 0, 0, 0, 8, 0xF0, span, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        let (first, second, other) = (activity(1), activity(2), activity(9));
        let span = |span: u8| 0x0800_0000_0000_0000 | u64::from(span);
        let of = |span: u8| Label::ActivityId(guid::swapped(&activity(span)));
        let related = |span: u8| Label::RelatedActivityId(guid::swapped(&activity(span)));
        let text = Label::Str("k".into(), "v".into());
        let (trace, another) = ([7; 16], [8; 16]);
        let mut lists = LabelLists::default();
        // No trace is known, and no span with that activity.
        insert_labels(&mut lists, 1, &[(1, &second), (2, &first)]);
        insert_labels(&mut lists, 2, &[(1, &first), (3, &trace)]);
        insert_labels(&mut lists, 3, &[(1, &second), (2, &first)]);
        // By a list that inherits too, and before other labels.
        insert_labels(&mut lists, 4, &[(1, &other), (2, &second), (5, b"\x01k\x01v")]);
        // What a list says stays.
        insert_labels(&mut lists, 5, &[(1, &other), (4, &[5; 8]), (2, &first)]);
        insert_labels(&mut lists, 6, &[(1, &second), (2, &first), (3, &another)]);
        insert_labels(&mut lists, 7, &[(1, &other), (5, b"\x01k\x01v"), (2, &second)]);
        // An activity that is not a span's, or that comes later.
        insert_labels(&mut lists, 8, &[(1, &[1; 16]), (2, &first)]);
        insert_labels(&mut lists, 9, &[(1, &[1; 16]), (3, &trace)]);
        insert_labels(&mut lists, 10, &[(1, &first), (2, &[1; 16])]);
        insert_labels(&mut lists, 11, &[(2, &first), (1, &other)]);
        let id = Label::TraceId;
        let expected = [
            vec![of(2), related(1)],
            vec![of(1), id(trace), Label::SpanId(span(1))],
            vec![of(2), related(1), id(trace), Label::SpanId(span(2))],
            vec![of(9), related(2), id(trace), Label::SpanId(span(9)), text.clone()],
            vec![of(9), Label::SpanId(0x0505_0505_0505_0505), related(1), id(trace)],
            vec![of(2), related(1), id(another), Label::SpanId(span(2))],
            vec![of(9), text, related(2), id(another), Label::SpanId(span(9))],
            vec![Label::ActivityId([1; 16]), related(1)],
            vec![Label::ActivityId([1; 16]), id(trace)],
            vec![of(1), Label::RelatedActivityId([1; 16])],
            vec![related(1), of(9)],
        ];
        for (index, expected) in (1..).zip(&expected) {
            assert_eq!(*lists.labels(99, index), **expected, "{index}");
        }
        lists.clear();
        assert_eq!(lists.cost(), 0);
        insert_labels(&mut lists, 1, &[(1, &second), (2, &first)]);
        assert_eq!(*lists.labels(99, 1), *expected[0]);
    }

    /// However often events refer to it, a long list is decoded once.
    #[test]
    fn long_lists_are_shared() {
        let mut lists = LabelLists::default();
        let mut block = [1_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat();
        (0..1_000).for_each(|level| block.extend([9, level as u8]));
        block.extend([0x87, 3]);
        let insert = |lists: &mut LabelLists, definition| {
            read_label_lists(Cursor::new(&block, 0), |_, index, list| {
                lists.insert(definition, index, list);
                Ok::<_, Damage>(())
            })
            .unwrap();
        };
        insert(&mut lists, 1);
        self::insert(&mut lists, 2, 2, "short", 2);
        let mut last = LastLabels::default();
        for index in [1, 2, 1] {
            assert!(lists.labels_into(3, index, &mut last));
            assert!(!lists.labels_into(3, index, &mut last));
            assert_eq!(last.labels(), &*lists.labels(3, index));
        }
        assert_eq!((last.labels().len(), last.encoded().len()), (1_001, 2_002));
        assert!(matches!(lists.labels(3, 1), Cow::Borrowed(_)));
        let found = |lists: &LabelLists, kind| lists.override_by(3, 1, kind);
        assert_eq!(found(&lists, kind::LEVEL), Some(999 % 256));
        assert_eq!(found(&lists, kind::OPCODE), Some(3));
        assert_eq!(found(&lists, kind::VERSION), None);
        // One that is replaced is still there for the events before.
        let cost = lists.cost();
        for definition in 10..200 {
            insert(&mut lists, definition);
        }
        assert!(matches!(lists.labels(3, 1), Cow::Borrowed(_)));
        lists.forget_replaced();
        assert!(matches!(lists.labels(300, 1), Cow::Borrowed(_)));
        check(&lists, 300, 2, "short", 2);
        assert!(lists.cost() < 2 * cost, "{} {cost}", lists.cost());
    }

    #[test]
    fn few_lists_with_texts_are_lent() {
        let mut lists = LabelLists::default();
        for index in 1..=5_000 {
            insert(&mut lists, index.into(), index, "text", 1);
        }
        assert!(matches!(lists.labels(9_999, 1_024), Cow::Borrowed(_)));
        assert!(matches!(lists.labels(9_999, 1_025), Cow::Owned(_)));
        check(&lists, 9_999, 1_024, "text", 1);
        check(&lists, 9_999, 1_025, "text", 1);
    }
}
