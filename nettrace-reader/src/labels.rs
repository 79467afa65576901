//! Labels of events, and the parser of LabelList blocks of version 6.

use crate::{
    cursor::{Cursor, Read},
    error::Damage,
};

/// One label of an event. The kinds are those of NetTrace V6, "LabelList".
///
/// ```
/// use nettrace_reader::Label;
///
/// /// The W3C trace id of an event, as hexadecimal digits.
/// fn trace_id(labels: &[Label]) -> Option<String> {
///     labels.iter().rev().find_map(|label| match label {
///         Label::TraceId(id) => Some(id.iter().map(|byte| format!("{byte:02x}")).collect()),
///         _ => None,
///     })
/// }
///
/// let labels = [Label::SpanId(7), Label::TraceId([0xAB; 16])];
/// assert_eq!(trace_id(&labels).unwrap(), "ab".repeat(16));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Label {
    /// The activity that the event belongs to (a GUID in the byte order of the format).
    ActivityId([u8; 16]),
    /// A related activity, usually the one that started this one.
    RelatedActivityId([u8; 16]),
    /// W3C trace id.
    TraceId([u8; 16]),
    /// W3C span id.
    SpanId(u64),
    /// A text with a name.
    Text(String, String),
    /// A number with a name.
    Number(String, i64),
    /// Replaces the opcode of the event type.
    OpCode(u8),
    /// Replaces the keywords of the event type.
    Keywords(u64),
    /// Replaces the level of the event type.
    Level(u8),
    /// Replaces the version of the event type.
    Version(u8),
}

/// The labels of an event, in the order of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelList {
    /// The labels. If two have the same meaning, the last one applies.
    pub labels: Vec<Label>,
}

/// Calls `define` with the offset, index and content of each list in a LabelList block of version
/// 6.
pub(crate) fn parse_label_lists<E: From<Damage>>(
    mut cursor: Cursor<'_>,
    mut define: impl FnMut(u64, u32, LabelList) -> Result<(), E>,
) -> Result<(), E> {
    let first = cursor.u32()?;
    if first == 0 {
        return Err(cursor.damage("label lists are counted from 1").into());
    }
    let count = cursor.u32()?;
    for i in 0..count {
        let at = cursor;
        let list = parse_list(&mut cursor)?;
        let index = first
            .checked_add(i)
            .ok_or(at.damage("the index of a label list does not fit 32 bits"))?;
        define(at.offset(), index, list)?;
    }
    Ok(())
}

fn parse_list(cursor: &mut Cursor<'_>) -> Read<LabelList> {
    let mut labels = Vec::new();
    loop {
        let at = *cursor;
        let kind = cursor.u8()?;
        labels.push(match kind & 0x7F {
            1 => Label::ActivityId(cursor.array()?),
            2 => Label::RelatedActivityId(cursor.array()?),
            3 => Label::TraceId(cursor.array()?),
            4 => Label::SpanId(cursor.u64()?),
            5 => Label::Text(cursor.string()?, cursor.string()?),
            6 => Label::Number(cursor.string()?, cursor.varint64()?),
            7 => Label::OpCode(cursor.u8()?),
            8 => Label::Keywords(cursor.u64()?),
            9 => Label::Level(cursor.u8()?),
            10 => Label::Version(cursor.u8()?),
            _ => return Err(at.damage("a label is of an unknown kind")),
        });
        if kind & 0x80 != 0 {
            return Ok(LabelList { labels });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cursor, Label, LabelList, parse_label_lists};
    use crate::error::Damage;

    #[test]
    fn two_lists_by_hand() {
        let mut bytes = vec![5, 0, 0, 0, 2, 0, 0, 0];
        bytes.extend([4, 1, 0, 0, 0, 0, 0, 0, 0x80]);
        bytes.extend([5 | 0x80, 1, b'k', 1, b'v']);
        bytes.extend([6, 1, b'n', 3, 7, 1, 9, 2, 10 | 0x80, 3]);
        let mut lists = Vec::new();
        parse_label_lists(Cursor::new(&bytes, 0), |offset, index, list| {
            lists.push((offset, index, list.labels));
            Ok::<_, Damage>(())
        })
        .unwrap();
        let first = vec![Label::SpanId(0x8000_0000_0000_0001), Label::Text("k".into(), "v".into())];
        let second = vec![
            Label::Number("n".into(), -2),
            Label::OpCode(1),
            Label::Level(2),
            Label::Version(3),
        ];
        assert_eq!(lists, [(8, 5, first), (22, 6, second)]);
    }

    #[test]
    fn damage() {
        let parse = |bytes: &[u8]| {
            parse_label_lists(Cursor::new(bytes, 0), |_, _, _: LabelList| Ok::<_, Damage>(()))
                .unwrap_err()
                .what
        };
        assert_eq!(parse(&[0, 0, 0, 0, 0, 0, 0, 0]), "label lists are counted from 1");
        assert_eq!(parse(&[1, 0, 0, 0, 1, 0, 0, 0, 0x8B]), "a label is of an unknown kind");
        assert_eq!(parse(&[1, 0, 0, 0, 1, 0, 0, 0, 7, 1]), "it ends inside a field");
    }
}
