//! Small traces for examples and tests.

/// A trace of version 6: process 17, the thread `main`, and two events `Sale` of the provider
/// `Shop`, each with the field `cents`. The second one has a stack and labels. A sequence point
/// follows. It is for examples and tests.
#[must_use]
pub fn example() -> Vec<u8> {
    const TRACE: u8 = 1;
    const EVENTS: u8 = 2;
    const METADATA: u8 = 3;
    const SEQUENCE_POINT: u8 = 4;
    const STACKS: u8 = 5;
    const THREADS: u8 = 6;
    const LABEL_LISTS: u8 = 8;

    // Major version 6, minor version 0.
    let mut trace = b"Nettrace\0\0\0\0\x06\0\0\0\0\0\0\0".to_vec();
    let mut block = |kind: u8, body: &[u8]| {
        let header = body.len() as u32 | u32::from(kind) << 24;
        trace.extend_from_slice(&header.to_le_bytes());
        trace.extend_from_slice(body);
    };

    // The clock read tick 1,000 on 2026-03-04 at 05:06:07.089. A tick is a microsecond.
    let mut body = Vec::new();
    for part in [2026_u16, 3, 3, 4, 5, 6, 7, 89] {
        body.extend_from_slice(&part.to_le_bytes());
    }
    body.extend_from_slice(&1_000_u64.to_le_bytes());
    body.extend_from_slice(&1_000_000_u64.to_le_bytes());
    body.extend_from_slice(b"\x08\0\0\0\x01\0\0\0\x09ProcessId\x0217");
    block(TRACE, &body);

    // Index 5; 1: name, 2: process id, 3: OS id.
    block(THREADS, b"\x0b\0\x05\x01\x04main\x02\x11\x03\x2a");

    // Id 1, provider, event id 7, name, one field of type UInt32 (10), no optional parts.
    let row = b"\x01\x04Shop\x07\x04Sale\x01\0\x07\0\x05cents\x0a\0\0";
    let mut body = vec![0, 0, row.len() as u8, 0];
    body.extend_from_slice(row);
    block(METADATA, &body);

    // The ids begin with 1, and there is 1 stack, of 16 bytes: two addresses.
    let mut body = b"\x01\0\0\0\x01\0\0\0\x10\0\0\0".to_vec();
    body.extend_from_slice(&0x2010_u64.to_le_bytes());
    body.extend_from_slice(&0x1020_u64.to_le_bytes());
    block(STACKS, &body);

    // The ids begin with 1, and there is 1 list: a text, and a level (9), which is the last label.
    block(LABEL_LISTS, b"\x01\0\0\0\x01\0\0\0\x05\x06tenant\x07contoso\x89\x03");

    let mut body = b"\x14\0\x01\0".to_vec();
    body.extend_from_slice(&2_000_u64.to_le_bytes());
    body.extend_from_slice(&2_500_u64.to_le_bytes());
    // Flags: metadata id, sequence number and capture thread, thread, sorted, payload size. Then
    // the metadata id, the numbers, the processor, the thread, the time, the size.
    body.extend_from_slice(b"\xc7\x01\0\x05\0\x05\xd0\x0f\x04");
    body.extend_from_slice(&1_250_u32.to_le_bytes());
    // Flags: stack, labels, sorted. The stack's id, the time since the row before, the list's id.
    body.extend_from_slice(b"\x58\x01\xf4\x03\x01");
    body.extend_from_slice(&399_u32.to_le_bytes());
    block(EVENTS, &body);

    // The time, no flags, and 1 thread: its index and its last sequence number.
    let mut body = 3_000_u64.to_le_bytes().to_vec();
    body.extend_from_slice(b"\0\0\0\0\x01\0\0\0\x05\x02");
    block(SEQUENCE_POINT, &body);

    block(0, &[]);
    trace
}

/// A trace of Heph's format: two events of stream 3 with times from 2026-01-01 on, `sale` with the
/// attributes `cents` and `items`, and `close`. The event between them was lost.
/// It is for examples and tests.
#[must_use]
pub fn heph_example() -> Vec<u8> {
    let mut trace = Vec::new();
    let mut packet = |magic: u32, body: &[u8]| {
        trace.extend_from_slice(&magic.to_be_bytes());
        trace.extend_from_slice(&(8 + body.len() as u32).to_be_bytes());
        trace.extend_from_slice(body);
    };
    let epoch = 1_767_225_600_000_000_000_u64;
    packet(0x75D1_1D4D, &[b"\0\x05epoch", &epoch.to_be_bytes()[..]].concat());
    // Stream, number, substream, start, end, then the description and the attributes.
    let mut event = |number: u32, start: u64, end: u64, rest: &[u8]| {
        let mut body = 3_u32.to_be_bytes().to_vec();
        body.extend_from_slice(&number.to_be_bytes());
        body.extend([0, start, end].into_iter().flat_map(u64::to_be_bytes));
        body.extend_from_slice(rest);
        packet(0xC1FC_1FB7, &body);
    };
    // An attribute: its name, its type, its value. 1 is u64, 0x84 an array of texts.
    let mut sale = b"\0\x04sale\0\x05cents\x01".to_vec();
    sale.extend_from_slice(&1_250_u64.to_be_bytes());
    sale.extend_from_slice(b"\0\x05items\x84\0\x02\0\x03tea\0\x03cup");
    event(0, 1_000, 4_000, &sale);
    event(2, 5_000, 5_000, b"\0\x05close");
    trace
}
