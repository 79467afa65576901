//! Events in trees that sampling left out. They are counted, and get no number: readers would take
//! a number without a row for a loss.

use nettrace_event::{EventType, KERNEL_BIT, LOST_BIT, Level, NOT_REGISTERED, role::Role};

use crate::shared::{local, sessions, slot_counters::SampledOutCounts};

/// Leaves an event out, and counts it for everybody who listens. Returns `false` if the event is to
/// be recorded: it tells of an error, and not of a span.
#[cold]
#[inline(never)]
pub(crate) fn leave_out(ty: &'static EventType, mut word: u32) -> bool {
    let schema = ty.schema();
    let kind = match Role::of_schema(schema) {
        Role::Start | Role::Single => 0,
        // Its span is counted.
        Role::Stop | Role::Resume | Role::Suspend => return true,
        Role::Inside if schema.level <= Level::Error => return false,
        Role::Inside => 1,
    };
    if word == NOT_REGISTERED {
        // As for an event that is recorded.
        if !ty.is_settled() && !sessions::register(ty) {
            return true;
        }
        word = ty.enabled();
    }
    count(word & !(1 << LOST_BIT), kind);
    true
}

/// Counts an event that has no type, and is no part of a span, as left out of these sessions.
pub(super) fn leave_out_untyped(sessions: u32) {
    count(sessions, 1);
}

fn count(mut word: u32, kind: usize) {
    while word != 0 {
        let slot = word.trailing_zeros();
        word &= word - 1;
        let buffer = local::buffer(slot).filter(|_| slot != KERNEL_BIT);
        if !buffer.is_some_and(|buffer| buffer.record.leave_out(kind)) {
            SampledOutCounts::of(slot).add(kind);
        }
    }
}
