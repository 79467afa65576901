//! Every limit of the format and its readers: what just fits, what does not, and what is split.

use nettrace_event::{
    ArrayLayout as Layout, EventSchema, FieldSchema, FieldType as Type, StrEncoding as Text,
};
use nettrace_format::{
    FormatError,
    content::{Label, RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
    payload::MAX_PAYLOAD,
    types,
    v6::{self, BlockKind, MAX_BLOCK_SIZE, SequencePointFlags, ThreadSequence},
};

use crate::support::{field, schema, trace_info};

/// Asserts that `write` fails as expected and leaves the output unchanged.
#[track_caller]
fn fails(expected: FormatError, write: impl FnOnce(&mut Vec<u8>) -> Result<(), FormatError>) {
    let mut out = vec![7; 3];
    assert_eq!(write(&mut out), Err(expected));
    assert_eq!(out, [7; 3]);
    let text = expected.to_string();
    assert!(text.len() > 30 && !text.contains("  "), "{text}");
}

#[track_caller]
fn succeeds(write: impl FnOnce(&mut Vec<u8>) -> Result<(), FormatError>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    out
}

/// The blocks in some bytes: kind and content.
fn blocks(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut blocks = Vec::new();
    while let [a, b, c, kind, rest @ ..] = bytes {
        let size = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        blocks.push((*kind, &rest[..size]));
        bytes = &rest[size..];
    }
    assert!(bytes.is_empty());
    blocks
}

fn text(len: usize) -> &'static str {
    "x".repeat(len).leak()
}

fn one(ty: Type) -> &'static [FieldSchema] {
    vec![field("f", ty)].leak()
}

#[test]
fn blocks_of_24_bits() {
    let body = |len: usize| {
        move |out: &mut Vec<u8>| {
            v6::block(BlockKind::Stack, out, |out| {
                out.resize(out.len() + len, 0);
                Ok(())
            })
        }
    };
    assert_eq!(succeeds(body(MAX_BLOCK_SIZE))[..4], [0xFF, 0xFF, 0xFF, 5]);
    let size = MAX_BLOCK_SIZE + 1;
    fails(FormatError::BlockTooLarge { kind: BlockKind::Stack, size }, body(size));

    let rows = MAX_BLOCK_SIZE - v6::EVENT_BLOCK_HEADER;
    assert!(v6::event_block_header(0, 0, true, rows).is_ok());
    let kind = BlockKind::Event;
    let error = FormatError::BlockTooLarge { kind, size };
    assert_eq!(v6::event_block_header(0, 0, true, rows + 1), Err(error));
    let error = FormatError::BlockTooLarge { kind, size: usize::MAX };
    assert_eq!(v6::event_block_header(0, 0, true, usize::MAX), Err(error));
    assert_eq!(v6::event_block_header(0, 0, true, 0), Err(FormatError::EmptyEventBlock));
}

#[test]
fn trace_info_limits() {
    for given in [0, 1, 16] {
        let info = TraceInfo { pointer_size: given, ..trace_info() };
        fails(FormatError::PointerSize { given }, |out| v6::trace_block(&info, out));
    }
    for ticks_per_second in [0, 1 << 63] {
        let info = TraceInfo { ticks_per_second, ..trace_info() };
        fails(FormatError::ClockRate { ticks_per_second }, |out| v6::trace_block(&info, out));
    }
    let fixed = 40;
    let value = text(MAX_BLOCK_SIZE - fixed - 2 - 4);
    let key_values = [("k", value)];
    let largest = TraceInfo {
        key_values: &key_values,
        sync_utc: SystemTimeParts::from_unix_millis(0),
        ..trace_info()
    };
    assert_eq!(succeeds(|out| v6::trace_block(&largest, out)).len(), 4 + MAX_BLOCK_SIZE);
    let key_values = [("kk", value)];
    let info = TraceInfo { key_values: &key_values, ..largest };
    let error = FormatError::BlockTooLarge { kind: BlockKind::Trace, size: MAX_BLOCK_SIZE + 1 };
    fails(error, |out| v6::trace_block(&info, out));
}

#[test]
fn metadata_rows() {
    let kind = BlockKind::Metadata;
    let plain = schema(1, "E", &[]);
    fails(FormatError::ZeroId { kind }, |out| v6::metadata_row(0, &plain, out));
    fails(FormatError::IdTooLarge { kind, id: 1 << 31 }, |out| {
        v6::metadata_row(1 << 31, &plain, out)
    });
    succeeds(|out| v6::metadata_row((1 << 31) - 1, &plain, out));

    // Everything except the name takes 25 bytes, 3 of them for the name's length.
    let largest = 65_535 - 25;
    let named = EventSchema { opcode: None, name: text(largest), ..plain };
    assert_eq!(succeeds(|out| v6::metadata_row(1, &named, out)).len(), 2 + 65_535);
    let event = text(largest + 1);
    let named = EventSchema { name: event, ..named };
    fails(FormatError::MetadataRowTooLarge { event, size: 65_536 }, |out| {
        v6::metadata_row(1, &named, out)
    });

    let described = EventSchema { description: Some(text(65_536)), ..plain };
    let error = FormatError::OptionalMetadataTooLarge { event: "E", size: 65_536 + 1 + 3 + 6 };
    fails(error, |out| v6::metadata_row(1, &described, out));
}

#[test]
fn fields() {
    let descriptions = |fields: &'static [FieldSchema]| {
        move |out: &mut Vec<u8>| types::field_descriptions(fields, out)
    };
    let many = vec![field("", Type::U8); 65_536].leak();
    fails(FormatError::TooManyFields { count: 65_536 }, descriptions(many));
    succeeds(descriptions(&many[1..]));
    let nested = one(Type::Object(many));
    fails(FormatError::TooManyFields { count: 65_536 }, descriptions(nested));

    let name = text(65_535 - 3 - 1);
    succeeds(descriptions(vec![field(name, Type::U8)].leak()));
    let long = FormatError::FieldDescriptionTooLarge { field: name, size: 65_536 };
    fails(long, descriptions(vec![field(name, Type::Array(&Type::U8, Layout::Counted))].leak()));

    // The elements of locations must have a fixed size.
    let variable = FormatError::LocationOfVariableSize { field: "f" };
    const STR: Type = Type::Str(Text::Utf16);
    const VARIABLE: [Type; 9] = [
        Type::VarUInt,
        Type::VarInt,
        Type::Char,
        STR,
        Type::IpAddr,
        Type::SocketAddr,
        Type::Option(&Type::U8),
        Type::Array(&Type::U8, Layout::Counted),
        Type::Object(&[field("a", Type::U8), field("b", STR)]),
    ];
    for element in &VARIABLE {
        for layout in [Layout::RelLoc, Layout::DataLoc] {
            fails(variable, descriptions(one(Type::Array(element, layout))));
        }
    }

    // Fixed arrays must not be empty or larger than a payload.
    let array = |element: &'static Type, count| one(Type::Array(element, Layout::Fixed(count)));
    fails(FormatError::EmptyFixedArray { field: "f" }, descriptions(array(&Type::U8, 0)));
    succeeds(descriptions(array(&Type::U8, MAX_PAYLOAD as u16)));
    let large = |size| FormatError::FixedArrayTooLarge { field: "f", size };
    fails(large(MAX_PAYLOAD + 1), descriptions(array(&Type::U8, MAX_PAYLOAD as u16 + 1)));
    fails(large(65_440), descriptions(array(&Type::U128, 4_090)));
    succeeds(descriptions(array(&Type::VarInt, u16::MAX)));

    // Objects without fields are only allowed in the event itself.
    const EMPTY: Type = Type::Object(&[]);
    let empty = FormatError::EmptyObject { field: "f" };
    succeeds(descriptions(one(EMPTY)));
    fails(empty, descriptions(one(Type::Array(&EMPTY, Layout::Counted))));
    fails(empty, descriptions(one(Type::Option(&EMPTY))));
    fails(empty, descriptions(one(Type::Object(one(EMPTY)))));
}

#[test]
fn thread_rows() {
    let thread = |len| ThreadInfo { index: 9, name: Some(text(len)), ..ThreadInfo::default() };
    let largest = 65_535 - 1 - 1 - 3;
    assert_eq!(succeeds(|out| v6::thread_row(&thread(largest), out)).len(), 2 + 65_535);
    fails(FormatError::ThreadRowTooLarge { index: 9, size: 65_536 }, |out| {
        v6::thread_row(&thread(largest + 1), out)
    });
}

#[test]
fn stacks() {
    let kind = BlockKind::Stack;
    let deep = vec![1_u64; 8_191];
    let stack = |first_id, stacks: &[&[u64]], pointer_size| {
        let stacks: Vec<Vec<u64>> = stacks.iter().map(|stack| stack.to_vec()).collect();
        move |out: &mut Vec<u8>| {
            let stacks: Vec<&[u64]> = stacks.iter().map(Vec::as_slice).collect();
            v6::stack_block(first_id, &stacks, pointer_size, out)
        }
    };
    fails(FormatError::ZeroId { kind }, stack(0, &[&[1]], 8));
    fails(FormatError::IdTooLarge { kind, id: 1 << 32 }, stack(u32::MAX, &[&[1], &[2]], 8));
    succeeds(stack(u32::MAX, &[&[1]], 8));
    fails(FormatError::PointerSize { given: 2 }, stack(1, &[&[1]], 2));
    fails(
        FormatError::AddressTooLarge { stack: 4, address: 1 << 32 },
        stack(3, &[&[1], &[1 << 32]], 4),
    );
    succeeds(stack(1, &[&deep[1..]], 8));
    fails(FormatError::StackTooDeep { stack: 1, frames: 8_191 }, stack(1, &[&deep], 8));
    succeeds(stack(1, &[&deep], 4));
}

#[test]
fn labels() {
    let kind = BlockKind::LabelList;
    let label = [Label::Level(1)];
    fails(FormatError::ZeroId { kind }, |out| v6::label_list_block(0, &[&label], out));
    fails(FormatError::EmptyLabelList { id: 6 }, |out| {
        v6::label_list_block(5, &[&label, &[]], out)
    });
    fails(FormatError::IdTooLarge { kind, id: 1 << 32 }, |out| {
        v6::label_list_block(u32::MAX, &[&label, &label], out)
    });
    let largest = MAX_BLOCK_SIZE - 8 - 1 - 1 - 4;
    let list = |len| [Label::Str("", text(len))];
    let bytes = succeeds(|out| v6::label_list_block(1, &[&list(largest)], out));
    assert_eq!(bytes.len(), 4 + MAX_BLOCK_SIZE);
    fails(FormatError::BlockTooLarge { kind, size: MAX_BLOCK_SIZE + 1 }, |out| {
        v6::label_list_block(1, &[&label, &list(largest + 1)], out)
    });
}

#[test]
fn payloads() {
    let row = RowHeader::default();
    succeeds(|out| v6::uncompressed_row(&row, &vec![0; MAX_PAYLOAD], out));
    let size = MAX_PAYLOAD + 1;
    fails(FormatError::PayloadTooLarge { size }, |out| {
        v6::uncompressed_row(&row, &vec![0; size], out)
    });
}

#[test]
fn sequence_points_are_not_split() {
    let entries = vec![ThreadSequence { thread: u64::MAX, sequence: u32::MAX }; 1_118_481];
    let point = |count: usize| {
        let entries = &entries[..count];
        move |out: &mut Vec<u8>| v6::sequence_point(0, SequencePointFlags::default(), entries, out)
    };
    let fitting = (MAX_BLOCK_SIZE - 16) / 15;
    succeeds(point(fitting));
    let size = 16 + 15 * (fitting + 1);
    fails(FormatError::BlockTooLarge { kind: BlockKind::SequencePoint, size }, point(fitting + 1));

    // RemoveThread entries are split, between two entries.
    let bytes = succeeds(|out| v6::remove_thread_block(&entries, out));
    let blocks = blocks(&bytes);
    assert_eq!(blocks.len(), 1 + usize::from(entries.len() * 15 > MAX_BLOCK_SIZE));
    let twice = [&entries[..], &entries[..]].concat();
    let bytes = succeeds(|out| v6::remove_thread_block(&twice, out));
    let sizes: usize = self::blocks(&bytes).iter().map(|(_, content)| content.len()).sum();
    assert_eq!(sizes, 15 * twice.len());
    assert!(
        self::blocks(&bytes).iter().all(|(kind, content)| *kind == 7 && content.len() % 15 == 0)
    );
}

#[test]
fn rows_are_split_between_blocks() {
    // Rows of 60,000 bytes: 279 fit in a block.
    let mut rows = Vec::new();
    for index in 1..=600 {
        let thread = ThreadInfo { index, name: Some(text(60_000 - 8)), ..ThreadInfo::default() };
        v6::thread_row(&thread, &mut rows).unwrap();
    }
    let bytes = succeeds(|out| v6::thread_block(&rows, out));
    let split = blocks(&bytes);
    assert!(split.len() == 3 && split.iter().all(|(kind, _)| *kind == 6));
    assert_eq!(split.iter().flat_map(|(_, content)| *content).count(), rows.len());

    let bytes = succeeds(|out| v6::metadata_block(&rows, out));
    let split = blocks(&bytes);
    assert!(split.iter().all(|(kind, content)| *kind == 3 && content[..2] == [0, 0]));
    assert_eq!(split.iter().map(|(_, content)| content.len() - 2).sum::<usize>(), rows.len());

    // Ids continue from block to block.
    let label = [Label::Str("k", text(60_000))];
    let bytes = succeeds(|out| v6::label_list_block(10, &[&label[..]; 600], out));
    let mut next = 10;
    for (kind, content) in blocks(&bytes) {
        let number = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().unwrap());
        assert_eq!((kind, number(0)), (8, next));
        next += number(4);
    }
    assert_eq!(next, 610);
    let stack = [1; 8_000];
    let bytes = succeeds(|out| v6::stack_block(10, &[&stack[..]; 600], 8, out));
    let mut next = 10;
    for (kind, content) in blocks(&bytes) {
        let number = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().unwrap());
        assert_eq!((kind, number(0)), (5, next));
        assert_eq!(content.len(), 8 + number(4) as usize * (4 + 64_000));
        next += number(4);
    }
    assert_eq!(next, 610);
}
