//! New frames with labels.

use std::ops::Range;

use nettrace_event::label::{Label, LabelBytes, put_label};

use super::{
    Begun, BelowLabels, Entered, Frames, MARKS, MAX_ID_BYTES, MAX_LABEL_BYTES, Snapshot, id_list,
    inherit, is_id, replaces, replaces_encoded, version,
};

impl Frames {
    /// Adds a frame with the labels in force and others. Returns `None` if there are too many.
    pub(super) fn push_labels(&mut self, labels: &[Label<'_>]) -> Option<Entered> {
        let (ids, state, outer, outer_has_ids) = match self.innermost() {
            Some(outer) => (outer.ids, outer.state.clone(), outer.start..outer.end, outer.has_ids),
            None => (None, None, 0..0, false),
        };
        let has_new_ids = labels.iter().any(|label| is_id(label.kind()));
        // If ids are given, the span's become labels too, so that those replace them.
        let of_span = ids.filter(|_| has_new_ids && !outer_has_ids).map(id_list);
        let start = self.used();
        let most = MAX_LABEL_BYTES + if of_span.is_some() { MAX_ID_BYTES } else { 0 };
        let (outers, mut list) = self.next_list(most);
        let is_replaced =
            |old: &LabelBytes<'_>| labels.iter().any(|new| replaces_encoded(new, old));
        if let Some(of_span) = &of_span {
            list.inherit(of_span.as_bytes(), is_replaced)?;
        }
        if !outer.is_empty() {
            list.inherit(&outers[outer], is_replaced)?;
        }
        for (position, label) in labels.iter().enumerate() {
            if !labels[position + 1..].iter().any(|later| replaces(later, label)) {
                (list.last, list.len) =
                    (list.len, list.len + put_label(label, &mut list.bytes[list.len..])?);
            }
        }
        let end = start + list.end();
        let version = self.block.number() | version() & MARKS;
        let has_ids = has_new_ids || outer_has_ids;
        let next = Self::top(&mut self.frames, self.depth).1;
        next.set(self.last + 1, version, ids, has_ids, start..end, state);
        Some(self.enter_next(version))
    }

    /// Adds a frame with a span and the labels in force.
    #[inline]
    pub(super) fn push_span(&mut self, span: &Begun) -> Entered {
        match self.frames.get_mut(self.depth..) {
            Some([outer, next, ..]) if outer.start == outer.end => {
                let (version, labels) = (inherit(span.number), outer.start..outer.end);
                let (ids, state) = (Some(span.ids), span.state.clone());
                next.set(self.last + 1, version, ids, false, labels, state);
                self.enter_next(version)
            }
            _ => self.push_span_below_labels(span),
        }
    }

    /// [`push_span`](Self::push_span) if there are labels, or no free frame.
    #[cold]
    #[inline(never)]
    fn push_span_below_labels(&mut self, span: &Begun) -> Entered {
        let outer = Self::top(&mut self.frames, self.depth).0;
        let (mut start, mut end, has_ids) = (outer.start, outer.end, outer.has_ids);
        let (outer, number) = (outer.version, inherit(span.number));
        let (mut version, mut below) = (number, BelowLabels::default());
        if start < end {
            // The span's number stands for the span without labels.
            version = self.block.number() | version & MARKS;
            if has_ids {
                (start, end) = self.without_ids(start..end);
            } else {
                below = BelowLabels { version, span: number, outer };
            }
        }
        let (ids, state) = (Some(span.ids), span.state.clone());
        let next = Self::top(&mut self.frames, self.depth).1;
        next.below = below;
        next.set(self.last + 1, version, ids, false, start..end, state);
        self.enter_next(version)
    }

    /// Copies labels but for ids. Returns where they are.
    #[cold]
    fn without_ids(&mut self, labels: Range<usize>) -> (usize, usize) {
        let start = self.used();
        let (outers, mut list) = self.next_list(labels.len());
        let fits = list.inherit(&outers[labels], |label| is_id(label.kind));
        debug_assert!(fits.is_some(), "there is room for all of them");
        (start, start + list.end())
    }

    pub(super) fn push_snapshot(&mut self, snapshot: &Snapshot) -> Entered {
        let Snapshot { version, ids, has_ids, ref labels, ref state } = *snapshot;
        let version = inherit(version);
        let labels = labels.as_deref().unwrap_or_default();
        let start = self.used();
        let end = start + labels.len();
        self.next_list(labels.len()).1.bytes.copy_from_slice(labels);
        let next = Self::top(&mut self.frames, self.depth).1;
        next.set(self.last + 1, version, ids, has_ids, start..end, state.clone());
        self.enter_next(version)
    }
}
