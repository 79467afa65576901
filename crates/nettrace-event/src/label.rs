//! Labels: what else is known of an event than its payload, and their bytes in NetTrace.

use crate::{
    guid,
    payload::primitive::{MAX_VARUINT64, put_varuint, read_varuint, read_varuint32, zigzag},
};

/// A label whose texts are borrowed, as those who record events name it.
///
/// ```
/// use nettrace_event::Label;
///
/// // The span id of a W3C `traceparent` that ends in `-00f067aa0ba902b7-01`.
/// let bytes = [0x00, 0xF0, 0x67, 0xAA, 0x0B, 0xA9, 0x02, 0xB7];
/// let labels = [Label::SpanId(u64::from_be_bytes(bytes)), Label::Str("tenant", "contoso")];
/// assert_eq!(labels[0], Label::SpanId(0x00F0_67AA_0BA9_02B7));
/// ```
pub type Label<'a> = LabelOf<&'a str>;

/// One label of an event: a correlation id, a replacement for a value of the event's type, or a
/// key-value pair. `T` holds a text: [`&str`](Label) where events are recorded, `String` in a
/// reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelOf<T> {
    /// The activity that the event belongs to: a GUID in the byte order of RFC 4122.
    ActivityId([u8; 16]),
    /// The activity that caused that activity: a GUID in the byte order of RFC 4122.
    RelatedActivityId([u8; 16]),
    /// A W3C trace id: its 16 bytes in W3C order.
    TraceId([u8; 16]),
    /// A W3C span id. W3C writes it big endian: convert it with `u64::from_be_bytes`.
    SpanId(u64),
    /// A key and a text.
    Str(T, T),
    /// A key and a number.
    Int(T, i64),
    /// Replaces the opcode of the event's type. The reference reader knows this label since 3.1.24;
    /// older readers (`dotnet-trace` 10) refuse the file.
    OpCode(u8),
    /// Replaces the keywords of the event's type. The reference reader knows this label since
    /// 3.1.24; older readers (`dotnet-trace` 10) refuse the file.
    Keywords(u64),
    /// Replaces the level of the event's type. The reference reader knows this label since 3.1.24;
    /// older readers (`dotnet-trace` 10) refuse the file.
    Level(u8),
    /// Replaces the version of the event's type. The reference reader knows this label since
    /// 3.1.24; older readers (`dotnet-trace` 10) refuse the file.
    Version(u8),
}

/// The kinds of labels, as they are encoded: a label's first byte without [`LAST_LABEL`].
pub mod kind {
    /// Of [`Label::ActivityId`](super::Label::ActivityId).
    pub const ACTIVITY_ID: u8 = 1;
    /// Of [`Label::RelatedActivityId`](super::Label::RelatedActivityId).
    pub const RELATED_ACTIVITY_ID: u8 = 2;
    /// Of [`Label::TraceId`](super::Label::TraceId).
    pub const TRACE_ID: u8 = 3;
    /// Of [`Label::SpanId`](super::Label::SpanId).
    pub const SPAN_ID: u8 = 4;
    /// Of [`Label::Str`](super::Label::Str).
    pub const STR: u8 = 5;
    /// Of [`Label::Int`](super::Label::Int).
    pub const INT: u8 = 6;
    /// Of [`Label::OpCode`](super::Label::OpCode).
    pub const OPCODE: u8 = 7;
    /// Of [`Label::Keywords`](super::Label::Keywords).
    pub const KEYWORDS: u8 = 8;
    /// Of [`Label::Level`](super::Label::Level).
    pub const LEVEL: u8 = 9;
    /// Of [`Label::Version`](super::Label::Version).
    pub const VERSION: u8 = 10;
}

impl<T> LabelOf<T> {
    /// The label's kind, as it is encoded: one of [`kind`].
    ///
    /// ```
    /// use nettrace_event::label::{Label, kind};
    ///
    /// assert_eq!(Label::Str("tenant", "contoso").kind(), kind::STR);
    /// ```
    #[must_use]
    #[inline]
    pub fn kind(&self) -> u8 {
        match self {
            Self::ActivityId(_) => kind::ACTIVITY_ID,
            Self::RelatedActivityId(_) => kind::RELATED_ACTIVITY_ID,
            Self::TraceId(_) => kind::TRACE_ID,
            Self::SpanId(_) => kind::SPAN_ID,
            Self::Str(..) => kind::STR,
            Self::Int(..) => kind::INT,
            Self::OpCode(_) => kind::OPCODE,
            Self::Keywords(_) => kind::KEYWORDS,
            Self::Level(_) => kind::LEVEL,
            Self::Version(_) => kind::VERSION,
        }
    }

    /// The value of a label that replaces a value of the event's type.
    #[must_use]
    pub fn replacement(&self) -> Option<u64> {
        match *self {
            Self::OpCode(value) | Self::Level(value) | Self::Version(value) => Some(value.into()),
            Self::Keywords(value) => Some(value),
            _ => None,
        }
    }
}

impl<T: AsRef<str>> LabelOf<T> {
    /// The same label, with its texts borrowed.
    #[must_use]
    pub fn borrowed(&self) -> Label<'_> {
        match self {
            Self::ActivityId(id) => Label::ActivityId(*id),
            Self::RelatedActivityId(id) => Label::RelatedActivityId(*id),
            Self::TraceId(id) => Label::TraceId(*id),
            Self::SpanId(id) => Label::SpanId(*id),
            Self::Str(key, value) => Label::Str(key.as_ref(), value.as_ref()),
            Self::Int(key, value) => Label::Int(key.as_ref(), *value),
            Self::OpCode(value) => Label::OpCode(*value),
            Self::Keywords(value) => Label::Keywords(*value),
            Self::Level(value) => Label::Level(*value),
            Self::Version(value) => Label::Version(*value),
        }
    }

    /// The length of its texts in bytes.
    #[must_use]
    pub fn text_len(&self) -> usize {
        match self {
            Self::Str(key, value) => key.as_ref().len() + value.as_ref().len(),
            Self::Int(key, _) => key.as_ref().len(),
            _ => 0,
        }
    }
}

/// The kinds of labels that replace a value of the event's type.
pub const REPLACEMENTS: [u8; 4] = [kind::OPCODE, kind::KEYWORDS, kind::LEVEL, kind::VERSION];

/// The encoding of a label after its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelForm {
    /// A fixed number of bytes.
    Bytes(usize),
    /// A key and a text.
    Text,
    /// A key and a number.
    Number,
}

impl LabelForm {
    /// The encoding of labels of a [`kind`]. `None`: there is no such kind.
    #[must_use]
    #[inline]
    pub const fn of(kind: u8) -> Option<Self> {
        Some(match kind {
            kind::ACTIVITY_ID | kind::RELATED_ACTIVITY_ID | kind::TRACE_ID => Self::Bytes(16),
            kind::SPAN_ID | kind::KEYWORDS => Self::Bytes(8),
            kind::STR => Self::Text,
            kind::INT => Self::Number,
            kind::OPCODE | kind::LEVEL | kind::VERSION => Self::Bytes(1),
            _ => return None,
        })
    }
}

/// The bit in a label's kind, which is its first byte, that marks the last label of a list.
pub const LAST_LABEL: u8 = 0x80;

/// Writes a label at the start of `out`, as LabelList blocks have it, without [`LAST_LABEL`].
/// Returns its length, or `None` if it does not fit.
///
/// ```
/// use nettrace_event::label::{Label, put_label};
///
/// let mut bytes = [0; 8];
/// assert_eq!(put_label(&Label::Str("id", "a1"), &mut bytes), Some(7));
/// assert_eq!(bytes[..7], *b"\x05\x02id\x02a1");
/// assert_eq!(put_label(&Label::Str("name", "too long"), &mut bytes), None);
/// ```
#[inline]
pub fn put_label(label: &Label<'_>, out: &mut [u8]) -> Option<usize> {
    let kind = label.kind();
    match *label {
        Label::ActivityId(id) | Label::RelatedActivityId(id) => {
            fixed(kind, guid::swapped(&id), out)
        }
        Label::TraceId(bytes) => fixed(kind, bytes, out),
        Label::SpanId(value) | Label::Keywords(value) => fixed(kind, value.to_le_bytes(), out),
        Label::Str(key, value) => {
            *out.first_mut()? = kind;
            let at = text(key, out, 1)?;
            text(value, out, at)
        }
        Label::Int(key, value) => {
            *out.first_mut()? = kind;
            let at = text(key, out, 1)?;
            varuint(zigzag(value), out, at)
        }
        Label::OpCode(value) | Label::Level(value) | Label::Version(value) => {
            fixed(kind, [value], out)
        }
    }
}

#[inline]
fn fixed<const N: usize>(kind: u8, bytes: [u8; N], out: &mut [u8]) -> Option<usize> {
    let (first, rest) = out.split_first_mut()?;
    *rest.first_chunk_mut()? = bytes;
    *first = kind;
    Some(1 + N)
}

/// Writes text at `at` and returns the position after it.
#[inline]
fn text(text: &str, out: &mut [u8], at: usize) -> Option<usize> {
    let at = varuint(text.len() as u64, out, at)?;
    out.get_mut(at..)?.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    Some(at + text.len())
}

#[inline]
fn varuint(value: u64, out: &mut [u8], at: usize) -> Option<usize> {
    if value < 0x80 {
        *out.get_mut(at)? = value as u8;
        return Some(at + 1);
    }
    let mut bytes = [0; MAX_VARUINT64];
    let len = put_varuint(&mut bytes, 0, value);
    out.get_mut(at..)?.get_mut(..len)?.copy_from_slice(&bytes[..len]);
    Some(at + len)
}

/// A label as [`put_label`] wrote it, whose value is not decoded.
///
/// [`split_label`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelBytes<'a> {
    /// The kind, without [`LAST_LABEL`].
    pub kind: u8,
    /// The key, in UTF-8, of a label that has one.
    pub key: &'a [u8],
    /// The bytes after the key.
    pub value: &'a [u8],
    /// The length of the label in bytes, its kind included.
    pub len: usize,
}

impl<'a> LabelBytes<'a> {
    /// Decodes the value. `text` makes a text of its bytes, which should be UTF-8. `None` if it
    /// makes none.
    #[inline]
    #[must_use]
    pub fn decode<T>(&self, text: impl Fn(&'a [u8]) -> Option<T>) -> Option<LabelOf<T>> {
        let Self { kind, key, value, .. } = *self;
        let word = || value.first_chunk().copied().map(u64::from_le_bytes);
        let byte = || value.first().copied();
        let guid = || value.first_chunk().map(guid::swapped);
        Some(match kind {
            kind::ACTIVITY_ID => LabelOf::ActivityId(guid()?),
            kind::RELATED_ACTIVITY_ID => LabelOf::RelatedActivityId(guid()?),
            kind::TRACE_ID => LabelOf::TraceId(*value.first_chunk()?),
            kind::SPAN_ID => LabelOf::SpanId(word()?),
            kind::STR => LabelOf::Str(text(key)?, text(counted(value, &mut 0)?)?),
            kind::INT => {
                let number = read_varuint(value, &mut 0, MAX_VARUINT64)?;
                LabelOf::Int(text(key)?, unzigzag(number))
            }
            kind::OPCODE => LabelOf::OpCode(byte()?),
            kind::KEYWORDS => LabelOf::Keywords(word()?),
            kind::LEVEL => LabelOf::Level(byte()?),
            _ => LabelOf::Version(byte()?),
        })
    }
}

/// Finds the end of the label at the start of `bytes`. Returns `None` if there is none.
///
/// ```
/// use nettrace_event::label::split_label;
///
/// // A list: a text, and a number that is the last label.
/// let list = b"\x05\x02id\x02a1\x86\x03try\x02";
/// let first = split_label(list).expect("there is a label");
/// assert_eq!((first.key, first.len), (&b"id"[..], 7));
/// let second = split_label(&list[first.len..]).expect("there is another");
/// assert_eq!(second.key, b"try");
/// ```
#[must_use]
#[inline]
pub fn split_label(bytes: &[u8]) -> Option<LabelBytes<'_>> {
    let kind = *bytes.first()? & !LAST_LABEL;
    let (mut key, mut at) = (&[][..], 1);
    let form = LabelForm::of(kind)?;
    if !matches!(form, LabelForm::Bytes(_)) {
        key = counted(bytes, &mut at)?;
    }
    let value_at = at;
    match form {
        LabelForm::Bytes(len) => at += len,
        LabelForm::Text => _ = counted(bytes, &mut at)?,
        LabelForm::Number => _ = read_varuint(bytes, &mut at, MAX_VARUINT64)?,
    }
    Some(LabelBytes { kind, key, value: bytes.get(value_at..at)?, len: at })
}

#[inline]
fn counted<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len = read_varuint32(bytes, at)? as usize;
    let text = bytes.get(*at..)?.get(..len)?;
    *at += len;
    Some(text)
}

/// Reads the label at the start of `bytes`, and its length. Returns `None` if there is none.
///
/// ```
/// use nettrace_event::label::{Label, read_label};
///
/// assert_eq!(read_label(b"\x05\x02id\x02a1 and more"), Some((Label::Str("id", "a1"), 7)));
/// assert_eq!(read_label(b"\x05\x02id"), None);
/// ```
#[must_use]
pub fn read_label(bytes: &[u8]) -> Option<(Label<'_>, usize)> {
    let label = split_label(bytes)?;
    let text = |bytes| core::str::from_utf8(bytes).ok();
    Some((label.decode(text)?, label.len))
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_reads_back_and_no_part_of_one_does() {
        let long = core::str::from_utf8(&[b'x'; 200]).unwrap();
        let labels = [
            Label::ActivityId(*b"0123456789abcdef"),
            Label::RelatedActivityId([2; 16]),
            Label::TraceId([0xff; 16]),
            Label::SpanId(u64::MAX),
            Label::Str("ключ", ""),
            Label::Str("", long),
            Label::Int("n", i64::MIN),
            Label::Int(long, -1),
            Label::OpCode(7),
            Label::Keywords(1 << 63),
            Label::Level(2),
            Label::Version(255),
        ];
        for expected in labels {
            let mut bytes = [0; 256];
            let len = put_label(&expected, &mut bytes).unwrap();
            bytes[0] |= LAST_LABEL;
            assert_eq!(read_label(&bytes), Some((expected, len)));
            let mut room = [0; 256];
            for shorter in 0..len {
                assert_eq!(read_label(&bytes[..shorter]), None, "{expected:?}");
                assert_eq!(put_label(&expected, &mut room[..shorter]), None);
            }
        }
    }
}
