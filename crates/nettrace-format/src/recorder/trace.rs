//! The header of a stream, as the session wrote it.

use alloc::{string::String, vec::Vec};

use crate::{
    FormatError,
    primitive::{self, MAX_VARUINT64},
    v6::{self, BlockKind, read},
};

/// Where the key-values begin, after their number: the clock takes 32 bytes, the size of a pointer
/// and the number 4 each.
const KEY_VALUES: usize = 40;

/// The header of a stream.
#[derive(Clone, Debug)]
pub(super) struct TraceHeader<'a> {
    body: &'a [u8],
    key_values: Vec<(&'a str, &'a str)>,
}

impl<'a> TraceHeader<'a> {
    /// From its bytes: the start of the stream, and the block of the trace.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut start = Vec::new();
        v6::stream_header(&mut start);
        let block = bytes.strip_prefix(&*start)?;
        let block = read::blocks(block).next()?.ok().filter(|block| block.is(BlockKind::Trace))?;
        let count = read::word32(block.body, KEY_VALUES - 4).ok()?;
        let mut rest = block.body.get(KEY_VALUES..)?;
        let mut key_values = Vec::new();
        for _ in 0..count {
            key_values.push((text(&mut rest)?, text(&mut rest)?));
        }
        let is_sound = matches!(read::word32(block.body, KEY_VALUES - 8), Ok(4 | 8));
        (is_sound && is_time(block.body)).then_some(Self { body: block.body, key_values })
    }

    /// The last value of `key`.
    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        self.key_values.iter().rev().find(|(other, _)| *other == key).map(|(_, value)| *value)
    }

    /// The tick at which the stream begins.
    pub(super) fn first_tick(&self) -> u64 {
        self.body
            .get(16..24)
            .and_then(|tick| tick.first_chunk().copied())
            .map_or(0, u64::from_le_bytes)
    }

    pub(super) fn pointer_size(&self) -> u32 {
        read::word32(self.body, KEY_VALUES - 8).unwrap_or(8)
    }

    /// Writes the header of another stream of the recording, with other values for some keys.
    pub(super) fn write(
        &self,
        changes: &[(&str, String)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        v6::stream_header(out);
        let is_changed = |key: &str| changes.iter().any(|(other, _)| *other == key);
        let others = self.key_values.iter().copied().filter(|(key, _)| !is_changed(key));
        let changes = changes.iter().map(|(key, value)| (*key, &**value));
        let all: Vec<_> = others.chain(changes).collect();
        v6::block(BlockKind::Trace, out, |out| {
            out.extend_from_slice(&self.body[..KEY_VALUES - 4]);
            out.extend_from_slice(&(all.len() as u32).to_le_bytes());
            for (key, value) in &all {
                primitive::string(key, out);
                primitive::string(value, out);
            }
            Ok(())
        })
    }
}

/// Whether the clock of a trace begins at a time that exists, and has a frequency.
fn is_time(body: &[u8]) -> bool {
    // Year, month, day of the week, day, hour, minute, second, millisecond; two bytes each.
    let field = |number: usize| read::word16(body, 2 * number).unwrap_or(u16::MAX);
    let (year, month, day) = (field(0), field(1), field(3));
    let days = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_date = (1601..=9999).contains(&year) && (1..=12).contains(&month);
    let is_day = (1..=days).contains(&day) && field(4) < 24;
    let has_ticks = body.get(24..32).is_some_and(|ticks| ticks.iter().any(|byte| *byte != 0));
    is_date && is_day && field(5) < 60 && field(6) < 60 && field(7) < 1000 && has_ticks
}

/// A text of version 6 at the start of `bytes`, which moves past it.
pub(super) fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let mut at = 0;
    let len = primitive::read_varuint(bytes, &mut at, MAX_VARUINT64)?;
    let end = at.checked_add(usize::try_from(len).ok()?)?;
    let text = core::str::from_utf8(bytes.get(at..end)?).ok()?;
    *bytes = &bytes[end..];
    Some(text)
}
