//! An event in the general case: several sessions, a thread's first event, a given origin.

use std::cell::Cell;

use nettrace_event::{AnyEvent, EventType, Level, NOT_REGISTERED, SESSION_BITS};
use nettrace_span::frames;

#[cfg(feature = "user_events")]
use super::tracepoint;
use super::{
    begin::{Outcome, begin, counter_at, now, see_listener},
    in_place::{place, unwound},
    labels::relabel,
    origin::{NO_ORIGIN, Origin},
    sampled_out::leave_out_untyped,
    slow::{lose, record_slowly},
};
use crate::shared::{
    buffer::ThreadBuffer,
    local::{self, Attached},
    locks, sessions,
};

const SESSION_MASK: u32 = (1 << SESSION_BITS) - 1;

/// Records an event in the general case: several sessions, a thread's first event, a given origin.
#[cold]
#[inline(never)]
pub(super) fn emit_somewhere(
    event: &dyn AnyEvent,
    ty: &'static EventType,
    mut word: u32,
    origin: &Origin<'_>,
) {
    if word == NOT_REGISTERED {
        // The word may be old: another thread may have registered the type meanwhile.
        if !ty.is_settled() && !sessions::register(ty) {
            return;
        }
        word = ty.enabled();
    }
    see_listener();
    let rest = Remaining(Cell::new(word & SESSION_MASK));
    #[cfg(feature = "user_events")]
    tracepoint::write(event, ty, word);
    #[cfg(feature = "testing")]
    super::captured::write(event, ty, word);
    while let Some(slot) = rest.next() {
        // Read again for each slot: encoding a row for another session may have run code that ended
        // this slot's session and began one that does not want the type.
        let is_wanted = || {
            let is_wanted = ty.enabled() & (1 << slot) != 0;
            see_listener();
            is_wanted
        };
        if let Some(buffer) = local::buffer(slot).filter(|_| is_wanted()) {
            if attempt_or_lose(buffer, event, ty, origin) == Outcome::Done {
                continue;
            }
            // The buffer belongs to a session that is over. Another session may have the slot now.
            local::detach(slot, buffer);
        }
        let (attached, has_waited) = attach(slot);
        if !has_waited && !is_wanted() {
            // The word was read before the slot's last session ended. The session that has the slot
            // now does not want the type.
            continue;
        }
        match attached {
            Attached::ForGood => {
                if let Some(buffer) = local::buffer(slot) {
                    attempt_or_lose(buffer, event, ty, origin);
                }
            }
            Attached::Once(buffer) => {
                attempt_or_lose(buffer.buffer(), event, ty, origin);
            }
            Attached::No | Attached::Full(_) => {}
        }
    }
}

/// Records an event in those of the sessions that listen to it whose bits are given.
pub(crate) fn emit_to(event: &dyn AnyEvent, ty: &'static EventType, sessions: u32) {
    if ty.is_settled() || sessions::register(ty) {
        let word = ty.enabled() & sessions & SESSION_MASK;
        if word != 0 {
            emit_somewhere(event, ty, word, &NO_ORIGIN);
        }
    }
}

/// Counts an event that has no type as lost in each session that would record it. Returns whether
/// there is one.
pub(crate) fn lose_untyped(provider: &str, level: Level, keywords: u64) -> bool {
    let Some(mut sessions) = sessions::wanting(provider, level, keywords) else {
        sessions::count_everywhere(1);
        return true;
    };
    if frames::is_sampled_out() && level > Level::Error {
        leave_out_untyped(sessions);
        return false;
    }
    let is_lost = sessions != 0;
    while sessions != 0 {
        let slot = sessions.trailing_zeros();
        sessions &= sessions - 1;
        lose_in(slot);
    }
    is_lost
}

/// Counts an event as lost in the session that has a slot.
fn lose_in(slot: u32) {
    if let Some(buffer) = local::buffer(slot) {
        if lose(buffer) == Outcome::Done {
            return;
        }
        // Of a session that is over, as in `emit_somewhere`.
        local::detach(slot, buffer);
    }
    match attach(slot).0 {
        Attached::ForGood => {
            if let Some(buffer) = local::buffer(slot) {
                lose(buffer);
            }
        }
        Attached::Once(buffer) => {
            lose(buffer.buffer());
        }
        Attached::No | Attached::Full(_) => {}
    }
}

/// Gets a buffer for the session in a slot. Also returns whether the event has waited for one,
/// which it does if the session blocks.
fn attach(slot: u32) -> (Attached, bool) {
    let mut attached = local::attach(slot, sessions::session, true);
    let mut has_waited = false;
    while let Attached::Full(session) = attached {
        has_waited = true;
        locks::holding_locks(|| session.wait_for_room());
        attached = local::attach_after_wait(&session);
    }
    (attached, has_waited)
}

/// The slots that an event has yet to go to. If its encoding panics for one session, the event is
/// counted in the others as well.
struct Remaining(Cell<u32>);

impl Remaining {
    fn next(&self) -> Option<u32> {
        let slots = self.0.get();
        self.0.set(slots & slots.wrapping_sub(1));
        (slots != 0).then(|| slots.trailing_zeros())
    }
}

impl Drop for Remaining {
    fn drop(&mut self) {
        while let Some(slot) = self.next() {
            let count = |buffer: &ThreadBuffer| {
                if begin(&buffer.record) {
                    unwound(buffer);
                } else {
                    buffer.record.refuse_nested();
                }
            };
            let attached = match local::buffer(slot) {
                Some(_) => Attached::ForGood,
                None => local::attach(slot, sessions::session, false),
            };
            match attached {
                Attached::Once(buffer) => count(buffer.buffer()),
                _ => local::buffer(slot).into_iter().for_each(count),
            }
        }
    }
}

/// Records into one buffer, or counts the event as lost if the buffer's session cannot describe its
/// type. The word of such a type never names one session alone, so its events come here.
fn attempt_or_lose(
    buffer: &ThreadBuffer,
    event: &dyn AnyEvent,
    ty: &'static EventType,
    origin: &Origin<'_>,
) -> Outcome {
    if ty.lost() & buffer.record.word != 0 {
        return lose(buffer);
    }
    attempt(buffer, event, ty, origin)
}

/// Records into one buffer, with a given origin or its thread's.
pub(super) fn attempt(
    buffer: &ThreadBuffer,
    event: &dyn AnyEvent,
    ty: &'static EventType,
    origin: &Origin<'_>,
) -> Outcome {
    let record = &buffer.record;
    if !begin(record) {
        record.refuse_nested();
        return Outcome::Done;
    }
    if origin.is_empty() && relabel(buffer) {
        let now = now(record.mode());
        if place(buffer, event, ty, now, counter_at(record, now)) {
            record.end();
            return Outcome::Done;
        }
    }
    record_slowly(buffer, event, ty, origin)
}
