//! The spans whose label lists a stream has, and what the lists of their children need not say.
//!
//! Readers find the span id in the activity id. If a list has a related activity but no trace id,
//! readers take the trace id of the last earlier list with that activity, since the last sequence
//! point. So what this table says of a span's trace must be what the last list with its activity
//! has. The table may forget spans: then lists are defined again, or say more.
//!
//! Both hold for lists that begin with an activity id.

use nettrace_event::{
    label::kind::{ACTIVITY_ID, RELATED_ACTIVITY_ID, SPAN_ID, TRACE_ID},
    trace_context::{ActivityId, SpanId},
};
use nettrace_format::v6::{self, LAST_LABEL};
use nettrace_span::frames::{IdBytes, Implied};

use crate::shared::trace_ids::Ids;

/// A table by span ids. It knows the last spans only, so that about a quarter of its places are
/// taken.
#[derive(Debug)]
pub(super) struct Spans {
    /// Empty until the first span. Then it has a power of two of places, at most `most`.
    entries: Vec<Entry>,
    most: usize,
    /// What the numbers of lists count from, so that none is ever used again.
    base: u64,
    /// At least how many of the last entries it knows.
    known: Listed,
    /// The last entry for which there is room.
    room: Listed,
    /// Entries up to this one are forgotten: their places are empty.
    forgotten: Listed,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ids: IdBytes,
    list: Listed,
}

/// Twice the number of a list, counted from [`Spans::base`], plus 1 if it has the ids and nothing
/// else. 0: there is no entry.
type Listed = u64;

const EMPTY: Entry = Entry { ids: [0; 32], list: 0 };

/// How many places a table has first, and at most: powers of two.
const LEAST: usize = 512;
const MOST: usize = 1 << 15;
/// A span is in one of so many places, which follow each other. Span ids need no hash: they are
/// random, or another service's. In that case a bad choice costs definitions and nothing else.
const PLACES: usize = 8;

/// How many bytes the label of an activity has.
const ACTIVITY_LEN: usize = 17;

/// The place of a span that is not in the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free(usize);

impl Spans {
    /// A table that takes at most `most` bytes, if the smallest one does.
    pub(super) fn new(most: usize) -> Self {
        let most = (most / size_of::<Entry>()).clamp(LEAST, MOST);
        let most = 1 << most.ilog2();
        let known = most as u64 / 2;
        Self { entries: Vec::new(), most, base: 0, known, room: 0, forgotten: 0 }
    }

    /// The list of these ids alone, or the place for one.
    #[inline(always)]
    pub(super) fn list_of(&self, ids: &IdBytes) -> Result<u32, Free> {
        let home = self.home(span_of(ids));
        match self.entries.get(home) {
            Some(entry) if self.is_known(entry.list) => self.known_list(entry, ids),
            _ => Err(Free(home)),
        }
    }

    /// [`list_of`](Self::list_of) if there is an entry in the first place.
    #[inline]
    fn known_list(&self, first: &Entry, ids: &IdBytes) -> Result<u32, Free> {
        if first.list & 1 != 0 && first.ids == *ids {
            return Ok(self.number(first.list));
        }
        self.list_elsewhere(ids)
    }

    #[inline(never)]
    fn list_elsewhere(&self, ids: &IdBytes) -> Result<u32, Free> {
        let place = self.place(span_of(ids));
        match self.entries.get(place) {
            Some(entry)
                if self.is_known(entry.list) && entry.ids == *ids && entry.list & 1 != 0 =>
            {
                Ok(self.number(entry.list))
            }
            _ => Err(Free(place)),
        }
    }

    /// Adds a span with its list, the last one so far. Returns what the list need not say.
    #[inline(always)]
    pub(super) fn add(&mut self, Free(place): Free, ids: &IdBytes, list: u32) -> Implied {
        let implied = self.implied(ids);
        self.put(place, ids, self.listed(list) | 1);
        implied
    }

    /// Adds a span with its list, the last one so far, which has labels besides. Returns what the
    /// list need not say.
    pub(super) fn add_with_labels(&mut self, ids: &IdBytes, list: u32) -> Implied {
        let implied = self.implied(ids);
        self.add_trace(ids, list);
        implied
    }

    /// What the list of these ids need not say.
    #[inline]
    fn implied(&self, ids: &IdBytes) -> Implied {
        let trace = self.trace_of(word(ids, 24));
        let is_implied = trace.is_some_and(|trace| *trace == ids[..16]);
        if is_implied { Implied::SpanAndTrace } else { Implied::Span }
    }

    /// Adds a span whose list, the last one so far, does not have its ids alone, unless the span's
    /// trace is known.
    fn add_trace(&mut self, ids: &IdBytes, list: u32) {
        let span = span_of(ids);
        if self.trace_of(span).is_none_or(|trace| *trace != ids[..16]) {
            self.put(self.place(span), ids, self.listed(list));
        }
    }

    /// Appends the last list so far, which is not that of a span of this process, without what it
    /// need not say. It is sound.
    pub(super) fn append_list(&mut self, number: u32, list: &[u8], ids: Ids, out: &mut Vec<u8>) {
        if list.first().is_none_or(|kind| kind & !LAST_LABEL != ACTIVITY_ID) {
            return out.extend_from_slice(list);
        }
        let (start, mut last) = (out.len(), 0);
        let (mut activity, mut related, mut trace) = (0, 0, None);
        for (kind, label) in labels(list) {
            let mut is_said = false;
            match kind {
                ACTIVITY_ID => activity = span_in(label),
                RELATED_ACTIVITY_ID => related = span_in(label),
                TRACE_ID => {
                    trace = label[1..].first_chunk::<16>();
                    is_said = self.trace_of(related) == trace;
                }
                SPAN_ID => is_said = trace.is_some() && label[1..] == activity.to_le_bytes(),
                _ => {}
            }
            let is_implied = is_said && activity != 0 && ids == Ids::Activities;
            if !is_implied {
                last = out.len();
                out.extend_from_slice(label);
                out[last] &= !LAST_LABEL;
            }
        }
        match trace {
            Some(trace) if activity != 0 => {
                let mut ids = [0; 32];
                ids[..16].copy_from_slice(trace);
                ids[16..24].copy_from_slice(&activity.to_le_bytes());
                self.add_trace(&ids, number);
            }
            None if activity != 0 && related != 0 => {
                // Readers would take the trace of the related activity for the one of this list.
                // They add nothing to a list that does not begin with an activity.
                out[start..].rotate_left(ACTIVITY_LEN);
                last = out.len() - ACTIVITY_LEN;
            }
            _ => {}
        }
        out[last] |= LAST_LABEL;
    }

    /// Forgets all spans. The last list had the number `last`. From now on, the last one has the
    /// number `now`, which is not larger.
    ///
    /// The table stays as large as it is, because it will be filled again.
    pub(super) fn forget(&mut self, last: u32, now: u32) {
        self.base += u64::from(last - now);
        self.forgotten = self.listed(now) | 1;
        self.room = self.forgotten + self.entries.len() as u64 / 2;
    }

    #[inline]
    fn listed(&self, number: u32) -> Listed {
        (self.base + u64::from(number)) << 1
    }

    #[inline]
    fn number(&self, list: Listed) -> u32 {
        ((list >> 1) - self.base) as u32
    }

    #[inline]
    fn is_known(&self, list: Listed) -> bool {
        list > self.forgotten
    }

    #[inline]
    fn trace_of(&self, span: u64) -> Option<&[u8; 16]> {
        if span == 0 {
            return None;
        }
        let entry = self.entries.get(self.place(span))?;
        let is_of_span = self.is_known(entry.list) && span_of(&entry.ids) == span;
        entry.ids.first_chunk().filter(|_| is_of_span)
    }

    /// Puts the ids of the last list so far in their place.
    #[inline(always)]
    fn put(&mut self, mut place: usize, ids: &IdBytes, list: Listed) {
        if list > self.room {
            self.make_room(list);
            place = self.place(span_of(ids));
        }
        if let Some(entry) = self.entries.get_mut(place) {
            entry.ids = *ids;
            entry.list = list;
        }
    }

    /// Doubles the table until the entries up to this one take a quarter of it, or forgets the
    /// oldest ones. A list has one entry at most.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, last: Listed) {
        self.forgotten = self.forgotten.max(last.saturating_sub(self.known));
        let count = last - self.forgotten;
        let len = (2 * count as usize).next_power_of_two().clamp(LEAST, self.most);
        let len = len.max(self.entries.len());
        self.room =
            if len < self.most { self.forgotten + len as u64 / 2 } else { last + LEAST as u64 };
        if len == self.entries.len() {
            return;
        }
        let old = std::mem::replace(&mut self.entries, vec![EMPTY; len]);
        for entry in old.into_iter().filter(|entry| entry.list > self.forgotten) {
            let place = self.place(span_of(&entry.ids));
            if let Some(place) = self.entries.get_mut(place) {
                *place = entry;
            }
        }
    }

    #[inline]
    fn home(&self, span: u64) -> usize {
        span as usize & self.entries.len().wrapping_sub(1)
    }

    /// Where a span is, or else the place that it takes. If there is none, the span is not
    /// remembered. It must not take that of another span, of which something older may stand
    /// further on.
    #[inline]
    fn place(&self, span: u64) -> usize {
        let (home, mask) = (self.home(span), self.entries.len().wrapping_sub(1));
        let mut places = (0..PLACES).map(|step| (home + step) & mask);
        let is_its = |&place: &usize| {
            let entry = self.entries.get(place).unwrap_or(&EMPTY);
            !self.is_known(entry.list) || span_of(&entry.ids) == span
        };
        places.find(is_its).unwrap_or(self.entries.len())
    }
}

/// The labels of a sound list, each with its kind.
fn labels(mut list: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let label = v6::split_label(list)?;
        let (bytes, rest) = list.split_at(label.len);
        list = rest;
        Some((label.kind, bytes))
    })
}

/// The span id in the activity id of a label. 0 for none.
fn span_in(label: &[u8]) -> u64 {
    let activity = label[1..].first_chunk().map(|id| ActivityId::from_bytes_le(*id));
    activity.and_then(ActivityId::span_id).map_or(0, SpanId::to_u64)
}

#[inline]
fn span_of(ids: &IdBytes) -> u64 {
    word(ids, 16)
}

#[inline]
fn word(ids: &IdBytes, at: usize) -> u64 {
    u64::from_le_bytes(*ids[at..].first_chunk().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use nettrace_format::v6::Label;

    use super::*;
    use nettrace_span::frames::{IdList, decode};

    fn ids(trace: u8, span: u64, related: u64) -> IdBytes {
        let mut ids = [trace; 32];
        ids[16..24].copy_from_slice(&span.to_le_bytes());
        ids[24..].copy_from_slice(&related.to_le_bytes());
        ids
    }

    /// The trace and the span of a list, as a reader finds them.
    fn read(list: &[u8], traces: &mut HashMap<u64, [u8; 16]>) -> (Option<[u8; 16]>, Option<u64>) {
        let (mut activity, mut related, mut trace, mut span) = (0, 0, None, None);
        for label in decode(list) {
            let span_in = |id| ActivityId::from_bytes(id).span_id().unwrap().to_u64();
            match label {
                Label::ActivityId(id) => activity = span_in(id),
                Label::RelatedActivityId(id) => related = span_in(id),
                Label::TraceId(id) => trace = Some(id),
                Label::SpanId(id) => span = Some(id),
                _ => {}
            }
        }
        trace = trace.or_else(|| traces.get(&related).copied());
        traces.extend(trace.map(|trace| (activity, trace)));
        (trace, span.or(Some(activity)))
    }

    fn is_ended(list: &[u8]) -> bool {
        let (mut rest, mut marks) = (list, Vec::new());
        while let Some((_, len)) = v6::read_label(rest) {
            marks.push(rest[0] & LAST_LABEL != 0);
            rest = &rest[len..];
        }
        rest.is_empty() && marks.pop() == Some(true) && !marks.contains(&true)
    }

    #[test]
    fn a_list_without_a_trace_gets_none() {
        let mut table = Spans::new(40_000);
        let full = IdList::new(&ids(1, 5, 6));
        let (activity, related) = (&full.as_bytes()[..17], &full.as_bytes()[17..34]);
        let list = [activity, related, b"\x85\x01k\x01v"].concat();
        let mut out = Vec::new();
        table.append_list(1, &list, Ids::Both, &mut out);
        let mut expected = [related, b"\x05\x01k\x01v", activity].concat();
        expected[17 + 5] |= LAST_LABEL;
        assert_eq!(out, expected);
        assert!(is_ended(&out));
        // No span is number 0, so the activity says nothing of this one.
        let list = [&b"\x01activity-of-other"[..17], b"\x03trace-of-another\x84\0\0\0\0\0\0\0\0"];
        out.clear();
        table.append_list(2, &list.concat(), Ids::Activities, &mut out);
        assert_eq!(out, list.concat());
    }

    /// Few spans, of which some have several traces, and many, which take each other's places.
    #[test]
    fn readers_find_what_lists_leave_out() {
        for (spans, step) in [(20, 1), (3_000, 1), (3_000, 256)] {
            let mut table = Spans::new(40_000);
            let (mut traces, mut seed, mut left_out) = (HashMap::new(), 7_u64, [0; 27]);
            let mut random = |below: u64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) % below
            };
            let mut number = 0;
            for _ in 1..20_000 {
                if random(4_000) == 0 {
                    // A sequence point.
                    table.forget(number, 0);
                    traces.clear();
                    number = 0;
                }
                number += 1;
                // A parent has a smaller id, and mostly the same trace.
                let span = 1 + random(spans);
                let related = if random(4) == 0 { 0 } else { 1 + random(spans) };
                let trace = if random(8) == 0 { 2 } else { 1 };
                let ids = ids(trace, span * step, related * step);
                let mut list = Vec::new();
                match random(5) {
                    4 => {
                        let what = table.add_with_labels(&ids, number);
                        left_out[what as usize] += 1;
                        IdList::append(&ids, what, &mut list);
                        list.extend(b"\x85\x01k\x01v");
                        let expected = (Some([trace; 16]), Some(span * step));
                        assert_eq!(read(&list, &mut traces), expected);
                    }
                    0 => {
                        let mut full = IdList::new(&ids).as_bytes().to_vec();
                        if random(2) == 0 {
                            // A span id that the activity id does not contain.
                            *full.last_mut().unwrap() = 0xFF;
                        }
                        full.extend(b"\x85\x01k\x01v");
                        table.append_list(number, &full, Ids::Activities, &mut list);
                        let span =
                            u64::from_le_bytes(*full[full.len() - 13..].first_chunk().unwrap());
                        assert_eq!(read(&list, &mut traces), (Some([trace; 16]), Some(span)));
                        assert!(list.ends_with(b"\x85\x01k\x01v"));
                    }
                    1 => {
                        // No span of ours.
                        let full = b"\x03trace-of-another\x84\x01\0\0\0\0\0\0\0";
                        table.append_list(number, full, Ids::Activities, &mut list);
                        assert_eq!(list, full);
                    }
                    _ => {
                        let Err(free) = table.list_of(&ids) else { continue };
                        let what = table.add(free, &ids, number);
                        left_out[what as usize] += 1;
                        IdList::append_ended(&ids, what, &mut list);
                        let expected = (Some([trace; 16]), Some(span * step));
                        assert_eq!(read(&list, &mut traces), expected);
                    }
                }
                assert!(is_ended(&list));
            }
            assert!(table.entries.len() <= 1_024 && left_out[9] > 100, "{left_out:?}");
            assert!(left_out[26] > 20, "{left_out:?}");
        }
    }

    #[test]
    fn lists_with_both_ids_leave_out_nothing() {
        let (mut table, mut out) = (Spans::new(0), Vec::new());
        table.add(Free(0), &ids(1, 1, 0), 1);
        let full = [IdList::new(&ids(1, 2, 1)).as_bytes(), b"\x85\x01k\x01v"].concat();
        table.append_list(2, &full, Ids::Both, &mut out);
        assert_eq!(out, full);
        out.clear();
        table.append_list(3, &full, Ids::Activities, &mut out);
        assert_eq!(out.len(), full.len() - 17 - 9);
        out.clear();
        table.forget(3, 3);
        table.append_list(4, &full, Ids::Activities, &mut out);
        assert_eq!(out.len(), full.len() - 9);
    }

    #[test]
    fn what_is_forgotten_is_not_known_and_the_table_stays() {
        let mut table = Spans::new(2 << 20);
        let fill = |table: &mut Spans, from: u64| {
            for number in 1..=1_000 {
                let span = ids(1, from + u64::from(number), 0);
                let free = table.list_of(&span).unwrap_err();
                table.add(free, &span, number);
                assert_eq!(table.list_of(&span).ok(), Some(number));
            }
            table.entries.len()
        };
        let len = fill(&mut table, 0);
        table.forget(1_000, 0);
        // The same spans, and others.
        assert_eq!([fill(&mut table, 500), len], [4_096; 2]);
        table.forget(1_000, 600);
        assert!((1..=2_000).all(|span| table.list_of(&ids(1, span, 0)).is_err()));
    }

    #[test]
    fn the_last_spans_are_known() {
        let mut table = Spans::new(2 << 20);
        let span = |number: u32| ids(1, u64::from(number).wrapping_mul(0xD6E8_FEB8_6659_FD93), 0);
        let last = 100_000;
        for number in 1..=last {
            let free = table.list_of(&span(number)).unwrap_err();
            table.add(free, &span(number), number);
        }
        assert_eq!(table.entries.len(), MOST);
        let known = |number| table.list_of(&span(number)).ok();
        let part = MOST as u32 / 4;
        let count =
            (last - part + 1..=last).filter(|&number| known(number) == Some(number)).count();
        assert!(count > MOST / 4 * 99 / 100, "{count}");
        assert!((1..=last - part - LEAST as u32).all(|number| known(number).is_none()));
    }
}
