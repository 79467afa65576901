//! Every limit of versions 4 and 5: what just fits and what does not.

use nettrace_event::{ArrayLayout as Layout, EventSchema, FieldType as Type};
use nettrace_format::{
    FormatError,
    content::TraceInfo,
    v5::{self, Stream, Version},
    v6::{BlockKind, MAX_BLOCK_SIZE},
};

use crate::support::{field, older_info, schema, stream_at};

const BOTH: [Version; 2] = [Version::V4, Version::V5];
const ANY: EventSchema = schema(1, "E", &[]);

#[test]
fn limits() {
    #[track_caller]
    fn fails(
        expected: FormatError,
        write: impl FnOnce(&mut Stream, &mut Vec<u8>) -> Result<(), FormatError>,
    ) {
        let mut stream = stream_at(Version::V5, 403);
        let mut out = vec![7; 3];
        assert_eq!(write(&mut stream, &mut out), Err(expected));
        assert_eq!(out, [7; 3]);
        assert_eq!(stream.position(), 403);
        let text = expected.to_string();
        assert!(text.len() > 30 && !text.contains("  "), "{text}");
    }
    for given in [0, 1, 16] {
        let info = TraceInfo { pointer_size: given, ..older_info() };
        fails(FormatError::PointerSize { given }, |stream, out| stream.begin(&info, 1, 1, out));
        fails(FormatError::PointerSize { given }, |stream, out| {
            stream.stack_block(1, &[&[]], given, out)
        });
    }
    for ticks_per_second in [0, 1 << 63] {
        let info = TraceInfo { ticks_per_second, ..older_info() };
        let error = FormatError::ClockRate { ticks_per_second };
        fails(error, |stream, out| stream.begin(&info, 1, 1, out));
    }
    fails(FormatError::EmptyEventBlock, |stream, out| stream.event_block(0, 0, 0, out).map(|_| ()));
    let most = MAX_BLOCK_SIZE - v5::BLOCK_HEADER;
    assert!(stream_at(Version::V5, 403).event_block(0, 0, most, &mut Vec::new()).is_ok());
    for (rows, size) in [(most + 1, MAX_BLOCK_SIZE + 1), (usize::MAX, usize::MAX)] {
        fails(FormatError::BlockTooLarge { kind: BlockKind::Event, size }, |stream, out| {
            stream.event_block(0, 0, rows, out).map(|_| ())
        });
    }
    let threads = vec![(1, 1); 1_398_101];
    let kind = BlockKind::SequencePoint;
    let size = 12 * threads.len() + 12;
    fails(FormatError::BlockTooLarge { kind, size }, |stream, out| {
        stream.sequence_point(0, &threads, out)
    });
    let mut stream = stream_at(Version::V5, 403);
    assert!(stream.sequence_point(0, &threads[1..], &mut Vec::new()).is_ok());

    let kind = BlockKind::Metadata;
    fails(FormatError::ZeroId { kind }, |stream, out| {
        stream.metadata(&[(1, &ANY), (0, &ANY)], out)
    });
    fails(FormatError::IdTooLarge { kind, id: 1 << 31 }, |stream, out| {
        stream.metadata(&[(1 << 31, &ANY)], out)
    });
    fails(FormatError::ZeroId { kind: BlockKind::Stack }, |stream, out| {
        stream.stack_block(0, &[], 8, out)
    });
    let deep = [0; 8_191];
    fails(FormatError::StackTooDeep { stack: 2, frames: 8_191 }, |stream, out| {
        stream.stack_block(1, &[&[], &deep], 8, out)
    });
}

#[test]
fn types_that_cannot_be_said() {
    let check = |ty: Type| {
        let schema = schema(1, "E", vec![field("f", ty)].leak());
        BOTH.map(|version| v5::check(version, &schema).err())
    };
    assert_eq!(check(Type::Array(&Type::U8, Layout::Fixed(32_767))), [None; 2]);
    let error = FormatError::FixedArrayTooLong { field: "f", count: 32_768 };
    assert_eq!(check(Type::Array(&Type::U8, Layout::Fixed(32_768))), [None, Some(error)]);
    // An event that version 6 cannot describe was not recorded.
    let error = Some(FormatError::EmptyObject { field: "f" });
    assert_eq!(check(Type::Option(&Type::Object(&[]))), [error; 2]);
    let error = Some(FormatError::LocationOfVariableSize { field: "f" });
    assert_eq!(check(Type::Array(&Type::VarUInt, Layout::DataLoc)), [error; 2]);
    // The format has no limit of its own for a description; names are twice as long as in UTF-8.
    let name: &'static str = "x".repeat(60_000).leak();
    let named = |name| EventSchema { name, ..schema(1, "E", &[]) };
    assert_eq!(BOTH.map(|version| v5::check(version, &named(name)).err()), [None; 2]);
    let name: &'static str = "x".repeat(v5::MAX_METADATA_ROW / 2).leak();
    for version in BOTH {
        let error = v5::check(version, &named(name)).unwrap_err();
        assert!(matches!(error, FormatError::MetadataRowTooLarge { .. }), "{error}");
    }
}
