//! A small trace for the examples in the documentation.

/// A trace of version 6: process 17, the thread `main`, and two events `Sale` of the provider
/// `Shop`, each with the field `cents`.
#[doc(hidden)]
#[must_use]
pub fn example() -> Vec<u8> {
    const TRACE: u8 = 1;
    const EVENTS: u8 = 2;
    const METADATA: u8 = 3;
    const THREADS: u8 = 6;

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

    let mut body = b"\x14\0\x01\0".to_vec();
    body.extend_from_slice(&2_000_u64.to_le_bytes());
    body.extend_from_slice(&2_500_u64.to_le_bytes());
    // Flags: metadata id, sequence number and capture thread, thread, sorted, payload size. Then
    // the metadata id, the numbers, the processor, the thread, the time, the size.
    body.extend_from_slice(b"\xc7\x01\0\x05\0\x05\xd0\x0f\x04");
    body.extend_from_slice(&1_250_u32.to_le_bytes());
    // Flags: sorted. The time since the row before.
    body.extend_from_slice(b"\x40\xf4\x03");
    body.extend_from_slice(&399_u32.to_le_bytes());
    block(EVENTS, &body);

    block(0, &[]);
    trace
}
