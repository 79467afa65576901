//! What each format implements.

use alloc::vec::Vec;
use core::fmt::Debug;

use nettrace_event::EventSchema;

#[cfg(doc)]
use crate::Stream;
use crate::{
    content::{Label, ThreadInfo, TraceInfo},
    error::FormatError,
    payload::Refusal,
    stream::{LeftOut, Row},
    v6::{RowChange, ThreadSequence},
};

/// Writes one stream in one format. [`Stream`] documents each function; this trait says only what
/// differs.
///
/// Callers speak in the terms of version 6: threads are defined and removed, the numbers of a
/// thread count its attempts from 1, and stacks and label lists have ids. An implementation tells
/// the same facts in the way of its format. What the format cannot store it counts in the
/// [`LeftOut`] that it is handed.
///
/// The default implementations are for a format that does not need the function.
pub(crate) trait Writer: Debug + Send + Sync {
    fn begin(
        &mut self,
        info: &TraceInfo<'_>,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    fn define(
        &mut self,
        types: &[(u32, &'static EventSchema)],
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    fn thread(
        &mut self,
        thread: &ThreadInfo<'_>,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    fn subject(&mut self, _os_id: u64, _name: &str, _left_out: &mut LeftOut) {}

    fn remove_threads(
        &mut self,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    fn stacks(
        &mut self,
        _first_id: u32,
        _stacks: &[&[u64]],
        _pointer_size: u32,
        _out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        Ok(())
    }

    fn labels(
        &mut self,
        _id: u32,
        _labels: &[Label<'_>],
        _out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        Ok(())
    }

    fn label_rows(
        &mut self,
        _first_id: u32,
        _count: u32,
        _rows: &[u8],
        _out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        Ok(())
    }

    /// [`Stream::row`] counts refused rows.
    fn row(
        &mut self,
        row: &Row<'_>,
        is_first: bool,
        left_out: &mut LeftOut,
        out: &mut Vec<u8>,
    ) -> Result<u32, Refusal>;

    fn takes_rows_as_recorded(&self, _thread: u64, _sequence: u32) -> bool {
        false
    }

    fn rows_as_recorded(
        &mut self,
        _thread: u64,
        _labels: &[Label<'_>],
        _rows: u32,
        _left_out: &mut LeftOut,
    ) {
    }

    fn changes_rows(&self) -> bool {
        false
    }

    fn change_row(&self, _row: &[u8], _change: &RowChange, _out: &mut Vec<u8>) -> Option<usize> {
        None
    }

    fn event_block(
        &mut self,
        _first_ts: u64,
        _last_ts: u64,
        _rows_len: usize,
        _out: &mut Vec<u8>,
    ) -> Result<&'static [u8], FormatError> {
        Ok(&[])
    }

    fn sequence_point(
        &mut self,
        timestamp: u64,
        threads: &[ThreadSequence],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    fn wants_point(&self) -> bool {
        false
    }

    fn keeps_numbers(&self) -> bool {
        false
    }

    fn last_point(&mut self, _timestamp: u64, _out: &mut Vec<u8>) -> Result<(), FormatError> {
        Ok(())
    }

    fn untold_losses(&self) -> u64 {
        0
    }

    fn closing_size(&self) -> u64;

    /// Returns a position that only [`rewind`](Self::rewind) can interpret.
    fn mark(&mut self) -> usize;

    fn rewind(&mut self, mark: usize);

    fn settle(&mut self) {}
}

/// Whether a type has descriptive parts that none of its events contains.
#[cfg(any(feature = "heph", feature = "v5"))]
pub(crate) fn has_descriptive_parts(schema: &EventSchema) -> bool {
    schema.message.is_some()
        || schema.description.is_some()
        || !schema.key_values.is_empty()
        || schema.provider.guid.is_some()
}
