//! Label lists, as they are encoded.

use nettrace_event::label::{self, LAST_LABEL, Label, LabelBytes, kind};

/// A label list that is being made.
pub(super) struct List<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) len: usize,
    /// Where the last label begins.
    pub(super) last: usize,
}

impl List<'_> {
    /// Adds the labels of another list, but for some. Returns `None` if there are too many.
    #[inline(never)]
    pub(super) fn inherit(
        &mut self,
        mut list: &[u8],
        is_left_out: impl Fn(&LabelBytes<'_>) -> bool,
    ) -> Option<()> {
        while let Some(label) = label::split_label(list) {
            if !is_left_out(&label) {
                let to = self.bytes.get_mut(self.len..self.len + label.len)?;
                to.copy_from_slice(&list[..label.len]);
                to[0] &= !LAST_LABEL;
                (self.last, self.len) = (self.len, self.len + label.len);
            }
            list = &list[label.len..];
        }
        Some(())
    }

    /// Marks the last label. Returns the list's length.
    pub(super) fn end(self) -> usize {
        if self.len > 0 {
            self.bytes[self.last] |= LAST_LABEL;
        }
        self.len
    }
}

/// Whether `new` replaces `old`.
pub(super) fn replaces(new: &Label<'_>, old: &Label<'_>) -> bool {
    match (new, old) {
        (Label::Str(new, _) | Label::Int(new, _), Label::Str(old, _) | Label::Int(old, _)) => {
            new == old
        }
        _ => new.kind() == old.kind(),
    }
}

/// [`replaces`] for a label that is encoded.
pub(super) fn replaces_encoded(new: &Label<'_>, old: &LabelBytes<'_>) -> bool {
    match *new {
        Label::Str(key, _) | Label::Int(key, _) => {
            matches!(old.kind, kind::STR | kind::INT) && old.key == key.as_bytes()
        }
        _ => old.kind == new.kind(),
    }
}

/// Whether a kind is one of the ids that a span has.
pub(super) fn is_id(kind: u8) -> bool {
    kind <= kind::SPAN_ID
}

/// The labels of an encoded list.
pub fn decode(mut bytes: &[u8]) -> impl Iterator<Item = Label<'_>> {
    std::iter::from_fn(move || {
        let (label, len) = label::read_label(bytes)?;
        bytes = &bytes[len..];
        Some(label)
    })
}
