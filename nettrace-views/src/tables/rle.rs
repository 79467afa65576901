//! Encodings of small numbers in pages of Parquet: levels, places in dictionaries, lengths.

/// Writes runs in Parquet's `RLE`, which has repeated values and packed ones: a run of eight rows
/// or more is repeated, and what is between such runs is packed.
pub(crate) fn encode(runs: impl Iterator<Item = (u32, u32)>, width: u8, out: &mut Vec<u8>) {
    // Those that wait to be packed. Packed values come in groups of eight.
    let mut packed = Vec::new();
    for (value, mut count) in runs {
        let rest = packed.len() % 8;
        if rest > 0 {
            let few = count.min(8 - rest as u32);
            packed.extend(std::iter::repeat_n(value, few as usize));
            count -= few;
        }
        if count >= 8 {
            pack(&mut packed, width, out);
            varint(u64::from(count) << 1, out);
            out.extend(&value.to_le_bytes()[..usize::from(width.div_ceil(8))]);
        } else {
            packed.extend(std::iter::repeat_n(value, count as usize));
        }
    }
    pack(&mut packed, width, out);
}

/// Writes packed values, the lowest bits first.
fn pack(values: &mut Vec<u32>, width: u8, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    // The reader knows how many rows there are.
    values.resize(values.len().next_multiple_of(8), 0);
    varint((values.len() as u64 / 8) << 1 | 1, out);
    put(values, width, out);
    values.clear();
}

/// Writes numbers of `width` bits, together whole bytes.
fn put(values: &[u32], width: u8, out: &mut Vec<u8>) {
    let (mut bits, mut waiting) = (0_u64, 0);
    for value in values {
        bits |= u64::from(*value) << waiting;
        waiting += width;
        while waiting >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            waiting -= 8;
        }
    }
}

/// Writes a number in groups of seven bits, the lowest first.
pub(crate) fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// How many numbers a block of differences has, and how many groups.
const BLOCK: usize = 128;
const GROUPS: usize = 4;

/// Writes small numbers in Parquet's `DELTA_BINARY_PACKED`.
pub(crate) fn differences(numbers: &[u8], out: &mut Vec<u8>) {
    let signed = |number: i64| (number << 1 ^ number >> 63) as u64;
    varint(BLOCK as u64, out);
    varint(GROUPS as u64, out);
    varint(numbers.len() as u64, out);
    let mut last = numbers.first().copied().unwrap_or(0);
    varint(signed(last.into()), out);
    for block in numbers.get(1..).unwrap_or(&[]).chunks(BLOCK) {
        if block.iter().all(|number| *number == last) {
            out.extend([0; 1 + GROUPS]);
            continue;
        }
        let mut all = [0; BLOCK];
        for (difference, number) in all.iter_mut().zip(block) {
            *difference = i64::from(*number) - i64::from(last);
            last = *number;
        }
        let least = all[..block.len()].iter().copied().min().unwrap_or(0);
        varint(signed(least), out);
        let groups = all.chunks(BLOCK / GROUPS).enumerate().map(|(at, group)| {
            let count = block.len().saturating_sub(at * group.len()).min(group.len());
            &group[..count]
        });
        let width = |group: &[i64]| {
            let most = group.iter().map(|number| (number - least) as u64).max().unwrap_or(0);
            (u64::BITS - most.leading_zeros()) as u8
        };
        out.extend(groups.clone().map(width));
        for group in groups.filter(|group| !group.is_empty()) {
            let mut values: Vec<_> = group.iter().map(|number| (number - least) as u32).collect();
            values.resize(BLOCK / GROUPS, 0);
            put(&values, width(group), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader finds.
    fn decode(mut bytes: &[u8], width: u8, rows: usize) -> Vec<u32> {
        let mut found = Vec::new();
        while found.len() < rows {
            let mut header = 0;
            for shift in (0..).step_by(7) {
                let (first, rest) = bytes.split_first().unwrap();
                bytes = rest;
                header |= usize::from(first & 0x7F) << shift;
                if first & 0x80 == 0 {
                    break;
                }
            }
            let size = usize::from(width);
            if header & 1 == 0 {
                let (value, rest) = bytes.split_at(size.div_ceil(8));
                let value = value.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
                found.resize(found.len() + (header >> 1), value);
                bytes = rest;
            } else {
                let (packed, rest) = bytes.split_at((header >> 1) * size);
                for at in 0..(header >> 1) * 8 {
                    let bits = (0..size).map(|bit| at * size + bit);
                    let value = bits
                        .rev()
                        .fold(0, |all, bit| all << 1 | u32::from(packed[bit / 8] >> (bit % 8) & 1));
                    found.push(value);
                }
                bytes = rest;
            }
        }
        assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
        assert!(found.len() < rows + 8);
        found.truncate(rows);
        found
    }

    #[test]
    fn runs_of_every_length_and_width() {
        for width in [0_u8, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32] {
            let mask = (1_u64 << width) - 1;
            let mut random = 1_u64;
            for length in [1, 2, 7, 8, 9, 100, 5000] {
                let runs: Vec<(u32, u32)> = (0..200)
                    .map(|_| {
                        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                        ((random >> 30 & mask) as u32, (random >> 33) as u32 % length + 1)
                    })
                    .collect();
                let rows: Vec<u32> = runs
                    .iter()
                    .flat_map(|(value, rows)| std::iter::repeat_n(*value, *rows as usize))
                    .collect();
                let mut bytes = Vec::new();
                encode(runs.into_iter(), width, &mut bytes);
                assert_eq!(decode(&bytes, width, rows.len()), rows, "{width} {length}");
            }
        }
    }

    #[test]
    fn differences_of_all_kinds() {
        let mut bytes = Vec::new();
        differences(&[], &mut bytes);
        assert_eq!(bytes, [0x80, 1, 4, 0, 0]);
        bytes.clear();
        // A block of one number again and again, and one that has a single other one.
        differences(&[&[16; 129][..], &[36, 16]].concat(), &mut bytes);
        let head = [0x80, 1, 4, 0x83, 1, 32];
        // From -20 on: 40 and 0 in six bits each, and zeros up to 32 numbers.
        let second = [39, 6, 0, 0, 0, 40];
        assert_eq!(bytes, [&head[..], &[0; 5], &second, &[0; 23]].concat());
    }
}
