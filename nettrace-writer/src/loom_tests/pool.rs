//! Models of the pool: taking, giving back, splitting and merging chunks.

use loom::{cell::UnsafeCell, sync::Arc};

use crate::{
    loom_tests::{
        explore::{DROPPED, MERGED, assert_met, explore},
        model::Model,
    },
    protocol::pool::{Layout, Pool},
    sync::thread,
};

#[test]
fn loom_no_chunk_is_taken_twice() {
    explore("pool", 3, |_| {
        let model = Arc::new(Model::new(2, 1));
        let chunks = [0, 1].map(|_| model.pool.take(0, false).unwrap());
        chunks.iter().for_each(|&chunk| model.pool.give(chunk));
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                if let Some(chunk) = model.pool.take(0, false) {
                    model.touch(chunk);
                    model.pool.give(chunk);
                }
            })
        };
        let first = model.pool.take(0, false);
        let second = model.pool.take(0, false);
        if let Some(chunk) = first {
            model.touch(chunk);
            model.pool.give(chunk);
        }
        let third = model.pool.take(0, false);
        for chunk in [second, third].into_iter().flatten() {
            model.touch(chunk);
        }
        assert!(second.is_none() || second != third);
        other.join().unwrap();
        [second, third].into_iter().flatten().for_each(|chunk| model.pool.give(chunk));
        assert!(model.pool.is_unused());
        let again = [0, 1].map(|_| model.pool.take(0, false));
        assert!(again[0].is_some() && again[1].is_some() && again[0] != again[1]);
    });
}

/// Tells loom of writes to all bytes of a chunk. There is a cell for each 64 bytes of the pool.
fn touch(pool: &Pool, cells: &[UnsafeCell<()>], chunk: u32) {
    let first = pool.place(0).0 as usize;
    let (at, size) = pool.place(chunk);
    let from = (at as usize - first) / 64;
    cells[from..from + size / 64].iter().for_each(|cell| cell.with_mut(|_| {}));
}

#[test]
fn loom_chunks_are_split_and_merged_while_others_take_them() {
    let tally = explore("split", 2, |tally| {
        // Two large chunks of two parts each. The flusher has the first part of the first one, to
        // give back; the second part is free.
        let layout = Layout { chunk_size: 128, chunks: 2, parts: 2, jumbo_size: 128, jumbos: 0 };
        let pool = Pool::new(layout).expect("memory");
        let cells: Vec<_> = (0..4).map(|_| UnsafeCell::new(())).collect();
        let shared = Arc::new((pool, cells));
        let given = shared.0.take(0, false).expect("a small chunk");
        let taking = [false, true].map(|large| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (pool, cells) = &*shared;
                let chunk = pool.take(0, large);
                chunk.iter().for_each(|&chunk| touch(pool, cells, chunk));
                chunk
            })
        });
        let (pool, cells) = &*shared;
        touch(pool, cells, given);
        pool.give(given);
        pool.merge(&mut Vec::new());
        tally.add(MERGED, usize::from(pool.taken() == 0));
        let taken: Vec<_> =
            taking.into_iter().filter_map(|taking| taking.join().unwrap()).collect();
        tally.add(DROPPED, 2 - taken.len());
        for &chunk in &taken {
            touch(pool, cells, chunk);
        }
        let spans: Vec<_> = taken.iter().map(|&chunk| pool.place(chunk)).collect();
        if let [(one, one_size), (other, other_size)] = spans[..] {
            let (one, other) = (one as usize, other as usize);
            assert!(one + one_size <= other || other + other_size <= one, "{taken:?}");
        }
        taken.into_iter().for_each(|chunk| pool.give(chunk));
        assert!(pool.is_unused());
        pool.merge(&mut Vec::new());
        // Whatever happened, all of the memory is there.
        let all: Vec<_> = std::iter::from_fn(|| pool.take(0, true)).collect();
        let bytes: usize = all.iter().map(|&chunk| pool.place(chunk).1).sum();
        assert_eq!(bytes, 256, "{all:?}");
    });
    assert_met(&tally, &[MERGED]);
}
