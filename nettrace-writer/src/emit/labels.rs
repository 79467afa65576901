//! The labels of the next row: written as an escape into the chunk when they have changed.

use nettrace_event::payload::{Buffer as _, SliceBuffer};
use nettrace_span::frames::{self, IdBytes, Ids, InForce};

use crate::{
    protocol::{
        record::Record,
        room::Room,
        row::{ESCAPE_HEAD, Escape},
    },
    shared::buffer::ThreadBuffer,
};

/// Makes the labels in force those of the next row: writes them into the chunk if they have changed
/// since the last row. Returns `false` if the slow path must do so: the chunk has no row yet or
/// is asked for, or the row must tell of more than labels. Busy owner only.
///
/// Like the fast path, this has no full fence. A record that has a chunk does not need one: if the
/// flusher asks for the chunk from now on, it waits for the event.
#[inline(always)]
pub(super) fn relabel(buffer: &ThreadBuffer) -> bool {
    frames::version() == buffer.record.labels() || write_labels(buffer)
}

#[inline(always)]
fn write_labels(buffer: &ThreadBuffer) -> bool {
    let record = &buffer.record;
    let written = frames::with_span(|ids, version| write_ids(record, ids, version));
    written.unwrap_or_else(|| write_list(record))
}

/// [`write_labels`] for anything but a span without labels.
#[inline(never)]
fn write_list(record: &Record) -> bool {
    let written = frames::with_current(|version, current| {
        let goes_on = goes_on(record);
        let Some(room) = Room::to_limit(record) else { return false };
        debug_assert!(goes_on);
        let mut out = SliceBuffer::new(room.bytes());
        in_force(&mut out, &current, record.last_escapes());
        let Some(len) = out.finish().size() else { return false };
        record.add_labels(room.after(len), version);
        true
    });
    written == Some(true)
}

/// Writes an escape for a span without labels, if it fits.
#[inline(always)]
pub(super) fn write_ids(record: &Record, ids: &Ids, version: u64) -> bool {
    let goes_on = goes_on(record);
    let Some(room) = Room::for_next(record, SPAN_LEN) else { return false };
    debug_assert!(goes_on);
    span(&mut SliceBuffer::new(room.bytes()), ids, record.last_escapes());
    record.add_labels(room.after(SPAN_LEN), version);
    true
}

/// Whether the chunk has a row, and the next row need not tell of numbers without a row. An escape
/// for labels must not come otherwise. Where `limit` is an address, that is so: see
/// [`Record::goes_on`]. This is asked before `limit` is read, because a signal handler that
/// interrupts the event may leave a note.
#[inline]
fn goes_on(record: &Record) -> bool {
    !cfg!(debug_assertions) || record.goes_on()
}

/// Writes an escape. `previous` is where the escapes of the previous row with escapes begin: see
/// [`EscapeBytes::previous_at`](crate::protocol::row::EscapeBytes::previous_at).
#[inline]
pub(super) fn escape(out: &mut SliceBuffer<'_>, kind: Escape, bytes: &[u8], previous: u32) {
    out.put(&kind.head(bytes.len(), previous));
    out.put(bytes);
}

/// How many bytes the escape for a span without labels takes.
pub(super) const SPAN_LEN: usize = ESCAPE_HEAD + size_of::<IdBytes>();

/// Writes the escape for a span without labels.
#[inline]
pub(super) fn span(out: &mut SliceBuffer<'_>, ids: &Ids, previous: u32) {
    // In one piece, so that there is one check whether it fits.
    let space = out.space(SPAN_LEN).and_then(<[u8]>::split_first_chunk_mut);
    if let Some((head, bytes)) = space {
        *head = Escape::Span.head(size_of::<IdBytes>(), previous);
        if let Some(bytes) = bytes.first_chunk_mut() {
            ids.write(bytes);
        }
    }
}

/// Writes the escape for what is in force on the thread.
#[inline]
pub(super) fn in_force(out: &mut SliceBuffer<'_>, current: &InForce<'_>, previous: u32) {
    match *current {
        InForce::Span(ids, []) => span(out, ids, previous),
        InForce::Span(ids, labels) => {
            let mut bytes = [0; size_of::<IdBytes>()];
            ids.write(&mut bytes);
            out.put(&Escape::Span.head(labels.len() + bytes.len(), previous));
            out.put(labels);
            out.put(&bytes);
        }
        InForce::Labels(labels) => escape(out, Escape::Labels, labels, previous),
    }
}
