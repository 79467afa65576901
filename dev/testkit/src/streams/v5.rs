//! Builds streams of versions 4 and 5 byte by byte, from the specification of the format alone.

use super::{Row, block_header, compressed_block, utf16z, varuint};

/// A stream of FastSerialization objects under construction.
#[derive(Clone, Debug)]
pub struct Objects {
    pub bytes: Vec<u8>,
}

pub const EVENTS: &str = "EventBlock";
pub const METADATA: &str = "MetadataBlock";
pub const STACKS: &str = "StackBlock";
pub const POINT: &str = "SPBlock";

impl Objects {
    /// A stream of process 77 with four processors. It begins on 2026-03-04 at tick 1000. A tick is
    /// a microsecond.
    pub fn new() -> Self {
        Self::with_version(4)
    }

    pub fn with_version(version: u32) -> Self {
        let mut stream = Self { bytes: b"Nettrace\x14\0\0\0!FastSerialization.1".to_vec() };
        stream.start("Trace", version, version);
        for part in [2026_u16, 3, 3, 4, 5, 6, 7, 89] {
            stream.bytes.extend(part.to_le_bytes());
        }
        stream.bytes.extend(1000_u64.to_le_bytes());
        stream.bytes.extend(1_000_000_u64.to_le_bytes());
        for number in [8_u32, 77, 4, 0] {
            stream.bytes.extend(number.to_le_bytes());
        }
        stream.bytes.push(6);
        stream
    }

    /// Starts an object: writes its tags and its type.
    pub fn start(&mut self, name: &str, version: u32, reader: u32) -> &mut Self {
        self.bytes.extend([5, 5, 1]);
        self.bytes.extend(version.to_le_bytes());
        self.bytes.extend(reader.to_le_bytes());
        self.bytes.extend((name.len() as u32).to_le_bytes());
        self.bytes.extend(name.as_bytes());
        self.bytes.push(6);
        self
    }

    /// Writes a size, padding and a body, then `tagged`, then the end of the object.
    pub fn body(&mut self, body: &[u8], tagged: &[u8]) -> &mut Self {
        self.bytes.extend((body.len() as u32).to_le_bytes());
        while self.bytes.len() % 4 != 0 {
            self.bytes.push(0);
        }
        self.bytes.extend(body);
        self.bytes.extend(tagged);
        self.bytes.push(6);
        self
    }

    pub fn object(&mut self, name: &str, body: &[u8]) -> &mut Self {
        self.start(name, 2, 2).body(body, &[])
    }

    pub fn events(&mut self, rows: &[Row]) -> &mut Self {
        let body = event_block(rows);
        self.object(EVENTS, &body)
    }

    /// Adds uncompressed rows. `padding` says whether zeros follow payloads, `counted` whether the
    /// size of a row includes them.
    pub fn plain_events(&mut self, rows: &[Row], padding: bool, counted: bool) -> &mut Self {
        // Padding is relative to the start of the stream. Bodies begin at multiples of four.
        let mut body = block_header(0, rows);
        for row in rows {
            plain(&mut body, row, padding, counted);
        }
        self.object(EVENTS, &body)
    }

    pub fn metadata(&mut self, types: &[Vec<u8>]) -> &mut Self {
        let mut body = block_header(1, &[]);
        for (i, blob) in types.iter().enumerate() {
            // The first row states its thread and processor (0, none), as in .NET.
            body.push(if i == 0 { 0x82 } else { 0x80 });
            if i == 0 {
                body.extend([0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]);
            }
            body.push(0); // no difference in time
            varuint(&mut body, blob.len() as u64);
            body.extend(blob);
        }
        self.object(METADATA, &body)
    }

    pub fn plain_metadata(&mut self, types: &[Vec<u8>], padding: bool) -> &mut Self {
        let mut body = block_header(0, &[]);
        for blob in types {
            let row = Row { payload: blob.clone(), ..Row::default() };
            plain(&mut body, &row, padding, false);
        }
        self.object(METADATA, &body)
    }

    pub fn stacks(&mut self, first: u32, stacks: &[&[u64]]) -> &mut Self {
        let mut body = first.to_le_bytes().to_vec();
        body.extend((stacks.len() as u32).to_le_bytes());
        for stack in stacks {
            body.extend((stack.len() as u32 * 8).to_le_bytes());
            stack.iter().for_each(|address| body.extend(address.to_le_bytes()));
        }
        self.object(STACKS, &body)
    }

    pub fn sequence_point(&mut self, time: u64, threads: &[(u64, u32)]) -> &mut Self {
        let mut body = time.to_le_bytes().to_vec();
        body.extend((threads.len() as u32).to_le_bytes());
        for (id, sequence) in threads {
            body.extend(id.to_le_bytes());
            body.extend(sequence.to_le_bytes());
        }
        self.object(POINT, &body)
    }

    /// Ends the stream.
    pub fn end(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.push(1);
        bytes
    }
}

/// An event type: its number, provider `Test`, event id, name, level 4, version 2 and keyword 16.
/// The description of its fields follows.
pub fn event_type(id: u32, event_id: u32, name: &str, fields: &[u8]) -> Vec<u8> {
    event_type_of("Test", id, event_id, name, fields)
}

/// The same, of another provider.
pub fn event_type_of(provider: &str, id: u32, event_id: u32, name: &str, fields: &[u8]) -> Vec<u8> {
    let mut blob = id.to_le_bytes().to_vec();
    blob.extend(utf16z(provider));
    blob.extend(event_id.to_le_bytes());
    blob.extend(utf16z(name));
    blob.extend(16_u64.to_le_bytes());
    blob.extend(2_u32.to_le_bytes());
    blob.extend(4_u32.to_le_bytes());
    blob.extend(fields);
    blob
}

/// An event type without fields.
pub fn simple_type(id: u32) -> Vec<u8> {
    event_type(id, id, &format!("E{id}"), &[0; 4])
}

/// Describes fields as version 4 does: type, then name.
pub fn fields(fields: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = (fields.len() as u32).to_le_bytes().to_vec();
    for (name, ty) in fields {
        out.extend(ty);
        out.extend(utf16z(name));
    }
    out
}

/// Describes fields as the tag of version 5 does: size, name, type.
pub fn tagged_fields(fields: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = (fields.len() as u32).to_le_bytes().to_vec();
    for (name, ty) in fields {
        let name = utf16z(name);
        out.extend((4 + name.len() as u32 + ty.len() as u32).to_le_bytes());
        out.extend(name);
        out.extend(ty);
    }
    out
}

/// A type that consists of one type code, or of several: an array and its elements.
pub fn code(codes: &[u32]) -> Vec<u8> {
    codes.iter().flat_map(|code| code.to_le_bytes()).collect()
}

/// An object type, from the description of its fields.
pub fn object(fields: &[u8]) -> Vec<u8> {
    [&code(&[1]), fields].concat()
}

/// A tag in the metadata of version 5.
pub fn tag(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = (content.len() as u32).to_le_bytes().to_vec();
    out.push(kind);
    out.extend(content);
    out
}

/// The body of an event block with compressed rows.
pub fn event_block(rows: &[Row]) -> Vec<u8> {
    compressed_block(rows, |out, last, row| {
        let mut flags = 0;
        if row.activity != last.activity {
            flags |= 16;
            out.extend(row.activity);
        }
        if row.related != last.related {
            flags |= 32;
            out.extend(row.related);
        }
        flags
    })
}

fn plain(out: &mut Vec<u8>, row: &Row, padded: bool, counted: bool) {
    let size = row.payload.len() as u32;
    let padding = if padded { (out.len() as u32 + 80 + size).wrapping_neg() % 4 } else { 0 };
    out.extend((76 + size + if counted { padding } else { 0 }).to_le_bytes());
    // Rows that are NOT sorted have the high bit set.
    out.extend((row.metadata | if row.sorted { 0 } else { 1 << 31 }).to_le_bytes());
    out.extend(row.sequence.to_le_bytes());
    out.extend(row.thread.to_le_bytes());
    out.extend(row.capture.to_le_bytes());
    out.extend(row.processor.to_le_bytes());
    out.extend(row.stack.to_le_bytes());
    out.extend(row.time.to_le_bytes());
    out.extend(row.activity);
    out.extend(row.related);
    out.extend(size.to_le_bytes());
    out.extend(&row.payload);
    out.extend(std::iter::repeat_n(0, padding as usize));
}
