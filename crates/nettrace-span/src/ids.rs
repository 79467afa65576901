//! Numbers that no other part of the process gets, and the ids of traces and spans, which are made
//! from them.
//!
//! A thread takes numbers in blocks from a counter of the process, so that an id takes no lock, no
//! system call and, but for each block's first, no shared memory. A number becomes an id by a
//! bijection with a secret: ids look random and differ from those of other processes, but two spans
//! of one process never have the same id. Rejected: a random generator for each thread. Its ids can
//! collide, and each thread that ends takes its state along.
//!
//! The thread's block is among its [frames](crate::context::frames), and is used only while they are
//! borrowed. A signal handler that interrupts that cannot borrow them, and takes a block of its
//! own.
//!
//! After a `fork` the child has another secret, so its ids differ from its parent's. It has copies
//! of the parent's counter and of the thread's block, which does no harm: the numbers themselves
//! never leave the process.

use nettrace_event::trace_context::{SpanId, TraceId};

use crate::{
    recorder::recorder,
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// How many numbers a thread takes at a time: a power of two.
const BLOCK: u64 = 1 << 10;

/// The first number of the next block. Numbers begin at 1, so that 0 can stand for none.
static NEXT_BLOCK: AtomicU64 = AtomicU64::new(BLOCK);
/// 0: not chosen yet.
static SECRET: AtomicU64 = AtomicU64::new(0);
/// The process's id in the system. 0: not asked for yet.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The numbers that a thread has left.
#[derive(Debug)]
pub(crate) struct Block {
    /// The next number; a multiple of [`BLOCK`] if there is none left.
    next: u64,
}

impl Block {
    pub(crate) const EMPTY: Self = Self { next: 0 };

    /// A number that the process has not used yet. Not 0.
    #[inline]
    pub(crate) fn number(&mut self) -> u64 {
        if self.next % BLOCK == 0 {
            self.next = first_of_block();
        }
        let number = self.next;
        self.next += 1;
        number
    }
}

/// The first number of a block that nobody has.
#[cold]
#[inline(never)]
pub(crate) fn first_of_block() -> u64 {
    // Relaxed: only the number counts. The block's first number is left out, because a multiple of
    // `BLOCK` means that a block is used up.
    NEXT_BLOCK.fetch_add(BLOCK, Ordering::Relaxed) + 1
}

/// What the ids of this process are made with, besides numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret(u64);

impl Secret {
    /// The present one. Whoever makes several ids asks once.
    #[inline]
    pub(crate) fn get() -> Self {
        // Relaxed: the word is the whole state.
        match SECRET.load(Ordering::Relaxed) {
            0 => Self(choose_secret()),
            secret => Self(secret),
        }
    }

    /// The span id that a number stands for. `None` for one of all numbers.
    #[inline]
    pub(crate) fn span_id(self, number: u64) -> Option<SpanId> {
        SpanId::from_u64(scramble(number ^ self.0))
    }

    /// The trace id of a trace that begins with this span. Two spans never have the same.
    #[inline]
    pub(crate) fn trace_id(self, root: SpanId) -> TraceId {
        // One multiplication is enough, because the bits of a span id are mixed already.
        let product = u128::from(root.to_u64() ^ self.0.rotate_left(32)) * u128::from(FACTOR);
        let (upper, lower) = ((product >> 64) as u64, product as u64);
        // The first half is a bijection of the span id. The second half has bits of the whole
        // product: W3C wants the last seven bytes to be random.
        let id = u128::from(lower ^ lower >> 32) | u128::from((upper ^ lower).max(1)) << 64;
        TraceId::from_bytes(id.to_le_bytes()).expect("a part is not 0")
    }
}

/// The process's id in the system.
#[inline]
pub(crate) fn process() -> u32 {
    // Relaxed: the word is the whole state.
    match PROCESS.load(Ordering::Relaxed) {
        0 => ask_for_process(),
        id => id,
    }
}

#[cold]
fn ask_for_process() -> u32 {
    let id = std::process::id();
    PROCESS.store(id, Ordering::Relaxed);
    id
}

/// Gives the child of a `fork` another secret, into which `moment` goes: the time by any clock.
/// Takes no lock and does not allocate.
pub fn after_fork(moment: u64) {
    PROCESS.store(0, Ordering::Relaxed);
    let old = SECRET.load(Ordering::Relaxed);
    if old != 0 {
        let new = old ^ u64::from(process()).rotate_left(40) ^ moment;
        SECRET.store(scramble(new).max(1), Ordering::Relaxed);
    }
}

#[cold]
#[inline(never)]
fn choose_secret() -> u64 {
    let new = scramble((recorder().random)()).max(1);
    // Relaxed: as above. The first thread's choice is everybody's.
    match SECRET.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new,
        Err(first) => first,
    }
}

const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// A bijection of 64 bits: each of the lower bits of the argument changes about half of the
/// result's bits. (Numbers that follow each other differ in lower bits.)
#[inline]
fn scramble(bits: u64) -> u64 {
    let bits = bits.wrapping_mul(FACTOR);
    let bits = (bits ^ bits >> 32).wrapping_mul(FACTOR);
    bits ^ bits >> 32
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::{BLOCK, Block, Secret, SpanId, scramble};

    #[test]
    fn no_id_comes_twice() {
        let ids = || -> Vec<_> {
            let mut block = Block::EMPTY;
            let ids = (0..3 * BLOCK).map(|_| {
                let number = block.number();
                let secret = Secret::get();
                let span = secret.span_id(number).unwrap();
                (number, span, secret.trace_id(span))
            });
            ids.collect()
        };
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(ids)).collect();
        let (mut numbers, mut spans, mut traces) =
            <(HashSet<_>, HashSet<_>, HashSet<_>)>::default();
        for thread in threads {
            for (number, span, trace) in thread.join().unwrap() {
                assert_ne!(number, 0);
                assert!(numbers.insert(number) && spans.insert(span) && traces.insert(trace));
            }
        }
    }

    /// With bits set in half of all ids, wherever they are, no two bits of an id depend on each
    /// other in a way that a table of ids would notice.
    #[test]
    fn each_bit_is_set_in_half_of_the_ids() {
        let mut set = [0_u32; 64];
        let mut set_in_traces = [0_u32; 128];
        const IDS: u64 = 1 << 14;
        for number in 0..IDS {
            let id = scramble(number);
            (0..64).for_each(|bit| set[bit] += (id >> bit) as u32 & 1);
            let trace = Secret::get().trace_id(SpanId::from_u64(id.max(1)).unwrap());
            let trace = u128::from_be_bytes(trace.to_bytes());
            (0..128).for_each(|bit| set_in_traces[bit] += (trace >> bit) as u32 & 1);
        }
        let half = IDS as u32 / 2;
        let all = set.iter().chain(&set_in_traces);
        assert!(
            all.clone().all(|&set| set.abs_diff(half) < half / 16),
            "{set:?} {set_in_traces:?}"
        );
    }
}
