//! Stages convert what a session writes, tell every loss once, and go back to a mark as if the
//! blocks after it had never come.

use crate::heph_support::{field, payload, schema};
use nettrace_event::{EventSchema, FieldSchema, FieldType, PayloadEncoder, StrEncoding};
use nettrace_format::{
    Format, Stage, Transcoder,
    redact::{Redact, Redaction},
    v6::{
        self, Label, RowEncoder, RowHeader, SequencePointFlags, SystemTimeParts, ThreadInfo,
        ThreadSequence, TraceInfo,
    },
};
use nettrace_reader::Reader;

const FIELDS: &[FieldSchema] = &[field("text", FieldType::Str(StrEncoding::Utf8))];
static SALE: EventSchema = schema("Sale", FIELDS);
static BEAT: EventSchema =
    EventSchema { message: Some("left out of the older formats"), ..schema("Beat", &[]) };

const INFO: TraceInfo<'static> = TraceInfo {
    sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_123),
    sync_ticks: 1_000,
    ticks_per_second: 100_000_000,
    pointer_size: 8,
    key_values: &[("ProcessId", "1"), ("nettrace.recording", "7"), ("customer", "Ada")],
};

/// A part of the stream, in a block of its own. Threads count from 0.
#[derive(Clone, Copy, Debug)]
enum Said {
    Type(u32, &'static EventSchema),
    /// With its OS id and name.
    Thread(u64, u64, &'static str),
    List(u32, &'static str),
    Stack(u32, u64),
    /// Rows of a thread with these numbers, a label list and a stack.
    Rows(u64, &'static [u32], u32, u32),
    /// A row about another thread.
    About(u64, u32, u64),
    /// A row that no format can store after conversion.
    Refused(u64, u32),
    Point(u64, &'static [(u64, u32)]),
    Gone(u64, u32),
}

use Said::{About, Gone, List, Point, Refused, Rows, Stack, Thread, Type};

fn index(thread: u64) -> u64 {
    (1 << 32) + thread
}

fn number(&(thread, sequence): &(u64, u32)) -> ThreadSequence {
    ThreadSequence { thread: index(thread), sequence }
}

/// A block of rows with these numbers.
fn rows(of: RowHeader, numbers: &[u32], payload: &[u8]) -> Vec<u8> {
    let (mut encoder, mut rows) = (RowEncoder::new(), Vec::new());
    let at = |number: &u32| 1_000 + u64::from(*number);
    for (place, sequence) in numbers.iter().enumerate() {
        let header = RowHeader {
            sequence: *sequence,
            timestamp: at(sequence),
            payload_len: payload.len() as u32,
            ..of
        };
        if place == 0 {
            encoder.full_row(&header, &mut rows);
        } else {
            encoder.row(&header, &mut rows);
        }
        rows.extend_from_slice(payload);
    }
    let (first, last) = (at(&numbers[0]), at(&numbers[numbers.len() - 1]));
    let mut block = Vec::from(v6::event_block_header(first, last, true, rows.len()).unwrap());
    block.extend(rows);
    block
}

/// Returns how many rows were refused.
fn say(stage: &mut dyn Stage, said: Said, out: &mut Vec<u8>) -> u64 {
    let mut block = Vec::new();
    let row = |thread, about| RowHeader {
        metadata_id: 1,
        capture_thread: index(thread),
        thread: index(about),
        processor: u32::MAX,
        ..RowHeader::default()
    };
    match said {
        Type(id, schema) => {
            stage.define(&[(id, schema)], out).unwrap();
            return 0;
        }
        Thread(thread, os_id, name) => {
            let os_thread_id = Some(os_id);
            let index = index(thread);
            let info = ThreadInfo { index, name: Some(name), os_thread_id, ..Default::default() };
            let mut row = Vec::new();
            v6::thread_row(&info, &mut row).unwrap();
            v6::thread_block(&row, &mut block).unwrap();
        }
        List(id, value) => {
            let labels: &[Label<'_>] = &[Label::Str("tenant", value)];
            v6::label_list_block(id, &[labels], &mut block).unwrap();
        }
        Stack(id, address) => v6::stack_block(id, &[&[address, 16]], 8, &mut block).unwrap(),
        Rows(thread, numbers, labels, stack) => {
            let text = payload(|e| e.str("hello", StrEncoding::Utf8));
            block = rows(RowHeader { labels, stack, ..row(thread, thread) }, numbers, &text);
        }
        About(thread, number, about) => {
            let text = payload(|e| e.str("", StrEncoding::Utf8));
            block = rows(row(thread, about), &[number], &text);
        }
        Refused(thread, number) => block = rows(row(thread, thread), &[number], &[9]),
        Point(ts, threads) => {
            let threads: Vec<_> = threads.iter().map(number).collect();
            let flags = SequencePointFlags::default();
            v6::sequence_point(ts, flags, &threads, &mut block).unwrap();
        }
        Gone(thread, sequence) => {
            v6::remove_thread_block(&[number(&(thread, sequence))], &mut block).unwrap();
        }
    }
    stage.blocks(&block, out).unwrap()
}

/// Whatever a stage can be.
fn stages() -> Vec<(&'static str, Box<dyn Stage>)> {
    let mask = |name| Redaction::new([1, 2]).with(name, Redact::Mask);
    let v6 =
        |redaction| Box::new(Transcoder::new(Format::V6).redacted(redaction)) as Box<dyn Stage>;
    let mut all: Vec<_> = [Format::V5, Format::V4, Format::Heph]
        .into_iter()
        .map(|format| (format.name(), Transcoder::stage(format).unwrap()))
        .collect();
    all.push(("redacted", v6(mask("text"))));
    all.push(("nothing to redact", v6(mask("customer"))));
    all
}

#[test]
fn what_did_not_arrive_was_never_said() {
    let arrived = [
        Type(1, &SALE),
        Thread(0, 17, "known"),
        List(1, "one"),
        Stack(1, 1),
        Rows(0, &[1, 2, 5], 1, 1),
    ];
    let lost = [
        Type(2, &BEAT),
        Thread(1, 18, "new"),
        Rows(0, &[6, 7], 0, 0),
        Rows(1, &[1], 1, 1),
        List(2, "lost"),
        Stack(2, 2),
        Thread(2, 17, "subject"),
        About(1, 2, 2),
        Refused(0, 9),
        Point(1_900, &[(0, 9), (1, 2)]),
        Gone(2, 0),
        List(1, "first again"),
        Rows(0, &[12], 1, 0),
        Gone(0, 12),
        Gone(1, 2),
    ];
    let again = [
        Type(2, &BEAT),
        // As a session does that was told that its definitions are lost.
        Thread(1, 18, "new"),
        List(2, "two"),
        Rows(0, &[12], 2, 1),
        Rows(1, &[2, 3], 1, 0),
        Thread(2, 17, "subject"),
        About(1, 4, 2),
        Refused(1, 5),
        Point(2_100, &[(0, 14), (1, 5)]),
        Gone(2, 0),
        Gone(0, 15),
        Refused(1, 6),
    ];
    for (name, mut plain) in stages() {
        let mut wanted = Vec::new();
        plain.begin(&INFO, &mut wanted).unwrap();
        arrived.iter().chain(&again).for_each(|&said| _ = say(&mut *plain, said, &mut wanted));
        plain.finish(&mut wanted).unwrap();
        for built in 0..=lost.len() {
            for between in 0..=built {
                let (_, mut stage) = stages().into_iter().find(|(it, _)| *it == name).unwrap();
                let mut out = Vec::new();
                stage.begin(&INFO, &mut out).unwrap();
                stage.mark();
                arrived.iter().for_each(|&said| _ = say(&mut *stage, said, &mut out));
                stage.settle();
                let (mark, length) = (stage.mark(), out.len());
                let mut inner = mark;
                for (at, &said) in lost[..built].iter().enumerate() {
                    say(&mut *stage, said, &mut out);
                    let next = stage.mark();
                    if at < between {
                        inner = next;
                    }
                }
                stage.rewind(&inner);
                stage.rewind(&mark);
                out.truncate(length);
                again.iter().for_each(|&said| _ = say(&mut *stage, said, &mut out));
                stage.finish(&mut out).unwrap();
                assert!(out == wanted, "{name}: {built} blocks, {between} marks");
                assert_eq!(stage.closing_size(), plain.closing_size(), "{name}");
                // Rows that were refused do not come again.
                let mut left_out = stage.left_out();
                left_out.events = plain.left_out().events;
                left_out.strange_events = left_out.events;
                assert_eq!(left_out, plain.left_out(), "{name}");
            }
        }
    }
}

/// The number of events and of losses in a trace.
fn totals(name: &str, trace: &[u8]) -> (u64, u64) {
    if name == "heph" {
        let mut reader = nettrace_reader::heph::Reader::new(trace);
        while reader.next_event().unwrap().is_some() {}
        let totals = reader.totals();
        return (totals.events, totals.lost);
    }
    assert!(nettrace_reader::verify(trace).unwrap().is_sound(), "{name}");
    let mut reader = Reader::new(trace).unwrap();
    reader.read_to_end().unwrap();
    (reader.totals().events, reader.totals().lost)
}

/// A row that a format cannot store is a gap, also if nothing of the session comes after it.
#[test]
fn refused_rows_are_told_at_the_end_at_the_latest() {
    let said = [
        Type(1, &SALE),
        Thread(0, 17, "one"),
        Rows(0, &[1, 2], 0, 0),
        Refused(0, 3),
        Rows(0, &[4], 0, 0),
        Refused(0, 5),
        Thread(1, 18, "another"),
        Refused(1, 1),
    ];
    for (name, mut stage) in stages().into_iter().filter(|(name, _)| *name != "nothing to redact") {
        let mut trace = Vec::new();
        stage.begin(&INFO, &mut trace).unwrap();
        let refused: u64 = said.iter().map(|&said| say(&mut *stage, said, &mut trace)).sum();
        assert_eq!((refused, stage.left_out().events), (3, 3), "{name}");
        let room = stage.closing_size();
        let before = trace.len() as u64;
        stage.finish(&mut trace).unwrap();
        assert!(trace.len() as u64 - before <= room, "{name}");
        trace.extend(stage.end().bytes());
        assert_eq!(totals(name, &trace), (3, 3), "{name}");
    }
}

/// A thread has the same id in each stream of a session, and what one stream does not tell, the
/// next one does, or it stays untold.
#[test]
fn a_session_goes_on_in_a_new_stream() {
    let begin = [Type(1, &SALE), Thread(0, 17, "one"), Thread(1, 17, "of the same id")];
    for format in [Format::V5, Format::V4] {
        let mut stage = Transcoder::stage(format).unwrap();
        let mut streams = [Vec::new(), Vec::new()];
        for (stream, trace) in streams.iter_mut().enumerate() {
            stage.begin(&INFO, trace).unwrap();
            begin.iter().for_each(|&said| _ = say(&mut *stage, said, trace));
            // No row shows what comes before the first row of a thread.
            say(&mut *stage, Rows(stream as u64, &[4], 0, 0), trace);
            if stream == 1 {
                say(&mut *stage, Rows(0, &[1], 0, 0), trace);
                stage.finish(trace).unwrap();
            }
            trace.extend(stage.end().bytes());
        }
        // The first stream was cut off before its end.
        assert_eq!(totals(format.name(), &streams[0]), (1, 0));
        assert_eq!(totals(format.name(), &streams[1]), (2, 6));
        assert_eq!(stage.untold_losses(), 0);
        let threads = streams.map(|trace| {
            let mut reader = Reader::new(&trace[..]).unwrap();
            let mut threads = Vec::new();
            while let Some(event) = reader.next_event().unwrap() {
                threads.push(event.header.capture_thread);
            }
            threads
        });
        assert_eq!(threads, [vec![17], vec![1 << 32, 17]]);
    }
}

/// A stage asks for a sequence point before it forgets label lists, and counts what it lacks.
#[test]
fn labels_are_left_out_of_no_row_in_silence() {
    let mut stage = Transcoder::stage(Format::V5).unwrap();
    let (mut out, large) = (Vec::new(), &*"x".repeat(1 << 20).leak());
    stage.begin(&INFO, &mut out).unwrap();
    let begin = [Type(1, &SALE), Thread(0, 17, "one"), List(1, "first")];
    begin.iter().for_each(|&said| _ = say(&mut *stage, said, &mut out));
    let mut wanted = Vec::new();
    for id in 2..40 {
        say(&mut *stage, List(id, large), &mut out);
        wanted.push(stage.wants_point());
    }
    assert_eq!(wanted.iter().filter(|wants| !**wants).count(), 15);
    // Version 5 does not have this label, whether or not the stage remembers it.
    say(&mut *stage, Rows(0, &[1, 2], 1, 0), &mut out);
    assert_eq!(stage.left_out().labels, 2);
    say(&mut *stage, Point(2_000, &[(0, 2)]), &mut out);
    assert!(!stage.wants_point());
}

#[test]
fn other_blocks_are_refused() {
    let mut stage = Transcoder::stage(Format::V5).unwrap();
    let mut out = Vec::new();
    stage.begin(&INFO, &mut out).unwrap();
    let mut header = Vec::new();
    v6::trace_block(&INFO, &mut header).unwrap();
    let error = stage.blocks(&header, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "the blocks are not what a session writes in version 6");
    assert!(stage.blocks(&[9, 0, 0, 2, 1], &mut out).is_err());
    // A row of a thread that is not defined.
    let row = RowHeader { metadata_id: 1, capture_thread: 5, thread: 5, ..RowHeader::default() };
    assert!(stage.blocks(&rows(row, &[1], &[]), &mut out).is_err());
}
