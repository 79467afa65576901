//! Gzip for texts of which some are the same: ids of spans and traces.
//!
//! Compressors look for what is the same byte by byte. Here the ids are known before they are text,
//! so each is looked up once. The rest is what RFC 1951 calls dynamic Huffman codes: a digit takes
//! four bits, and a text that came a moment ago two or three bytes.

/// How far back a text can be, and how long a match can be (RFC 1951).
pub(crate) const FARTHEST: usize = 1 << 15;
const LONGEST: usize = 258;

/// The shortest match. A shorter one takes as many bits as its digits.
pub(crate) const SHORTEST: usize = 5;

/// The symbols of literals and lengths, and of distances.
const LITERALS: usize = 286;
const DISTANCES: usize = 30;

/// The symbol that ends a block.
const END: usize = 256;

/// The longest code of a symbol, in bits.
const BITS: u8 = 15;

/// The places of lengths of codes of codes: one for each symbol, in the order of RFC 1951.
const ORDER: [u8; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// What follows each other: bytes that stand in the text, or ones that came before.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Literals(u32),
    Match { length: u16, distance: u16 },
}

/// A text and how to compress it.
#[derive(Debug, Default)]
pub(crate) struct Text {
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Text {
    /// The size of the text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds what is not known to have come before.
    #[inline]
    pub(crate) fn literals(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        match self.pieces.last_mut() {
            Some(Piece::Literals(count)) => *count += bytes.len() as u32,
            _ => self.pieces.push(Piece::Literals(bytes.len() as u32)),
        }
    }

    /// Adds `length` bytes that begin at `place` of the text, which has one byte or more from there
    /// on. They repeat what they add themselves if they are more than that.
    #[inline]
    pub(crate) fn again(&mut self, place: usize, mut length: usize) {
        let distance = self.bytes.len() - place;
        let is_far = distance > FARTHEST;
        while length > 0 {
            let part = match length {
                // Nothing shorter than the shortest match is left over.
                0..=LONGEST => length,
                _ => LONGEST.min(length - SHORTEST),
            };
            length -= part;
            let start = self.bytes.len();
            let from = start - distance;
            if is_far || part < SHORTEST {
                self.copy(from, part);
                match self.pieces.last_mut() {
                    Some(Piece::Literals(count)) => *count += part as u32,
                    _ => self.pieces.push(Piece::Literals(part as u32)),
                }
            } else {
                self.copy(from, part);
                let (length, distance) = (part as u16, distance as u16);
                self.pieces.push(Piece::Match { length, distance });
            }
        }
    }

    /// Appends bytes of the text, which may be those that this appends.
    fn copy(&mut self, from: usize, length: usize) {
        let mut left = length;
        let mut from = from;
        while left > 0 {
            let part = left.min(self.bytes.len() - from);
            self.bytes.extend_from_within(from..from + part);
            (from, left) = (from + part, left - part);
        }
    }

    /// Forgets everything but the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.pieces.clear();
    }

    /// `head` and the text as a file of gzip.
    pub(crate) fn gzip(&self, head: &[u8]) -> Vec<u8> {
        let (literals, distances) = self.frequencies(head);
        let (literals, distances) = (Codes::of(&literals), Codes::of(&distances));
        // Deflate, without a name or a time, of no system.
        let mut out = vec![0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF];
        out.reserve(self.bytes.len() / 2 + 512);
        let mut bits = Bits { out, waiting: 0, count: 0 };
        // The last block, with codes of its own.
        bits.put(0b101, 3);
        bits.put((LITERALS - 257) as u64, 5);
        bits.put((DISTANCES - 1) as u64, 5);
        bits.put((ORDER.len() - 4) as u64, 4);
        // The codes of the lengths of codes: four bits for each length, none for repetitions.
        for symbol in ORDER {
            bits.put(if symbol < 16 { 4 } else { 0 }, 3);
        }
        for length in literals.lengths.iter().chain(&distances.lengths) {
            bits.put(reversed((*length).into(), 4).into(), 4);
        }
        head.iter().for_each(|byte| literals.put((*byte).into(), &mut bits));
        let mut at = 0;
        for piece in &self.pieces {
            match *piece {
                Piece::Literals(count) => {
                    let bytes = &self.bytes[at..at + count as usize];
                    at += bytes.len();
                    for byte in bytes {
                        literals.put(usize::from(*byte), &mut bits);
                    }
                }
                Piece::Match { length, distance } => {
                    at += usize::from(length);
                    let (symbol, extra) = length_symbol(length);
                    literals.put(symbol, &mut bits);
                    bits.put(extra.0, extra.1);
                    let (symbol, extra) = distance_symbol(distance);
                    distances.put(symbol, &mut bits);
                    bits.put(extra.0, extra.1);
                }
            }
        }
        literals.put(END, &mut bits);
        let mut out = bits.finish();
        let mut sum = flate2::Crc::new();
        sum.update(head);
        sum.update(&self.bytes);
        out.extend(sum.sum().to_le_bytes());
        out.extend(((head.len() + self.bytes.len()) as u32).to_le_bytes());
        out
    }

    /// How often each symbol comes. Some that do not come have 1: a code has two symbols or more.
    fn frequencies(&self, head: &[u8]) -> ([u32; LITERALS], [u32; DISTANCES]) {
        let (mut literals, mut distances) = ([0; LITERALS], [0; DISTANCES]);
        literals[0] = 1;
        literals[END] = 1;
        (distances[0], distances[1]) = (1, 1);
        head.iter().for_each(|byte| literals[usize::from(*byte)] += 1);
        let mut at = 0;
        for piece in &self.pieces {
            match *piece {
                Piece::Literals(count) => {
                    let bytes = &self.bytes[at..at + count as usize];
                    at += bytes.len();
                    bytes.iter().for_each(|byte| literals[usize::from(*byte)] += 1);
                }
                Piece::Match { length, distance } => {
                    at += usize::from(length);
                    literals[length_symbol(length).0] += 1;
                    distances[distance_symbol(distance).0] += 1;
                }
            }
        }
        (literals, distances)
    }
}

/// The symbol of a length, and the bits behind it.
#[inline]
fn length_symbol(length: u16) -> (usize, (u64, u8)) {
    if usize::from(length) == LONGEST {
        return (285, (0, 0));
    }
    symbol(length - 3, 2, 257)
}

/// The same for a distance.
#[inline]
fn distance_symbol(distance: u16) -> (usize, (u64, u8)) {
    symbol(distance - 1, 1, 0)
}

/// Ranges of numbers that double after every `1 << bits` symbols, from `first` on. The first two
/// times, a range is one number.
#[inline]
fn symbol(number: u16, bits: u32, first: usize) -> (usize, (u64, u8)) {
    let more = (u16::BITS - number.leading_zeros()).saturating_sub(bits + 1);
    let symbol = first + ((more as usize) << bits) + usize::from(number >> more);
    (symbol, (u64::from(number) & ((1 << more) - 1), more as u8))
}

/// The codes of symbols.
#[derive(Debug)]
struct Codes<const N: usize> {
    lengths: [u8; N],
    /// As they are written: the first bit is the lowest.
    codes: [u16; N],
}

impl<const N: usize> Codes<N> {
    fn of(frequencies: &[u32; N]) -> Self {
        let lengths = lengths(frequencies);
        let mut next = [0_u16; BITS as usize + 1];
        for length in lengths.iter().filter(|length| **length > 0) {
            next[usize::from(*length)] += 1;
        }
        let mut code = 0;
        for count in &mut next {
            let first = code;
            code = (code + *count) << 1;
            *count = first;
        }
        let codes = lengths.map(|length| match length {
            0 => 0,
            _ => {
                let code = &mut next[usize::from(length)];
                *code += 1;
                reversed(*code - 1, length)
            }
        });
        Self { lengths, codes }
    }

    #[inline]
    fn put(&self, symbol: usize, bits: &mut Bits) {
        bits.put(self.codes[symbol].into(), self.lengths[symbol]);
    }
}

fn reversed(code: u16, length: u8) -> u16 {
    code.reverse_bits() >> (16 - length)
}

/// How long the code of each symbol is, as Huffman has it: the two rarest are put together until
/// one is left.
fn lengths<const N: usize>(frequencies: &[u32; N]) -> [u8; N] {
    let mut frequencies = *frequencies;
    loop {
        let mut rarest: Vec<_> = (0..N).filter(|symbol| frequencies[*symbol] > 0).collect();
        rarest.sort_by_key(|symbol| frequencies[*symbol]);
        let mut weights: Vec<u64> =
            rarest.iter().map(|symbol| frequencies[*symbol].into()).collect();
        let leaves = weights.len();
        // Symbols, then pairs, each in the order of their weights.
        let mut parents = vec![0; 2 * leaves];
        let (mut leaf, mut pair) = (0, leaves);
        while weights.len() < 2 * leaves - 1 {
            let mut weight = 0;
            for _ in 0..2 {
                let is_leaf =
                    leaf < leaves && (pair >= weights.len() || weights[leaf] <= weights[pair]);
                let rare = if is_leaf { &mut leaf } else { &mut pair };
                weight += weights[*rare];
                parents[*rare] = weights.len();
                *rare += 1;
            }
            weights.push(weight);
        }
        let mut depths = vec![0_u8; weights.len()];
        for node in (0..weights.len() - 1).rev() {
            depths[node] = depths[parents[node]].saturating_add(1);
        }
        if depths.iter().all(|depth| *depth <= BITS) {
            let mut lengths = [0; N];
            for (symbol, depth) in rarest.iter().zip(depths) {
                lengths[*symbol] = depth;
            }
            return lengths;
        }
        // Less different ones have shorter codes.
        for frequency in frequencies.iter_mut().filter(|frequency| **frequency > 0) {
            *frequency = *frequency / 2 + 1;
        }
    }
}

/// Bits, the lowest of each byte first.
#[derive(Debug)]
struct Bits {
    out: Vec<u8>,
    waiting: u64,
    count: u8,
}

impl Bits {
    /// At most 16 bits.
    #[inline]
    fn put(&mut self, bits: u64, count: u8) {
        self.waiting |= bits << self.count;
        self.count += count;
        if self.count >= 32 {
            self.out.extend_from_slice(&(self.waiting as u32).to_le_bytes());
            self.waiting >>= 32;
            self.count -= 32;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let rest = self.waiting.to_le_bytes();
        self.out.extend_from_slice(&rest[..usize::from(self.count.div_ceil(8))]);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn unzip(file: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(file).read_to_end(&mut text).unwrap();
        text
    }

    #[test]
    fn what_is_added_comes_back() {
        let mut random = 1_u64;
        let mut text = Text::default();
        assert_eq!(unzip(&text.gzip(b"")), b"");
        let mut expected = Vec::new();
        for round in 0..20_000_usize {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (random >> 33) as usize;
            if round % 3 == 0 || expected.is_empty() {
                let bytes = format!("{random:016x}");
                text.literals(bytes.as_bytes());
                expected.extend_from_slice(bytes.as_bytes());
            } else {
                // Also from beyond the farthest place, and more than there is from there on.
                let back = 1 + number % 40_000.min(expected.len());
                let place = expected.len() - back;
                let length = if number % 100 == 0 { number % 3000 } else { number % 40 };
                text.again(place, length);
                (0..length).for_each(|at| expected.push(expected[place + at]));
            }
        }
        assert_eq!(text.len(), expected.len());
        let file = text.gzip(b"");
        assert!(unzip(&file) == expected, "other bytes come back");
        assert!(file.len() < expected.len() / 2, "{} of {}", file.len(), expected.len());
    }

    #[test]
    fn all_lengths_and_distances_have_symbols() {
        let mut text = Text::default();
        let start: Vec<u8> = (0..40_000_u32).flat_map(|at| (at * at).to_le_bytes()).collect();
        text.literals(&start[..FARTHEST]);
        let mut expected = start[..FARTHEST].to_vec();
        for length in 0..600 {
            for distance in [1, 2, 3, 4, 5, 24, 25, 32, 33, 8192, 8193, FARTHEST, FARTHEST + 1] {
                let place = expected.len() - distance.min(expected.len());
                text.again(place, length);
                (0..length).for_each(|at| expected.push(expected[place + at]));
            }
        }
        assert!(unzip(&text.gzip(b"")) == expected, "other bytes come back");
        assert_eq!(length_symbol(258), (285, (0, 0)));
        assert_eq!(length_symbol(257), (284, (30, 5)));
        assert_eq!(length_symbol(3), (257, (0, 0)));
        assert_eq!(distance_symbol(1), (0, (0, 0)));
        assert_eq!(distance_symbol(FARTHEST as u16), (29, (8191, 13)));
    }

    #[test]
    fn frequencies_of_all_kinds_give_codes() {
        // Fibonacci's numbers give the longest codes.
        let (mut one, mut two) = (1_usize, 1);
        let mut text = Text::default();
        for byte in 0..24 {
            text.literals(&vec![byte; one]);
            (one, two) = (two, one + two);
        }
        let bytes = text.bytes.clone();
        assert!(unzip(&text.gzip(b"")) == bytes, "other bytes come back");
        let digits = b"0123456789abcdef".repeat(1000);
        text = Text::default();
        text.literals(&digits);
        let size = text.gzip(b"").len();
        assert!(size < digits.len() / 2 + 400, "{size}");
        assert_eq!(unzip(&text.gzip(b"head")), [b"head", &*digits].concat());
        text.clear();
        assert_eq!(unzip(&text.gzip(b"head")), b"head");
    }
}
