//! The current context of a thread, for the rows of events.

use nettrace_event::Label;

use super::{FRAMES, Here, Ids, LAST, decode, id_list, version};
use crate::sync::{Ordering, compiler_fence};

/// What is in force on a thread, for its rows.
#[derive(Clone, Copy, Debug)]
pub enum InForce<'a> {
    /// A span, and labels besides: a label list of version 6, which may be empty.
    Span(&'a Ids, &'a [u8]),
    /// Such a list alone. If it is empty, nothing is in force.
    Labels(&'a [u8]),
}

/// Calls `f` with the span in force and the version, if nothing else is in force. Returns `None`
/// if something else is, or if that cannot be read: see [`with_current`].
#[inline(always)]
pub fn with_span<R>(f: impl FnOnce(&Ids, u64) -> R) -> Option<R> {
    let here = Here::get()?;
    let frames = here.frames_to_read()?;
    let frame = frames.innermost()?;
    let result = match &frame.ids {
        Some(ids) if frame.start == frame.end => Some(f(ids, frame.version)),
        _ => None,
    };
    compiler_fence(Ordering::SeqCst);
    result
}

/// Calls `f` with the version of what is in force, and with what it is. Returns `None` if it cannot
/// be read: a signal handler interrupted a change of it.
#[inline]
pub fn with_current<R>(f: impl FnOnce(u64, InForce<'_>) -> R) -> Option<R> {
    let mut f = Some(f);
    let called = FRAMES.try_with(|frames| {
        let frames = frames.try_borrow().ok()?;
        compiler_fence(Ordering::SeqCst);
        let (version, current) = match frames.innermost() {
            None => (0, InForce::Labels(&[])),
            Some(frame) => {
                let labels = frames.bytes.get(frame.start..frame.end).unwrap_or_default();
                let current = match &frame.ids {
                    Some(ids) if !frame.has_ids => InForce::Span(ids, labels),
                    _ => InForce::Labels(labels),
                };
                (frame.version, current)
            }
        };
        let result = f.take()?(version, current);
        compiler_fence(Ordering::SeqCst);
        Some(result)
    });
    called.unwrap_or_else(|_| {
        // The frames are gone.
        let ids = LAST.get();
        let current = ids.as_ref().map_or(InForce::Labels(&[]), |ids| InForce::Span(ids, &[]));
        Some(f.take()?(version(), current))
    })
}

/// The activity in force, and the one that it was started from.
#[must_use]
pub fn activity() -> (Option<[u8; 16]>, Option<[u8; 16]>) {
    if version() == 0 {
        return (None, None);
    }
    let activity = |labels: &[u8]| {
        let (mut id, mut related) = (None, None);
        for label in decode(labels) {
            match label {
                Label::ActivityId(bytes) => id = Some(bytes),
                Label::RelatedActivityId(bytes) => related = Some(bytes),
                _ => {}
            }
        }
        (id, related)
    };
    let of_current = with_current(|_, current| match current {
        InForce::Span(ids, _) => activity(id_list(*ids).as_bytes()),
        InForce::Labels(labels) => activity(labels),
    });
    of_current.unwrap_or_default()
}
