//! Sound streams, changed in a few places: bytes flipped, numbers replaced, blocks cut, doubled,
//! swapped.

use std::sync::LazyLock;

use crate::{check, objects, random, seeds};

/// Makes a stream by the orders that a fuzzer gives, and checks it. The first order chooses the
/// stream: one of version 6, or of versions 4 and 5.
pub fn run(orders: &[u8], is_old: bool) {
    let seeds = if is_old { &*OLD } else { &*NEW };
    let mut orders = orders.iter().copied();
    let Some(first) = orders.next() else { return };
    let mut bytes = match usize::from(first) {
        known if known < seeds.len() => seeds[known].clone(),
        seed => random(10, 2 * seed as u64 + u64::from(is_old)),
    };
    while let (Some(what), Some(high), Some(low)) = (orders.next(), orders.next(), orders.next()) {
        let place = usize::from(high) << 8 | usize::from(low);
        change(&mut bytes, what, place, &mut orders);
        if bytes.is_empty() || bytes.len() > 1 << 20 {
            return;
        }
    }
    check(&bytes);
}

static NEW: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| known(false));
static OLD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| known(true));

fn known(is_old: bool) -> Vec<Vec<u8>> {
    let seeds = seeds().into_iter().map(|(_, bytes)| bytes);
    seeds.filter(|bytes| objects::is_objects(bytes) == is_old).collect()
}

fn change(bytes: &mut Vec<u8>, what: u8, place: usize, orders: &mut impl Iterator<Item = u8>) {
    let value = orders.next().unwrap_or(0xFF);
    let at = place % bytes.len();
    if what % 9 > 5 && objects::is_objects(bytes) {
        return objects::change(bytes, what % 9, place, value);
    }
    // Where blocks begin: the stream header has 20 bytes.
    let mut starts = vec![20];
    while let Some([a, b, c, kind]) = starts.last().and_then(|at| bytes.get(*at..*at + 4)) {
        let size = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
        if *kind == 0 {
            break;
        }
        starts.push(starts[starts.len() - 1] + 4 + size);
    }
    let block = |n: usize| {
        let n = n % starts.len();
        let end = starts.get(n + 1).map_or(bytes.len(), |end| *end);
        starts[n].min(bytes.len())..end.min(bytes.len())
    };
    match what % 9 {
        0 => bytes[at] = value,
        1 => bytes[at] ^= 1 << (value % 8),
        2 => bytes[at] = bytes[at].wrapping_add(value),
        3 => drop(bytes.drain(at..(at + usize::from(value)).min(bytes.len()))),
        4 => drop(bytes.splice(at..at, std::iter::repeat_n(0x80, value.into()))),
        5 => bytes.truncate(at),
        6 => {
            // A block once more, somewhere else.
            let copy = bytes[block(place)].to_vec();
            let to = block(value.into()).start;
            drop(bytes.splice(to..to, copy));
        }
        7 => drop(bytes.drain(block(place))),
        _ => {
            // A block of another kind.
            let start = block(place).start;
            if let Some(kind) = bytes.get_mut(start + 3) {
                *kind = value % 12;
            }
        }
    }
}
