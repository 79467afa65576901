//! Builds streams byte by byte, from the specification of the format alone. It uses nothing of this
//! project's writer.
#![allow(missing_docs, reason = "names that the format gives")]
#![allow(clippy::new_without_default, reason = "a stream has a beginning of its own")]

pub mod hostile;
pub mod random;
pub mod runtime;
pub mod samples;
pub mod unusual;
pub mod v5;
pub mod v5_random;
pub mod v5_samples;

/// A stream under construction.
#[derive(Clone, Debug)]
pub struct Stream {
    pub bytes: Vec<u8>,
}

pub const TRACE: u8 = 1;
pub const EVENT: u8 = 2;
pub const METADATA: u8 = 3;
pub const SEQUENCE_POINT: u8 = 4;
pub const STACK: u8 = 5;
pub const THREAD: u8 = 6;
pub const REMOVE_THREAD: u8 = 7;
pub const LABEL_LIST: u8 = 8;

impl Stream {
    /// A stream header without any blocks.
    pub fn bare() -> Self {
        let mut bytes = b"Nettrace".to_vec();
        for word in [0_u32, 6, 0] {
            bytes.extend(word.to_le_bytes());
        }
        Self { bytes }
    }

    /// A stream that begins on 2026-03-04 at tick 1000. A tick is a microsecond.
    pub fn new() -> Self {
        Self::with_keys(&[("ProcessId", "77"), ("HardwareThreadCount", "4")])
    }

    pub fn with_keys(keys: &[(&str, &str)]) -> Self {
        Self::begin(1000, keys)
    }

    /// Like [`new`](Self::new), but begins at `tick`.
    pub fn at(tick: u64) -> Self {
        Self::begin(tick, &[])
    }

    fn begin(tick: u64, keys: &[(&str, &str)]) -> Self {
        let mut body = Vec::new();
        for part in [2026_u16, 3, 3, 4, 5, 6, 7, 89] {
            body.extend(part.to_le_bytes());
        }
        body.extend(tick.to_le_bytes());
        body.extend(1_000_000_u64.to_le_bytes());
        body.extend(8_u32.to_le_bytes());
        body.extend((keys.len() as u32).to_le_bytes());
        for (key, value) in keys {
            string(&mut body, key);
            string(&mut body, value);
        }
        let mut stream = Self::bare();
        stream.block(TRACE, &body);
        stream
    }

    pub fn block(&mut self, kind: u8, body: &[u8]) -> &mut Self {
        let header = u32::try_from(body.len()).unwrap() | u32::from(kind) << 24;
        self.bytes.extend(header.to_le_bytes());
        self.bytes.extend(body);
        self
    }

    /// Adds a thread with a name, the process id 77 and the OS id `index` + 1000.
    pub fn thread(&mut self, index: u64) -> &mut Self {
        let mut row = Vec::new();
        varuint(&mut row, index);
        row.push(1);
        string(&mut row, &format!("worker {index}"));
        row.push(2);
        varuint(&mut row, 77);
        row.push(3);
        varuint(&mut row, index + 1000);
        self.thread_row(&row)
    }

    pub fn thread_row(&mut self, row: &[u8]) -> &mut Self {
        let mut body = (row.len() as u16).to_le_bytes().to_vec();
        body.extend(row);
        self.block(THREAD, &body)
    }

    pub fn metadata(&mut self, event: &EventType) -> &mut Self {
        let row = event.row();
        let mut body = vec![0, 0];
        body.extend((row.len() as u16).to_le_bytes());
        body.extend(row);
        self.block(METADATA, &body)
    }

    /// Adds an event type without fields, with provider `Test` and the name `E` plus the id.
    pub fn simple_metadata(&mut self, id: u64) -> &mut Self {
        self.metadata(&EventType::new(id, "Test", id, &format!("E{id}")))
    }

    pub fn events(&mut self, rows: &[Row]) -> &mut Self {
        let body = event_block(rows);
        self.block(EVENT, &body)
    }

    pub fn stacks(&mut self, first: u32, stacks: &[&[u64]]) -> &mut Self {
        let mut body = first.to_le_bytes().to_vec();
        body.extend((stacks.len() as u32).to_le_bytes());
        for stack in stacks {
            body.extend((stack.len() as u32 * 8).to_le_bytes());
            for address in *stack {
                body.extend(address.to_le_bytes());
            }
        }
        self.block(STACK, &body)
    }

    /// Adds label lists. Each label is given as bytes, which begin with its kind.
    pub fn label_lists(&mut self, first: u32, lists: &[&[Vec<u8>]]) -> &mut Self {
        let mut body = first.to_le_bytes().to_vec();
        body.extend((lists.len() as u32).to_le_bytes());
        for list in lists {
            for (i, label) in list.iter().enumerate() {
                let start = body.len();
                body.extend(label);
                if i + 1 == list.len() {
                    body[start] |= 0x80;
                }
            }
        }
        self.block(LABEL_LIST, &body)
    }

    pub fn sequence_point(&mut self, time: u64, flags: u32, threads: &[(u64, u32)]) -> &mut Self {
        let mut body = time.to_le_bytes().to_vec();
        body.extend(flags.to_le_bytes());
        body.extend((threads.len() as u32).to_le_bytes());
        for (index, sequence) in threads {
            varuint(&mut body, *index);
            varuint(&mut body, (*sequence).into());
        }
        self.block(SEQUENCE_POINT, &body)
    }

    pub fn remove_thread(&mut self, index: u64, sequence: u32) -> &mut Self {
        let mut body = Vec::new();
        varuint(&mut body, index);
        varuint(&mut body, sequence.into());
        self.block(REMOVE_THREAD, &body)
    }

    /// Ends the stream.
    pub fn end(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.extend([0; 4]);
        bytes
    }
}

/// An event to write.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub metadata: u32,
    pub sequence: u32,
    pub capture: u64,
    pub thread: u64,
    pub processor: u32,
    pub stack: u32,
    pub labels: u32,
    pub time: u64,
    pub sorted: bool,
    pub payload: Vec<u8>,
    /// The activity id, like `related` in versions 4 and 5 only.
    pub activity: [u8; 16],
    pub related: [u8; 16],
}

impl Row {
    /// An event of type 1 on its own thread and processor 2.
    pub fn new(thread: u64, sequence: u32, time: u64) -> Self {
        Self {
            metadata: 1,
            sequence,
            capture: thread,
            thread,
            processor: 2,
            time,
            ..Self::default()
        }
    }

    pub fn sorted(mut self) -> Self {
        self.sorted = true;
        self
    }

    pub fn metadata(mut self, id: u32) -> Self {
        self.metadata = id;
        self
    }

    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    pub fn labels(mut self, labels: u32) -> Self {
        self.labels = labels;
        self
    }
}

/// A whole event block with compressed rows and a header of 20 bytes.
pub fn event_block(rows: &[Row]) -> Vec<u8> {
    compressed_block(rows, |out, last, row| {
        if row.labels == last.labels {
            return 0;
        }
        varuint(out, row.labels.into());
        16
    })
}

/// The body of an event block of any version. What a row says of its context differs among the
/// versions: `context` writes it and returns its flags.
fn compressed_block(rows: &[Row], context: impl Fn(&mut Vec<u8>, &Row, &Row) -> u8) -> Vec<u8> {
    let mut body = block_header(1, rows);
    let mut last = &Row::default();
    for row in rows {
        compressed(&mut body, last, row, &context);
        last = row;
    }
    body
}

/// The same with uncompressed rows. Rows that are NOT sorted have the high bit of the metadata id
/// set.
pub fn plain_event_block(rows: &[Row]) -> Vec<u8> {
    let mut body = block_header(0, rows);
    for row in rows {
        body.extend((48 + row.payload.len() as u32).to_le_bytes());
        body.extend((row.metadata | if row.sorted { 0 } else { 1 << 31 }).to_le_bytes());
        body.extend(row.sequence.to_le_bytes());
        body.extend(row.thread.to_le_bytes());
        body.extend(row.capture.to_le_bytes());
        body.extend(row.processor.to_le_bytes());
        body.extend(row.stack.to_le_bytes());
        body.extend(row.time.to_le_bytes());
        body.extend(row.labels.to_le_bytes());
        body.extend((row.payload.len() as u32).to_le_bytes());
        body.extend(&row.payload);
    }
    body
}

fn block_header(flags: u16, rows: &[Row]) -> Vec<u8> {
    let mut body = 20_u16.to_le_bytes().to_vec();
    body.extend(flags.to_le_bytes());
    body.extend(rows.iter().map(|row| row.time).min().unwrap_or(0).to_le_bytes());
    body.extend(rows.iter().map(|row| row.time).max().unwrap_or(0).to_le_bytes());
    body
}

fn compressed(
    out: &mut Vec<u8>,
    last: &Row,
    row: &Row,
    context: impl Fn(&mut Vec<u8>, &Row, &Row) -> u8,
) {
    let flags_at = out.len();
    out.push(if row.sorted { 64 } else { 0 });
    let set = |out: &mut Vec<u8>, flag| out[flags_at] |= flag;
    if row.metadata != last.metadata {
        set(out, 1);
        varuint(out, row.metadata.into());
    }
    let gap = row.sequence.wrapping_sub(last.sequence).wrapping_sub(1);
    if gap != 0 || row.capture != last.capture || row.processor != last.processor {
        set(out, 2);
        varuint(out, gap.into());
        varuint(out, row.capture);
        varuint(out, row.processor.into());
    }
    if row.thread != last.thread {
        set(out, 4);
        varuint(out, row.thread);
    }
    if row.stack != last.stack {
        set(out, 8);
        varuint(out, row.stack.into());
    }
    varuint(out, row.time.wrapping_sub(last.time));
    let flags = context(out, last, row);
    set(out, flags);
    if row.payload.len() != last.payload.len() {
        set(out, 128);
        varuint(out, row.payload.len() as u64);
    }
    out.extend(&row.payload);
}

/// An event type to write.
#[derive(Clone, Debug)]
pub struct EventType {
    pub id: u64,
    pub provider: String,
    pub event_id: u64,
    pub name: String,
    /// The names of the fields, and the bytes of their types.
    pub fields: Vec<(String, Vec<u8>)>,
    pub optional: Vec<u8>,
}

impl EventType {
    pub fn new(id: u64, provider: &str, event_id: u64, name: &str) -> Self {
        let (provider, name) = (provider.to_owned(), name.to_owned());
        Self { id, provider, event_id, name, fields: Vec::new(), optional: Vec::new() }
    }

    pub fn field(mut self, name: &str, ty: &[u8]) -> Self {
        self.fields.push((name.to_owned(), ty.to_vec()));
        self
    }

    pub fn optional(mut self, bytes: &[u8]) -> Self {
        self.optional.extend(bytes);
        self
    }

    pub fn optional_text(mut self, kind: u8, texts: &[&str]) -> Self {
        self.optional.push(kind);
        for text in texts {
            string(&mut self.optional, text);
        }
        self
    }

    pub fn row(&self) -> Vec<u8> {
        let mut row = Vec::new();
        varuint(&mut row, self.id);
        string(&mut row, &self.provider);
        varuint(&mut row, self.event_id);
        string(&mut row, &self.name);
        let fields: Vec<_> = self.fields.iter().map(|(n, t)| (&**n, t.clone())).collect();
        row.extend(fields_of(&fields));
        row.extend((self.optional.len() as u16).to_le_bytes());
        row.extend(&self.optional);
        row
    }
}

/// Encodes field descriptions from names and bytes of types.
pub fn fields_of(fields: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = (fields.len() as u16).to_le_bytes().to_vec();
    for (name, ty) in fields {
        let mut field = Vec::new();
        string(&mut field, name);
        field.extend(ty);
        out.extend((field.len() as u16).to_le_bytes());
        out.extend(field);
    }
    out
}

pub fn varuint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn varint(out: &mut Vec<u8>, value: i64) {
    varuint(out, (value << 1 ^ value >> 63) as u64);
}

pub fn string(out: &mut Vec<u8>, text: &str) {
    varuint(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// Encodes text as a payload field of type 18.
pub fn utf16z(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}
