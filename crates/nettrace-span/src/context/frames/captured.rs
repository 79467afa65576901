//! The capture of a test that a context belongs to: bits of its version, which are inherited as
//! [`SAMPLED_OUT`](super::SAMPLED_OUT) is.
//!
//! Spans, labels, contexts, futures and the tables of bridges have a version or the number of a
//! span already. So nothing needs room for a capture, and nothing of it is in any trace. Without
//! the feature `testing` there are no such bits, and no code for them.

#[cfg(feature = "testing")]
use super::{Entered, FRAMES, Ids, Snapshot, enter_snapshot, snapshot, unique};
use super::{SAMPLED_OUT, version};

/// Where the number of a capture is. Below it is the number that a version is made from: a process
/// would have to begin a million spans a second for twelve days to use up all of those.
const SHIFT: u32 = 40;

/// The bits of a version that name a capture. The bit above them is `SAMPLED_OUT`.
pub(crate) const CAPTURED: u64 =
    if cfg!(feature = "testing") { (1 << 63) - (1 << SHIFT) } else { 0 };

/// What a version, or the number of a span, has besides a number that no other has.
pub const MARKS: u64 = SAMPLED_OUT | CAPTURED;

/// The version, or the number of a span, with a capture: its own, or else that of the thread.
#[inline]
#[must_use]
pub fn inherit(own: u64) -> u64 {
    if CAPTURED == 0 || is_captured(own) { own } else { own | version() & CAPTURED }
}

/// Whether a version, or the number of a span, names a capture.
#[inline]
pub(super) fn is_captured(own: u64) -> bool {
    CAPTURED != 0 && (own & !SAMPLED_OUT) >> SHIFT != 0
}

/// The highest number of a capture. They begin at 1.
#[cfg(feature = "testing")]
pub const MAX_CAPTURE: u32 = (CAPTURED >> SHIFT) as u32;

/// The capture that what is in force belongs to. 0: none.
#[cfg(feature = "testing")]
#[must_use]
pub fn captured() -> u32 {
    ((version() & CAPTURED) >> SHIFT) as u32
}

/// Puts the same in force as is in force, but as that of a capture.
#[cfg(feature = "testing")]
#[must_use]
pub fn enter_capture(number: u32) -> Entered {
    let current = snapshot();
    let bits = current.version & SAMPLED_OUT | u64::from(number) << SHIFT;
    enter_snapshot(&Snapshot { version: unique() | bits, ..current })
}

/// The ids of the span in force.
#[cfg(feature = "testing")]
#[must_use]
pub fn span_ids() -> Option<Ids> {
    FRAMES.try_with(|frames| frames.try_borrow().ok()?.innermost()?.ids).ok().flatten()
}
