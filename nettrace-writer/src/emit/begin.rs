//! The first steps of an event, which all of its ways have in common.

use crate::{
    protocol::{
        barrier, clock,
        record::{MODE_FENCE, MODE_MONOTONIC, Record},
    },
    sync::{Ordering, fence},
};

/// How an attempt to record an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The event is recorded or counted.
    Done,
    /// The session is over, and the event is not counted.
    Closed,
}

/// Comes between the load of a type's word and the loads of what was stored before a listener's bit
/// was set: what registration has found out about the type, the session. Pairs with the release in
/// `registry::listen`. On AArch64 it is an instruction, which waits for all loads before it.
#[inline]
pub(super) fn see_listener() {
    fence(Ordering::Acquire);
}

/// Announces an event, and executes a fence if the record's mode asks for one.
pub(super) fn begin(record: &Record) -> bool {
    let begun = record.begin();
    if begun && record.mode() & MODE_FENCE != 0 {
        full_fence();
    }
    begun
}

/// The fence of an owner that executes its own. It also keeps the clock from being read early. (On
/// AArch64 the clock may be read early in spite of it. There the floor bounds the time: see
/// [`record`](crate::protocol::record).)
pub(super) fn full_fence() {
    barrier::full();
    clock::ordered();
}

pub(super) fn now(mode: u32) -> u64 {
    if mode & MODE_MONOTONIC != 0 { clock::monotonic() } else { clock::counter() }
}

/// The counter at an event with the time `now`, for [`encode`](super::in_place::encode): 0 if that
/// time is of another clock.
pub(super) fn counter_at(record: &Record, now: u64) -> u64 {
    if record.mode() & MODE_MONOTONIC != 0 { 0 } else { now }
}
