//! The ids of a span, and the label list that they make.

use std::sync::Arc;

use nettrace_event::{
    label::{
        LAST_LABEL, Label,
        kind::{ACTIVITY_ID, RELATED_ACTIVITY_ID, SPAN_ID, TRACE_ID},
    },
    trace_context::{ActivityId, SpanId, TraceContext, TraceFlags, TraceId, TraceState},
};

use super::{decode, ids};

/// The most bytes that the ids of a span take in a label list: two activity ids, a trace id and a
/// span id, each with its kind.
pub(super) const MAX_ID_BYTES: usize = 3 * 17 + 9;

/// The ids of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The trace id's halves, in the order in which a chunk has them.
    pub(super) trace: [u64; 2],
    /// The span.
    pub span: SpanId,
    /// The parent. In a root, the span that it follows from.
    pub related: Option<SpanId>,
    /// The flags of `traceparent`, and [`OPEN`] or [`OUT`].
    pub(super) flags: u64,
}

/// Bit of [`Ids::flags`]: the span is of another process. Nobody here has decided whether its tree
/// is recorded.
pub(super) const OPEN: u64 = 1 << 8;
/// Bit of [`Ids::flags`]: the span's tree is sampled out. The ids are those of its root or of the
/// root's caller.
pub(super) const OUT: u64 = 1 << 9;

/// Bit of the version of what is in force, and of the number of a span: it is sampled out. Numbers
/// are below it.
pub const SAMPLED_OUT: u64 = 1 << 63;

/// The ids of a span as a chunk has them: the trace, the span, and the related span or 0.
pub type IdBytes = [u8; 32];

impl Ids {
    /// The ids of a span of this process, which is recorded. It has no parent.
    #[must_use]
    pub fn new(trace: TraceId, span: SpanId, flags: TraceFlags) -> Self {
        Self { trace: halves(trace), span, related: None, flags: flags.bits().into() }
    }

    /// The ids of a span of another process.
    pub(crate) fn of_caller(trace: TraceId, span: SpanId, flags: TraceFlags) -> Self {
        let ids = Self::new(trace, span, flags);
        Self { flags: ids.flags | OPEN, ..ids }
    }

    /// Whether this is not simply the span of a tree that is recorded.
    #[inline]
    pub(super) fn is_marked(&self) -> bool {
        self.flags > 0xff
    }

    /// [`SAMPLED_OUT`] or 0.
    pub(super) fn sampled_out(&self) -> u64 {
        if self.flags & OUT != 0 { SAMPLED_OUT } else { 0 }
    }

    /// The trace.
    #[must_use]
    pub fn trace(&self) -> TraceId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.trace[0].to_le_bytes());
        bytes[8..].copy_from_slice(&self.trace[1].to_le_bytes());
        TraceId::from_bytes(bytes).unwrap_or_else(|| unreachable!("it was one"))
    }

    pub(crate) fn flags(&self) -> TraceFlags {
        TraceFlags::from_bits(self.flags as u8)
    }

    /// The span as another service needs it.
    pub(crate) fn trace_context(&self, state: Option<Arc<TraceState>>) -> TraceContext {
        TraceContext::new(self.trace(), self.span, self.flags()).with_shared_state(state)
    }

    /// What a chunk has of them, and the flags.
    #[inline]
    pub fn to_words(self) -> [u64; 5] {
        let [upper, lower] = self.trace;
        let related = self.related.map_or(0, SpanId::to_u64);
        [upper, lower, self.span.to_u64(), related, self.flags]
    }

    /// From their [words](Self::to_words). `None` if no ids have these words.
    #[inline]
    #[must_use]
    pub fn from_words([upper, lower, span, related, flags]: [u64; 5]) -> Option<Self> {
        let span = SpanId::from_u64(span).filter(|_| upper | lower != 0)?;
        Some(Self { trace: [upper, lower], span, related: SpanId::from_u64(related), flags })
    }

    /// Writes the ids as a chunk has them.
    #[inline]
    pub fn write(&self, bytes: &mut IdBytes) {
        bytes[..8].copy_from_slice(&self.trace[0].to_le_bytes());
        bytes[8..16].copy_from_slice(&self.trace[1].to_le_bytes());
        bytes[16..24].copy_from_slice(&self.span.to_u64().to_le_bytes());
        bytes[24..].copy_from_slice(&self.related.map_or(0, SpanId::to_u64).to_le_bytes());
    }
}

#[inline]
fn halves(trace: TraceId) -> [u64; 2] {
    let bytes = u128::from_le_bytes(trace.to_bytes());
    [bytes as u64, (bytes >> 64) as u64]
}

/// The labels that a span's list need not have, and how many bytes they take. With
/// `Ids::Activities` of `nettrace-writer` it does not have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implied {
    /// It has all.
    Nothing = 0,
    /// The span id, which the activity id contains.
    Span = 9,
    /// The trace id as well, which the list of the parent has.
    SpanAndTrace = 9 + 17,
}

/// The label list of a span with these ids: the activity, the activity of the parent if there is
/// one, the trace and the span.
#[derive(Clone, Debug)]
pub struct IdList {
    bytes: [u8; MAX_ID_BYTES],
    len: usize,
}

impl IdList {
    /// The list, in which the last label is not marked.
    #[inline]
    #[must_use]
    pub fn new(ids: &IdBytes) -> Self {
        let mut list = Self { bytes: [0; MAX_ID_BYTES], len: 0 };
        with_list(ids, 0, |bytes| {
            list.len = bytes.len();
            list.bytes[..bytes.len()].copy_from_slice(bytes);
        });
        list
    }

    /// Appends the list without some of its labels, in which the last one is marked as such.
    #[inline(always)]
    pub fn append_ended(ids: &IdBytes, implied: Implied, out: &mut Vec<u8>) {
        with_list(ids, LAST_LABEL, |bytes| {
            // All of them, so that their number is constant.
            let end = out.len() + bytes.len() - implied as usize;
            out.extend_from_slice(bytes);
            // Those that are implied are the last ones.
            if implied != Implied::Nothing {
                out.truncate(end);
                out[end - 17] |= LAST_LABEL;
            }
        });
    }

    /// Appends the list without some of its labels, in which the last label is not marked.
    pub fn append(ids: &IdBytes, implied: Implied, out: &mut Vec<u8>) {
        let list = Self::new(ids);
        out.extend_from_slice(&list.bytes[..list.len - implied as usize]);
    }

    /// The list's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Calls `f` with the list. It has one of two lengths. There is code for each, in which the
/// compiler knows where each label is.
#[inline(always)]
fn with_list(ids: &IdBytes, mark: u8, mut f: impl FnMut(&[u8])) {
    let activity = |at: usize| {
        let bytes = ids[at..at + 8].first_chunk().expect("eight bytes");
        let span = SpanId::from_u64(u64::from_le_bytes(*bytes))?;
        Some(ActivityId::from_span_id(span, ids::process()).to_bytes_le())
    };
    let own = activity(16).unwrap_or_default();
    if let Some(parent) = activity(24) {
        let mut bytes = list::<MAX_ID_BYTES>(ids, &own, mark);
        bytes[17] = RELATED_ACTIVITY_ID;
        bytes[18..34].copy_from_slice(&parent);
        f(&bytes);
    } else {
        f(&list::<{ MAX_ID_BYTES - 17 }>(ids, &own, mark));
    }
}

/// The list of a span, with room for the activity of the parent.
#[inline(always)]
fn list<const LEN: usize>(ids: &IdBytes, activity: &[u8; 16], mark: u8) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[0] = ACTIVITY_ID;
    bytes[1..17].copy_from_slice(activity);
    bytes[LEN - 26] = TRACE_ID;
    bytes[LEN - 25..LEN - 9].copy_from_slice(&ids[..16]);
    bytes[LEN - 9] = SPAN_ID | mark;
    bytes[LEN - 8..].copy_from_slice(&ids[16..24]);
    bytes
}

/// The labels of a span with these ids.
pub fn labels<'a>(ids: &IdBytes) -> impl Iterator<Item = Label<'a>> + use<'a> {
    let list = IdList::new(ids);
    let owned = |label: Label<'_>| match label {
        Label::ActivityId(id) => Some(Label::ActivityId(id)),
        Label::RelatedActivityId(id) => Some(Label::RelatedActivityId(id)),
        Label::TraceId(id) => Some(Label::TraceId(id)),
        Label::SpanId(id) => Some(Label::SpanId(id)),
        _ => None,
    };
    let mut labels = [None; 4];
    labels.iter_mut().zip(decode(list.as_bytes())).for_each(|(to, label)| *to = owned(label));
    labels.into_iter().flatten()
}

/// The list of ids, whose last label is not marked.
#[cold]
#[inline(never)]
pub(super) fn id_list(ids: Ids) -> IdList {
    let mut bytes = [0; 32];
    ids.write(&mut bytes);
    IdList::new(&bytes)
}
