//! Usual spans: their code and that of their events, in one function for the begin and one for the
//! end. See `nettrace_span`'s module of that name.

use std::num::NonZero;

use nettrace_event::{AnyEvent, EventType, encode_in_line};
use nettrace_span::{
    Elapsed, Outcome,
    backend::{Open, PlainStop, Until, UsualSpans, begin_usual_with, end_usual_with},
    frames::Ids,
};

use super::{
    begin::see_listener,
    in_place::{place_now, place_now_with},
    labels::write_ids,
    record, record_or_move_on,
};
use crate::shared::local;

pub(super) static USUAL_SPANS: UsualSpans = UsualSpans { begin, end };

fn begin(open: &mut Open, start: &dyn AnyEvent, ty: &'static EventType, until: Until) {
    begin_usual_with(open, start, ty, until, record_start);
}

/// Records the Start of a span that has just come into force, without labels. Returns the counter
/// then. `None`: nothing is recorded, because the event does not go to the buffer that the thread
/// used last, or does not fit there.
#[inline]
fn record_start(
    start: &dyn AnyEvent,
    ty: &'static EventType,
    ids: &Ids,
    version: u64,
) -> Option<u64> {
    let buffer = local::home(NonZero::new(ty.enabled())?)?;
    see_listener();
    let record = &buffer.record;
    if !record.begin_usual() {
        return None;
    }
    if write_ids(record, ids, version) {
        // Its labels are those in force now.
        local::make_current(buffer);
        if let Some(now) = place_now(buffer, start, ty) {
            return Some(now);
        }
    }
    record.end();
    None
}

fn end(
    open: &mut Open,
    outcome: Option<Outcome>,
    ty: &'static EventType,
    polls: u32,
    busy: Elapsed,
) {
    end_usual_with(open, outcome, ty, polls, busy, record_stop);
}

/// Records a Stop, whose encoding is in line here.
#[inline]
fn record_stop(stop: &PlainStop, ty: &'static EventType) {
    // If nobody listens any more, `record` finds that out.
    let Some(buffer) = local::begin_current(ty) else { return record(stop, ty) };
    let encode = |room: &mut [u8], counter| encode_in_line(stop, room, counter);
    if place_now_with(buffer, ty, encode).is_none() {
        record_or_move_on(buffer, stop, ty);
    }
}
