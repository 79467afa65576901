//! The part of an event before its payload: the header and its extensions. Also the tracepoint's
//! name.

use nettrace_event::{EventSchema, Level};

use crate::{
    buffer::{Buffer, MAX_EVENT_BYTES},
    error::Error,
    layout::{ExtensionHeader, Header, extension, flag},
    metadata,
};

/// The fields that every EventHeader tracepoint declares, in the syntax of registration.
const FIELDS: &str = " u8 eventheader_flags; u8 version; u16 id; u16 tag; u8 opcode; u8 level";

/// Size in bytes of the part before the metadata, for an event without an activity.
pub(crate) const BEFORE_METADATA: usize = Header::SIZE + ExtensionHeader::SIZE;

/// The header of a type. It leaves out an id that was derived from the name. An id promises that
/// the version changes with the layout, and for a derived id nobody has made that promise.
pub(crate) fn of_schema(schema: &EventSchema) -> Header {
    Header {
        flags: FLAGS,
        id: if schema.id_is_explicit { schema.id } else { 0 },
        version: schema.version,
        tag: schema.tag,
        opcode: schema.opcode.unwrap_or(0),
        level: level(schema.level),
    }
}

/// The constant part of an event: the header and the extension with the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preamble {
    bytes: Box<[u8]>,
}

impl Preamble {
    /// The constant part of a type's events.
    pub(crate) fn of_schema(schema: &EventSchema) -> Result<Self, Error> {
        let metadata = metadata::of_schema(schema)?;
        Self::new(of_schema(schema), &metadata, schema.name)
    }

    /// Builds the constant part from a header and metadata; `event` names the event in errors.
    pub(crate) fn new(header: Header, metadata: &[u8], event: &str) -> Result<Self, Error> {
        let mut bytes = vec![0; BEFORE_METADATA];
        bytes.extend_from_slice(metadata);
        complete(header, &mut bytes, event)?;
        Ok(Self { bytes: bytes.into() })
    }

    /// Starts an event: appends the write index and the header.
    #[inline]
    pub(crate) fn begin(&self, index: u32, activity: &Activity<'_>, buffer: &mut Buffer<'_>) {
        begin(&self.bytes, index, activity, buffer);
    }
}

/// Writes header and extension into the first [`BEFORE_METADATA`] bytes, before the metadata.
/// `event` names the event in errors.
pub(crate) fn complete(header: Header, bytes: &mut [u8], event: &str) -> Result<(), Error> {
    let (size, limit) = (bytes.len(), MAX_EVENT_BYTES);
    // Leave room for the extension with activity ids.
    if size + ExtensionHeader::SIZE + 32 > limit {
        return Err(Error::Metadata { event: event.to_owned(), size, limit });
    }
    // Fits, because it is below the limit.
    let metadata_len = (size - BEFORE_METADATA) as u16;
    let (start, rest) = bytes.split_at_mut(Header::SIZE);
    start.copy_from_slice(&Header { flags: FLAGS, ..header }.to_bytes());
    let extension = ExtensionHeader { size: metadata_len, kind: extension::METADATA };
    rest[..ExtensionHeader::SIZE].copy_from_slice(&extension.to_bytes());
    Ok(())
}

/// Starts an event with bytes that [`complete`] has completed.
pub(crate) fn begin(bytes: &[u8], index: u32, activity: &Activity<'_>, buffer: &mut Buffer<'_>) {
    buffer.put(&index.to_ne_bytes());
    let Some(id) = activity.id else { return buffer.put(bytes) };
    begin_in_activity(bytes, id, activity.related, buffer);
}

#[cold]
fn begin_in_activity(
    bytes: &[u8],
    id: &[u8; 16],
    related: Option<&[u8; 16]>,
    buffer: &mut Buffer<'_>,
) {
    let (header, metadata) = bytes.split_at(Header::SIZE);
    buffer.put(header);
    let size = if related.is_some() { 32 } else { 16 };
    let kind = extension::ACTIVITY_ID | extension::CHAIN;
    buffer.put(&ExtensionHeader { size, kind }.to_bytes());
    buffer.put(id);
    if let Some(related) = related {
        buffer.put(related);
    }
    buffer.put(metadata);
}

/// The activity that an event belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity<'a> {
    pub(crate) id: Option<&'a [u8; 16]>,
    pub(crate) related: Option<&'a [u8; 16]>,
}

/// The number of a level. The format has no `LogAlways`. It becomes critical, which no level filter
/// excludes.
pub(crate) fn level(level: Level) -> u8 {
    level.number().max(1)
}

/// The name of a tracepoint: provider, level, keywords, group.
///
/// Each character of the provider's name except ASCII letters, digits and `_` becomes `_`, because
/// `perf` accepts no others in an event name.
pub(crate) fn name_of(provider: &str, group: Option<&str>, level: u8, keywords: u64) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut name: String = provider.chars().map(plain).collect();
    name.push_str(&format!("_L{level:x}K{keywords:x}"));
    if let Some(group) = group {
        name.push('G');
        name.push_str(group);
    }
    name
}

/// The argument of a registration.
pub(crate) fn registration(name: &str) -> String {
    format!("{name}{FIELDS}")
}

const FLAGS: u8 = flag::EXTENSION
    | if cfg!(target_endian = "little") { flag::LITTLE_ENDIAN } else { 0 }
    | if cfg!(target_pointer_width = "64") { flag::POINTER64 } else { 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Storage;

    #[test]
    fn names_as_decoders_split_them() {
        assert_eq!(name_of("Contoso_Shop", None, 4, 0), "Contoso_Shop_L4K0");
        assert_eq!(name_of("Contoso-Shöp.1", Some("g1"), 1, 0x2A), "Contoso_Sh_p_1_L1K2aGg1");
        let longest = name_of(&"x".repeat(233), None, 255, u64::MAX);
        assert_eq!(longest.len(), 254);
    }

    #[test]
    fn a_header_byte_by_byte() {
        let header = Header { id: 0x0102, version: 3, tag: 0x0405, opcode: 1, level: 2, flags: 0 };
        let preamble = Preamble::new(header, b"e\0", "e").unwrap();
        let mut storage = Storage::new();
        let mut buffer = Buffer::new(&mut storage);
        preamble.begin(9, &Activity::default(), &mut buffer);
        if cfg!(all(target_endian = "little", target_pointer_width = "64")) {
            let expected = [9, 0, 0, 0, 7, 3, 2, 1, 5, 4, 1, 2, 2, 0, 1, 0, b'e', 0];
            assert_eq!(buffer.bytes(), Some(&expected[..]));
        }
        buffer.clear();
        let activity = Activity { id: Some(&[7; 16]), related: Some(&[8; 16]) };
        preamble.begin(9, &activity, &mut buffer);
        let bytes = buffer.bytes().unwrap();
        assert_eq!(bytes[12..14], 32_u16.to_ne_bytes());
        assert_eq!(bytes[14..16], 0x8002_u16.to_ne_bytes());
        assert_eq!(bytes[16..48], [[7; 16], [8; 16]].concat());
        assert_eq!(bytes[48..], [&2_u16.to_ne_bytes()[..], &1_u16.to_ne_bytes(), b"e\0"].concat());
    }

    #[test]
    fn metadata_leaves_room() {
        let header = Header::default();
        let most = MAX_EVENT_BYTES - BEFORE_METADATA - ExtensionHeader::SIZE - 32;
        assert!(Preamble::new(header, &vec![b'x'; most], "e").is_ok());
        assert!(Preamble::new(header, &vec![b'x'; most + 1], "e").is_err());
    }
}
