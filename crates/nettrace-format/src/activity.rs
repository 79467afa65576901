//! The activity ids of spans.

use nettrace_event::trace_context::ActivityId;

/// The span that an activity id stands for, given in the byte order of RFC 4122. `None` for every
/// other activity id.
pub(crate) fn span_id(activity: &[u8; 16]) -> Option<u64> {
    Some(ActivityId::from_bytes(*activity).span_id()?.to_u64())
}
