//! The blocks that a composer writes, and a reader's view of them.

use nettrace_format::{
    Composer, FormatError,
    example::{INFO, SALE},
    v6::{
        self, BlockKind, Label, RowHeader, SequencePointFlags, ThreadInfo, ThreadSequence,
        label_list_row, read,
    },
};
use nettrace_reader::Reader;

const PAYLOAD: [u8; 4] = [1, 2, 3, 4];

/// A stream in which the event type 1 and the threads 1 and 2 wait to be defined.
fn begun(composer: Composer) -> (Composer, Vec<u8>) {
    let (mut composer, mut out) = (composer, Vec::new());
    composer.begin(&INFO, &mut out).unwrap();
    let mut row = Vec::new();
    v6::metadata_row(composer.new_metadata_id(), &SALE, &mut row).unwrap();
    composer.metadata(&row, &mut out).unwrap();
    for index in [1, 2] {
        composer.thread(&ThreadInfo { index, ..ThreadInfo::default() }, &mut out).unwrap();
    }
    (composer, out)
}

fn header(thread: u64, sequence: u32) -> RowHeader {
    RowHeader {
        metadata_id: 1,
        sequence,
        capture_thread: thread,
        thread,
        timestamp: 6_000 + u64::from(sequence),
        ..RowHeader::default()
    }
}

fn labels(id: u64) -> Vec<u8> {
    let mut row = Vec::new();
    label_list_row([Label::SpanId(id)], &mut row);
    row
}

/// The kinds of the blocks after the Trace block, and how many rows the Event blocks have.
fn blocks(out: &[u8]) -> Vec<(BlockKind, usize)> {
    use BlockKind::{EndOfStream, Event, LabelList, Metadata, RemoveThread, SequencePoint, Stack};
    let kinds =
        [EndOfStream, Event, Metadata, SequencePoint, Stack, BlockKind::Thread, RemoveThread];
    let mut found = Vec::new();
    for block in read::blocks(&out[20..]).skip(1) {
        let block = block.unwrap();
        let kind = kinds.into_iter().find(|kind| block.is(*kind)).unwrap_or(LabelList);
        let mut count = 0;
        if kind == Event {
            let mut rows = read::Rows::new(block.body).unwrap();
            while rows.next_row().unwrap().is_some() {
                count += 1;
            }
        }
        found.push((kind, count));
    }
    found
}

#[test]
fn definitions_are_grouped_before_the_rows_that_need_them() {
    use BlockKind::{EndOfStream, Event, LabelList, Metadata, SequencePoint, Stack, Thread};

    let (mut composer, mut out) = begun(Composer::new());
    for (sequence, (address, span)) in (1..).zip([(16, 1), (32, 2), (16, 1)]) {
        let stack = composer.stack(&[address], &mut out).unwrap();
        let labels = composer.label_list(&labels(span), &mut out).unwrap();
        let header = RowHeader { stack, labels, ..header(1, sequence) };
        composer.row(&header, &PAYLOAD, &mut out).unwrap();
    }
    assert_eq!(blocks(&out), []);
    let threads = [ThreadSequence { thread: 1, sequence: 3 }];
    composer.sequence_point(7_000, SequencePointFlags::default(), &threads, &mut out).unwrap();
    // The ids begin again.
    assert_eq!(composer.sequence_points(), 1);
    assert_eq!(composer.stack(&[32], &mut out), Ok(1));
    assert_eq!(composer.repeated_bytes(), 4 + 8);
    composer
        .row(&RowHeader { stack: 1, timestamp: 8_000, ..header(2, 1) }, &PAYLOAD, &mut out)
        .unwrap();
    composer.finish(&mut out).unwrap();
    let defined = [(Metadata, 0), (Thread, 0), (Stack, 0), (LabelList, 0)];
    let rest = [(Event, 3), (SequencePoint, 0), (Stack, 0), (Event, 1), (EndOfStream, 0)];
    assert_eq!(blocks(&out), [&defined[..], &rest].concat());

    let mut reader = Reader::new(&out[..]).unwrap();
    for address in [16, 32, 16, 32] {
        let event = reader.next_event().unwrap().unwrap();
        assert_eq!(event.stack().unwrap().addresses().collect::<Vec<_>>(), [address]);
        assert_eq!(event.payload, PAYLOAD);
    }
    assert!(nettrace_reader::verify(&out[..]).unwrap().is_sound());
}

#[test]
fn rows_of_definitions_are_copied_and_what_waits_is_counted() {
    let (mut composer, mut out) = begun(Composer::new());
    let mut thread = Vec::new();
    v6::thread_row(&ThreadInfo { index: 3, ..ThreadInfo::default() }, &mut thread).unwrap();
    composer.thread_rows(&thread, &mut out).unwrap();
    let stack = [&8_u32.to_le_bytes()[..], &16_u64.to_le_bytes()].concat();
    for id in 1..=2 {
        assert_eq!(composer.new_stack(&stack, &mut out), Ok(id));
        assert_eq!(composer.new_label_list(&labels(7), &mut out), Ok(id));
    }
    let none = composer.new_label_list(&[], &mut out);
    assert_eq!(none, Err(FormatError::EmptyLabelList { id: 3 }));
    let header = RowHeader { stack: 2, labels: 1, ..header(3, 1) };
    composer.row(&header, &PAYLOAD, &mut out).unwrap();

    let (begun, waiting) = (out.len(), composer.waiting_bytes());
    composer.end_blocks(&mut out).unwrap();
    let written = out.len() - begun;
    assert!(written <= waiting && waiting <= written + 5 * Composer::BLOCK_OVERHEAD);
    assert_eq!(composer.waiting_bytes(), 0);
    composer.shrink();
    assert_eq!(composer.new_stack(&stack, &mut out), Ok(3));
    composer.finish(&mut out).unwrap();

    let mut reader = Reader::new(&out[..]).unwrap();
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!(event.stack().unwrap().addresses().collect::<Vec<_>>(), [16]);
    assert!(nettrace_reader::verify(&out[..]).unwrap().is_sound());
}

#[test]
fn threads_that_take_turns_have_a_block_each_if_that_is_asked_for() {
    let rows_of_blocks = |composer| {
        let (mut composer, mut out) = begun(composer);
        for sequence in 1..=3 {
            for thread in [2, 1] {
                composer.row(&header(thread, sequence), &PAYLOAD, &mut out).unwrap();
            }
        }
        composer.finish(&mut out).unwrap();
        let mut reader = Reader::new(&out[..]).unwrap();
        assert_eq!(reader.next_event().unwrap().unwrap().header.capture_thread, 2);
        reader.read_to_end().unwrap();
        assert_eq!((reader.totals().events, reader.totals().lost), (6, 0));
        let blocks = blocks(&out);
        let events = blocks.iter().filter(|(kind, _)| *kind == BlockKind::Event);
        events.map(|(_, rows)| *rows).collect::<Vec<_>>()
    };
    assert_eq!(rows_of_blocks(Composer::new()), [1; 6]);
    assert_eq!(rows_of_blocks(Composer::new().with_block_per_thread()), [3, 3]);
    let small = Composer::new().with_block_per_thread().with_block_size(30);
    assert_eq!(rows_of_blocks(small).iter().sum::<usize>(), 6);
}

#[test]
fn a_block_ends_at_its_size() {
    // The first row has 13 bytes.
    let (mut composer, mut out) = begun(Composer::new().with_block_size(14));
    for sequence in 1..=3 {
        composer.row(&header(1, sequence), &PAYLOAD, &mut out).unwrap();
    }
    composer.remove_threads(&[ThreadSequence { thread: 1, sequence: 3 }], &mut out).unwrap();
    composer.finish(&mut out).unwrap();
    let ends = [(BlockKind::RemoveThread, 0), (BlockKind::EndOfStream, 0)];
    let rows = [(BlockKind::Event, 2), (BlockKind::Event, 1)];
    assert_eq!(blocks(&out)[2..], [rows, ends].concat());
}

#[test]
fn what_the_format_cannot_hold_leaves_the_stream_as_it_was() {
    let (mut composer, mut out) = begun(Composer::new());
    let before = out.len();
    let size = usize::from(u16::MAX) + 1;
    let too_large = composer.row(&header(1, 1), &vec![0; size], &mut out);
    assert_eq!(too_large, Err(FormatError::PayloadTooLarge { size }));
    let too_deep = composer.stack(&vec![1; 8_191], &mut out);
    assert_eq!(too_deep, Err(FormatError::StackTooDeep { stack: 1, frames: 8_191 }));
    let none = composer.label_list_with_id(3, &[], &mut out);
    assert_eq!(none, Err(FormatError::EmptyLabelList { id: 3 }));
    let kind = BlockKind::Stack;
    let zero = composer.stack_with_id(0, [1], &mut out);
    assert_eq!(zero, Err(FormatError::ZeroId { kind }));
    let kind = BlockKind::LabelList;
    let size = v6::MAX_BLOCK_SIZE + 1;
    let long = composer.label_list(&vec![0; size - 8], &mut out);
    assert_eq!(long, Err(FormatError::BlockTooLarge { kind, size }));
    assert_eq!(out.len(), before);
    composer.row(&header(1, 1), &PAYLOAD, &mut out).unwrap();
    composer.finish(&mut out).unwrap();
    assert!(nettrace_reader::verify(&out[..]).unwrap().is_sound());
}
