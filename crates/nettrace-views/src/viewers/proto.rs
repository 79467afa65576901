//! Protocol buffers, as far as writing needs them.
//!
//! A message that is inside of another is preceded by its size. [`open`] leaves one byte for the
//! size, and [`close`] fills it in. Messages of 128 bytes and more are moved for a longer size.

/// The wire type of varints, in the lowest three bits of a tag.
const VARINT: u32 = 0;
/// The wire type of eight bytes.
const FIXED64: u32 = 1;
/// The wire type of bytes that are preceded by their size.
const LENGTH: u32 = 2;

/// Writes a number in groups of seven bits, the lowest first.
#[inline]
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn tag(out: &mut Vec<u8>, field: u32, wire: u32) {
    varint(out, u64::from(field << 3 | wire));
}

/// Writes a number. Negative numbers of signed fields are written as two's complement of 64 bits.
#[inline]
pub(crate) fn uint(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, VARINT);
    varint(out, value);
}

/// Writes a `fixed64`.
#[inline]
pub(crate) fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a `double`.
pub(crate) fn double(out: &mut Vec<u8>, field: u32, value: f64) {
    fixed64(out, field, value.to_bits());
}

/// Writes a `string` or `bytes`.
#[inline]
pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    tag(out, field, LENGTH);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A message that was begun, by the position of its content.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Opened(usize);

/// Begins a message in a field.
#[inline]
pub(crate) fn open(out: &mut Vec<u8>, field: u32) -> Opened {
    tag(out, field, LENGTH);
    out.push(0);
    Opened(out.len())
}

/// Ends a message.
#[inline]
pub(crate) fn close(out: &mut Vec<u8>, Opened(start): Opened) {
    let size = out.len() - start;
    if size < 0x80 {
        out[start - 1] = size as u8;
        return;
    }
    close_long(out, start, size);
}

#[cold]
fn close_long(out: &mut Vec<u8>, start: usize, size: usize) {
    let mut digits = Vec::with_capacity(5);
    varint(&mut digits, size as u64);
    out.splice(start - 1..start, digits);
}

/// Up to 64 bytes that are written at once. A vector would look for room at each byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short {
    bytes: [u8; Self::ROOM],
    len: usize,
}

impl Short {
    const ROOM: usize = 64;

    #[inline]
    pub(crate) fn new() -> Self {
        Self { bytes: [0; Self::ROOM], len: 0 }
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        // Callers write few numbers, so the place is not beyond the end.
        self.bytes[self.len % Self::ROOM] = byte;
        self.len += 1;
    }

    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    /// Writes a number.
    #[inline]
    pub(crate) fn uint(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field << 3 | VARINT));
        self.varint(value);
    }

    /// Writes a `fixed64`.
    #[inline]
    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field << 3 | FIXED64));
        value.to_le_bytes().into_iter().for_each(|byte| self.push(byte));
    }

    /// Begins a message of `size` bytes in a field.
    #[inline]
    pub(crate) fn begin(&mut self, field: u32, size: usize) {
        self.varint(u64::from(field << 3 | LENGTH));
        self.varint(size as u64);
    }

    /// The bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.min(Self::ROOM)]
    }
}

/// Writes a message with a number and further bytes.
#[inline]
pub(crate) fn with_number(
    out: &mut Vec<u8>,
    message: u32,
    (field, value): (u32, u64),
    more: &[u8],
) {
    let mut number = Short::new();
    number.uint(field, value);
    let mut short = Short::new();
    short.begin(message, number.len + more.len());
    number.bytes().iter().for_each(|byte| short.push(*byte));
    out.extend_from_slice(short.bytes());
    out.extend_from_slice(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_messages_by_hand() {
        let mut out = Vec::new();
        uint(&mut out, 1, 300);
        let outer = open(&mut out, 2);
        bytes(&mut out, 3, b"ab");
        close(&mut out, outer);
        fixed64(&mut out, 16, 7);
        let expected = [8, 0xAC, 2, 0x12, 4, 0x1A, 2, b'a', b'b', 0x81, 1, 7, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(out, expected);
    }

    #[test]
    fn short_pieces_are_the_same() {
        for value in [0, 1, 127, 128, 300, u64::MAX] {
            for len in [0, 5, 114, 130] {
                let more = vec![8; len];
                let (mut out, mut expected) = (vec![1], vec![1]);
                with_number(&mut out, 4, (3, value), &more);
                let message = open(&mut expected, 4);
                uint(&mut expected, 3, value);
                expected.extend_from_slice(&more);
                close(&mut expected, message);
                assert_eq!(out, expected, "{value} {len}");
                let (mut out, mut expected) = (vec![1], vec![1]);
                let (mut body, mut head, mut all) = (Short::new(), Short::new(), Short::new());
                body.uint(1, 2);
                head.uint(8, value);
                head.begin(2000, body.bytes().len() + len);
                all.begin(1, head.bytes().len() + body.bytes().len() + len);
                let parts = [all.bytes(), head.bytes(), body.bytes(), &more];
                parts.into_iter().for_each(|part| out.extend_from_slice(part));
                let outer = open(&mut expected, 1);
                uint(&mut expected, 8, value);
                let inner = open(&mut expected, 2000);
                uint(&mut expected, 1, 2);
                expected.extend_from_slice(&more);
                close(&mut expected, inner);
                close(&mut expected, outer);
                assert_eq!(out, expected, "{value} {len}");
            }
        }
    }

    #[test]
    fn long_messages_have_long_sizes() {
        for size in [0, 1, 125, 126, 127, 128, 16_380, 16_384, 70_000] {
            let mut out = Vec::new();
            let outer = open(&mut out, 1);
            out.extend(std::iter::repeat_n(7, size));
            close(&mut out, outer);
            let mut expected = Vec::new();
            bytes(&mut expected, 1, &vec![7; size]);
            assert_eq!(out, expected, "{size}");
        }
    }
}
