//! What stands before a payload: the header and its extensions; and the name under which the kernel
//! knows the tracepoint.

use trace_event::{EventSchema, Level, ProviderSchema};

use crate::{
    buffer::{Buffer, MAX_EVENT_BYTES},
    error::Error,
    metadata,
};

/// The fields that every such tracepoint declares, as registration spells them.
const FIELDS: &str = " u8 eventheader_flags; u8 version; u16 id; u16 tag; u8 opcode; u8 level";

const HEADER_BYTES: usize = 8;
const EXTENSION_BYTES: usize = 4;

/// What stands before the metadata of an event without an activity.
pub(crate) const BEFORE_METADATA: usize = HEADER_BYTES + EXTENSION_BYTES;

mod flag {
    pub(super) const POINTER64: u8 = 1;
    pub(super) const LITTLE_ENDIAN: u8 = 2;
    pub(super) const EXTENSION: u8 = 4;
}

mod extension {
    pub(super) const METADATA: u16 = 1;
    pub(super) const ACTIVITY_ID: u16 = 2;
    /// Another extension follows.
    pub(super) const CHAIN: u16 = 0x8000;
}

/// What an event says in its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// 0: none.
    pub(crate) id: u16,
    pub(crate) version: u8,
    pub(crate) tag: u16,
    pub(crate) opcode: u8,
    pub(crate) level: u8,
}

impl Header {
    /// That of a type. An id that was derived from the name is left out: what it would promise,
    /// that the version changes with the layout, nobody has promised.
    pub(crate) fn of_schema(schema: &EventSchema) -> Self {
        Self {
            id: if schema.id_is_explicit { schema.id } else { 0 },
            version: schema.version,
            tag: schema.tag,
            opcode: schema.opcode.unwrap_or(0),
            level: level(schema.level),
        }
    }
}

/// The part of an event that does not change: the header, and the extension with the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preamble {
    bytes: Box<[u8]>,
}

impl Preamble {
    /// That of a type.
    pub(crate) fn of_schema(schema: &EventSchema) -> Result<Self, Error> {
        let metadata = metadata::of_schema(schema)?;
        Self::new(Header::of_schema(schema), &metadata, schema.name)
    }

    /// From a header and metadata; `event` is for the error.
    pub(crate) fn new(header: Header, metadata: &[u8], event: &str) -> Result<Self, Error> {
        let mut bytes = vec![0; BEFORE_METADATA];
        bytes.extend_from_slice(metadata);
        complete(header, &mut bytes, event)?;
        Ok(Self { bytes: bytes.into() })
    }

    /// Starts an event: the number that the kernel knows the tracepoint by, then the header.
    #[inline(always)]
    pub(crate) fn begin(&self, index: u32, activity: &Activity<'_>, buffer: &mut Buffer) {
        begin(&self.bytes, index, activity, buffer);
    }
}

/// Writes header and extension into the first [`BEFORE_METADATA`] bytes, which metadata follows.
/// `event` is for the error.
pub(crate) fn complete(header: Header, bytes: &mut [u8], event: &str) -> Result<(), Error> {
    let (size, limit) = (bytes.len(), MAX_EVENT_BYTES);
    // Room for the extension with activity ids.
    if size + EXTENSION_BYTES + 32 > limit {
        return Err(Error::Metadata { event: event.to_owned(), size, limit });
    }
    // Fits: it is below the limit.
    let metadata_len = (size - BEFORE_METADATA) as u16;
    bytes[..2].copy_from_slice(&[FLAGS, header.version]);
    bytes[2..4].copy_from_slice(&header.id.to_ne_bytes());
    bytes[4..6].copy_from_slice(&header.tag.to_ne_bytes());
    bytes[6..8].copy_from_slice(&[header.opcode, header.level]);
    bytes[8..10].copy_from_slice(&metadata_len.to_ne_bytes());
    bytes[10..12].copy_from_slice(&extension::METADATA.to_ne_bytes());
    Ok(())
}

/// Starts an event with bytes that are [`complete`].
#[inline(always)]
pub(crate) fn begin(bytes: &[u8], index: u32, activity: &Activity<'_>, buffer: &mut Buffer) {
    buffer.put(&index.to_ne_bytes());
    let Some(id) = activity.id else { return buffer.put(bytes) };
    begin_in_activity(bytes, id, activity.related, buffer);
}

#[cold]
fn begin_in_activity(bytes: &[u8], id: &[u8; 16], related: Option<&[u8; 16]>, buffer: &mut Buffer) {
    let (header, metadata) = bytes.split_at(HEADER_BYTES);
    buffer.put(header);
    let size = if related.is_some() { 32_u16 } else { 16 };
    buffer.put(&size.to_ne_bytes());
    buffer.put(&(extension::ACTIVITY_ID | extension::CHAIN).to_ne_bytes());
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

/// The number of a level. `LogAlways`, which the format does not have, is what no filter by level
/// leaves out: critical.
pub(crate) fn level(level: Level) -> u8 {
    (level as u8).max(1)
}

/// The name of a tracepoint: provider, level, keywords, group.
///
/// What is not an ASCII letter, a digit or `_` in the provider's name becomes `_`: `perf` takes no
/// others in the name of an event.
pub(crate) fn tracepoint_name(provider: &ProviderSchema, level: u8, keywords: u64) -> String {
    name_of(provider.name, provider.group, level, keywords)
}

/// The same for a provider that is known at run time.
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

/// What registration takes.
pub(crate) fn registration(name: &str) -> String {
    format!("{name}{FIELDS}")
}

const FLAGS: u8 = flag::EXTENSION
    | if cfg!(target_endian = "little") { flag::LITTLE_ENDIAN } else { 0 }
    | if cfg!(target_pointer_width = "64") { flag::POINTER64 } else { 0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_decoders_split_them() {
        assert_eq!(name_of("Contoso_Shop", None, 4, 0), "Contoso_Shop_L4K0");
        assert_eq!(name_of("Contoso-Shöp.1", Some("g1"), 1, 0x2A), "Contoso_Sh_p_1_L1K2aGg1");
        let longest = name_of(&"x".repeat(233), None, 255, u64::MAX);
        assert_eq!(longest.len(), 254);
    }

    #[test]
    fn a_header_byte_by_byte() {
        let header = Header { id: 0x0102, version: 3, tag: 0x0405, opcode: 1, level: 2 };
        let preamble = Preamble::new(header, b"e\0", "e").unwrap();
        let mut buffer = Buffer::new();
        preamble.begin(9, &Activity::default(), &mut buffer);
        if cfg!(all(target_endian = "little", target_pointer_width = "64")) {
            let expected = [9, 0, 0, 0, 7, 3, 2, 1, 5, 4, 1, 2, 2, 0, 1, 0, b'e', 0];
            assert_eq!(buffer.bytes(), expected);
        }
        buffer.clear();
        let activity = Activity { id: Some(&[7; 16]), related: Some(&[8; 16]) };
        preamble.begin(9, &activity, &mut buffer);
        let bytes = buffer.bytes();
        assert_eq!(bytes[12..14], 32_u16.to_ne_bytes());
        assert_eq!(bytes[14..16], 0x8002_u16.to_ne_bytes());
        assert_eq!(bytes[16..48], [[7; 16], [8; 16]].concat());
        assert_eq!(bytes[48..], [&2_u16.to_ne_bytes()[..], &1_u16.to_ne_bytes(), b"e\0"].concat());
    }

    #[test]
    fn metadata_leaves_room() {
        let header = Header::default();
        let most = MAX_EVENT_BYTES - HEADER_BYTES - EXTENSION_BYTES - EXTENSION_BYTES - 32;
        assert!(Preamble::new(header, &vec![b'x'; most], "e").is_ok());
        assert!(Preamble::new(header, &vec![b'x'; most + 1], "e").is_err());
    }
}
