//! Writes rows that cannot stay as they were recorded.

use nettrace_format::{
    FormatError, Row,
    content::{Label, RowHeader},
};

use crate::{
    flusher::{
        output::Output,
        segment::{Segment, Step, gap_of},
        trace::{NO_PROCESSOR, Told, Trace, TraceThread, labels_of},
    },
    protocol::{
        pool::Pool,
        row::{Escape, EscapeBytes},
    },
};

/// What the next row has besides what its thread wrote in it.
struct Has<'a> {
    number: u64,
    list: Vec<Label<'a>>,
    labels: u32,
    addresses: Vec<u64>,
    stack: u32,
    about: u64,
}

impl Has<'_> {
    fn header(&self, row: RowHeader, thread: &TraceThread, sorted: bool) -> RowHeader {
        RowHeader {
            sequence: self.number.wrapping_sub(thread.said.base) as u32,
            capture_thread: thread.index,
            thread: self.about,
            processor: NO_PROCESSOR,
            stack: self.stack,
            labels: self.labels,
            sorted,
            ..row
        }
    }
}

impl Trace {
    /// Writes a segment row by row, because it has escapes or corrected times, or because the
    /// format has rows of its own.
    pub(super) fn rewritten(
        &mut self,
        thread: &mut TraceThread,
        segment: &Segment,
        mut sorted: bool,
        pool: &Pool,
        out: &mut Output,
    ) -> Result<Told, FormatError> {
        let mut rows = std::mem::take(&mut self.scratch);
        rows.clear();
        let mut walk = segment.walk(pool);
        let escape = thread.labels.escape();
        let mut has = Has {
            number: segment.number,
            list: labels_of(&escape),
            labels: self.labels(&escape, out)?,
            addresses: Vec::new(),
            stack: 0,
            about: thread.subject,
        };
        let (mut first_ts, mut last_ts, mut count) = (None, 0, 0);
        let mut told = Told { refused: 0, labels: None };
        let mut shown = 0;
        while let Some(step) = walk.next() {
            let (row, payload) = match step {
                Step::Row(row, payload) => (row, payload),
                Step::Escape(escape) => {
                    if matches!(escape.kind, Escape::Labels | Escape::Span) {
                        told.labels = Some((escape.kind, walk.at - escape.data.len()..walk.at));
                    }
                    self.read_escape(&escape, thread.subject, &mut has, out)?;
                    continue;
                }
            };
            let header = has.header(row, thread, sorted && first_ts.is_none());
            let row = Row { header, labels: &has.list, stack: &has.addresses, payload };
            if let Ok(hidden) = self.stream.row(&row, first_ts.is_none(), &mut rows) {
                first_ts.get_or_insert(header.timestamp);
                last_ts = header.timestamp;
                // If the format hides the gap before this row, the next row shows it.
                shown = has.number - u64::from(hidden);
                count += 1;
            } else {
                // IsSorted was true of this row alone: another thread's row may be older than the
                // next one here.
                sorted = false;
                told.refused += 1;
            }
            has.addresses.clear();
            (has.number, has.stack, has.about) = (has.number + 1, 0, thread.subject);
        }
        if let Some(first_ts) = first_ts {
            let begin = out.rows.len();
            out.rows.append(&rows);
            self.event_block((first_ts, last_ts), begin, (segment.chunk, &[]), out)?;
            self.end_rows(thread, shown, count, out);
        }
        self.scratch = rows;
        Ok(told)
    }

    /// Notes what an escape says of the next row, and defines what that refers to.
    fn read_escape<'a>(
        &mut self,
        escape: &EscapeBytes<'a>,
        subject: u64,
        has: &mut Has<'a>,
        out: &mut Output,
    ) -> Result<(), FormatError> {
        match escape.kind {
            Escape::Gap => has.number += gap_of(escape),
            Escape::Labels | Escape::Span => {
                has.list = labels_of(escape);
                has.labels = self.labels(escape, out)?;
            }
            Escape::Stack => {
                has.addresses.extend(addresses_of(escape.data));
                has.stack = self.stack(escape.data, out)?;
            }
            Escape::Thread => has.about = self.related(escape.data, out)?.unwrap_or(subject),
        }
        Ok(())
    }
}

/// The addresses in an escape.
pub(super) fn addresses_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
}
