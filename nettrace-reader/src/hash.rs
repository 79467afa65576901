//! Hash maps whose keys are numbers and ids: a multiplication for each eight bytes, where the maps
//! of the standard library take some twenty nanoseconds a key. The hashes of each map begin with a
//! random number, so that a file cannot be made to have keys that meet.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
};

/// A map whose keys are numbers, ids, or lists of numbers.
pub(crate) type Map<K, V> = HashMap<K, V, Seeded>;

/// Makes hashers that begin with a random number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folding;

    #[inline]
    fn build_hasher(&self) -> Folding {
        Folding(self.0)
    }
}

/// Multiplies what it has with what comes, and folds the 128 bits of the product into 64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folding(u64);

impl Hasher for Folding {
    #[inline]
    fn write_u64(&mut self, value: u64) {
        /// Odd, with about as many ones as zeros: the digits of the golden ratio.
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        let product = u128::from(self.0 ^ value) * u128::from(FACTOR);
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(FACTOR);
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.split_at(bytes.len() / 8 * 8);
        for word in words.chunks_exact(8) {
            self.write_u64(word.try_into().map_or(0, u64::from_le_bytes));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word) ^ (rest.len() as u64) << 56);
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, hash::BuildHasher};

    use super::{Map, Seeded};

    #[test]
    fn keys_spread_in_the_bits_that_maps_use() {
        let hasher = Seeded(7);
        let kinds: [fn(u64) -> u64; 4] =
            [|n| n, |n| n << 32, |n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15), |n| n << 56 | n << 4];
        for (number, kind) in kinds.into_iter().enumerate() {
            let hashes: Vec<u64> = (0..256).map(|n| hasher.hash_one(kind(n))).collect();
            let low = hashes.iter().map(|hash| hash % 1024).collect::<BTreeSet<_>>().len();
            let high = hashes.iter().map(|hash| hash >> 57).collect::<BTreeSet<_>>().len();
            // 256 of 1024 places at random leave 226 on average; 256 of 128, 111.
            assert!(low > 190 && high > 80, "{number}: {low} {high}");
        }
    }

    #[test]
    fn every_byte_and_the_length_count() {
        let hasher = Seeded(9);
        let mut hashes = BTreeSet::new();
        for len in 0..40 {
            hashes.insert(hasher.hash_one(&vec![0_u8; len][..]));
            for place in 0..len {
                let mut bytes = vec![0_u8; len];
                bytes[place] = 1;
                hashes.insert(hasher.hash_one(&bytes[..]));
            }
        }
        assert_eq!(hashes.len(), 40 + (0..40).sum::<usize>());
    }

    #[test]
    fn a_map_finds_what_it_has() {
        let mut map = Map::<(Option<u64>, u64), u64>::default();
        for n in 0..10_000_u64 {
            map.insert((n.checked_sub(5_000), n), n);
        }
        assert_eq!(map.len(), 10_000);
        assert!((0..10_000_u64).all(|n| map[&(n.checked_sub(5_000), n)] == n));
    }
}
