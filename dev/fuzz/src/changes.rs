//! Changes sound streams in a few places: flips bytes, replaces numbers, and removes, repeats or
//! swaps blocks.

use std::{ops::Range, sync::LazyLock};

use crate::{objects, random, seeds};

/// The most changes to one stream. Each change parses the stream, which takes longer than the
/// reading that a target tests. More changes hardly reach other code.
const MOST_CHANGES: usize = 8;

/// Makes a stream from the bytes that a fuzzer gives. The first byte chooses a stream: of version 4
/// or 5 if `is_old`, otherwise of version 6. Each four bytes after it make one change. Bytes beyond
/// `MOST_CHANGES` changes are ignored.
pub fn make(orders: &[u8], is_old: bool) -> Option<Vec<u8>> {
    let seeds = if is_old { &*OLD } else { &*NEW };
    let mut orders = orders.iter().copied().take(1 + 4 * MOST_CHANGES);
    let first = orders.next()?;
    let mut bytes = seeds[usize::from(first) % seeds.len()].clone();
    while let (Some(what), Some(high), Some(low)) = (orders.next(), orders.next(), orders.next()) {
        let place = usize::from(high) << 8 | usize::from(low);
        change(&mut bytes, what, place, &mut orders);
        if bytes.is_empty() || bytes.len() > 1 << 16 {
            return None;
        }
    }
    Some(bytes)
}

static NEW: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| known(false));
static OLD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| known(true));

/// The small handmade streams, and some random ones.
fn known(is_old: bool) -> Vec<Vec<u8>> {
    let seeds = seeds().into_iter().map(|(_, bytes)| bytes);
    let seeds = seeds.filter(|bytes| objects::is_objects(bytes) == is_old);
    seeds.chain((0..32).map(|seed| random(3, 2 * seed + u64::from(is_old)))).collect()
}

fn change(bytes: &mut Vec<u8>, what: u8, place: usize, orders: &mut impl Iterator<Item = u8>) {
    let value = orders.next().unwrap_or(0xFF);
    let at = place % bytes.len();
    if what % 9 > 5 && objects::is_objects(bytes) {
        return objects::change(bytes, what % 9, place, value);
    }
    match what % 9 {
        0 => bytes[at] = value,
        1 => bytes[at] ^= 1 << (value % 8),
        2 => bytes[at] = bytes[at].wrapping_add(value),
        3 => drop(bytes.drain(at..(at + usize::from(value)).min(bytes.len()))),
        4 => drop(bytes.splice(at..at, std::iter::repeat_n(0x80, value.into()))),
        5 => bytes.truncate(at),
        6 => {
            // Insert a copy of the block elsewhere.
            let copy = bytes[block(bytes, place)].to_vec();
            let to = block(bytes, value.into()).start;
            drop(bytes.splice(to..to, copy));
        }
        7 => drop(bytes.drain(block(bytes, place))),
        _ => {
            // Change the kind of the block.
            let start = block(bytes, place).start;
            if let Some(kind) = bytes.get_mut(start + 3) {
                *kind = value % 12;
            }
        }
    }
}

/// The range of block `n` of a stream of version 6, modulo the number of blocks.
fn block(bytes: &[u8], n: usize) -> Range<usize> {
    // The stream header takes 20 bytes.
    let mut starts = vec![20];
    while let Some([a, b, c, kind]) = starts.last().and_then(|at| bytes.get(*at..*at + 4)) {
        let size = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
        if *kind == 0 {
            break;
        }
        starts.push(starts[starts.len() - 1] + 4 + size);
    }
    let n = n % starts.len();
    let end = starts.get(n + 1).map_or(bytes.len(), |end| *end);
    starts[n].min(bytes.len())..end.min(bytes.len())
}
