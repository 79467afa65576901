//! What `record` claims, under every interleaving that loom finds with few preemptions.
//!
//! `RUSTFLAGS="--cfg nettrace_loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p nettrace-writer --lib --release loom`; `cargo xtask loom` does
//! the same. Each model says how many executions it had, and fails if none of them met what it is there for.

mod model;

use loom::{model::Builder, sync::Arc};
use std::sync::{Arc as Shared, atomic};

use crate::{
    loom_tests::model::{Flusher, Model, Outcome},
    record::Record,
    sync::thread,
};

/// How often something happened in all executions of a model.
#[derive(Clone, Default)]
struct Tally(Shared<[atomic::AtomicUsize; 7]>);

impl Tally {
    fn add(&self, what: usize, by: usize) {
        self.0[what].fetch_add(by, atomic::Ordering::Relaxed);
    }

    fn of(&self, what: usize) -> usize {
        self.0[what].load(atomic::Ordering::Relaxed)
    }
}

/// Executions of the model.
const EXECUTIONS: usize = 0;
/// Second passes.
const MOVED_ON: usize = 1;
/// Chunks that the flusher took.
const SEIZED: usize = 2;
/// Visits while the owner was giving up a chunk.
const SEALING: usize = 3;
/// Events dropped.
const DROPPED: usize = 4;
/// Rows of the last model that were there before the session was closed.
const ROWS: usize = 5;
/// Threads that a round did not wait for.
const BUSY: usize = 6;

/// Runs a model in every way, `preemptions` deep at most.
fn explore(
    name: &str,
    preemptions: usize,
    model: impl Fn(&Tally) + Send + Sync + 'static,
) -> Tally {
    let mut builder = Builder::new();
    let bound = builder.preemption_bound.map_or(preemptions, |bound| bound.min(preemptions));
    builder.preemption_bound = Some(bound);
    builder.max_branches = 20_000;
    let tally = Tally::default();
    let counts = tally.clone();
    builder.check(move || {
        counts.add(EXECUTIONS, 1);
        model(&counts);
    });
    println!("{name}: {:?} (executions, moved on, seized, sealing, dropped, rows, busy)", tally.0);
    tally
}

fn tell(tally: &Tally, flusher: &Flusher<'_>) {
    for source in &flusher.sources {
        tally.add(MOVED_ON, source.moved_on);
        tally.add(SEIZED, source.seized);
        tally.add(SEALING, source.sealing);
    }
}

/// A thread that runs `owner`, one flusher that has `rounds` rounds meanwhile and three after it, and what then must be so.
fn with_one_owner(
    tally: &Tally,
    model: Model,
    rounds: usize,
    owner: fn(&Model, &Record),
    check: fn(&Tally, &Flusher<'_>, &Record),
) {
    let shared = Arc::new((model, Record::new(0)));
    let emitting = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || owner(&shared.0, &shared.1))
    };
    let (model, record) = &*shared;
    let mut flusher = Flusher::new(model, &[record]);
    (0..rounds).for_each(|_| flusher.round());
    emitting.join().unwrap();
    (0..2).for_each(|_| flusher.round());
    tell(tally, &flusher);
    check(tally, &flusher, record);
}

/// Fails where what a model is there for never happened.
fn assert_met(tally: &Tally, kinds: &[usize]) {
    for &kind in kinds {
        assert!(tally.of(kind) > 0, "nothing of kind {kind}: the model is too weak");
    }
}

#[test]
fn loom_what_is_older_than_a_round_is_in_it() {
    let tally = explore("older", 3, |tally| {
        let owner = |model: &Model, record: &Record| {
            (1..=3).for_each(|id| assert_eq!(model.emit(record, id), Outcome::Written));
        };
        with_one_owner(tally, Model::new(3, 2), 1, owner, |_, flusher, _| {
            flusher.check_rows(&[1, 2, 3]);
        });
    });
    assert_met(&tally, &[MOVED_ON, SEIZED, SEALING]);
}

#[test]
fn loom_chunks_come_back_between_rounds() {
    // Two chunks of a row each: what the first round gives back the second one meets again.
    let tally = explore("come back", 2, |tally| {
        let owner = |model: &Model, record: &Record| {
            (1..=3).for_each(|id| assert_ne!(model.emit(record, id), Outcome::Closed));
        };
        with_one_owner(tally, Model::new(2, 1), 2, owner, |tally, flusher, record| {
            flusher.check_counts();
            tally.add(DROPPED, record.counts().1.no_room as usize);
        });
    });
    assert_met(&tally, &[SEIZED, DROPPED]);
}

#[test]
fn loom_what_is_dropped_is_told() {
    let tally = explore("dropped", 3, |tally| {
        let owner = |model: &Model, record: &Record| {
            (1..=3).for_each(|id| assert_ne!(model.emit(record, id), Outcome::Closed));
        };
        with_one_owner(tally, Model::new(1, 1), 1, owner, |tally, flusher, record| {
            flusher.check_counts();
            tally.add(DROPPED, record.counts().1.no_room as usize);
        });
    });
    assert_met(&tally, &[SEIZED, DROPPED]);
}

#[test]
fn loom_events_in_events_are_told() {
    let tally = explore("nested", 2, |tally| {
        let owner = |model: &Model, record: &Record| {
            model.emit_around(record, 1, || model.emit_nested(record));
            model.emit_around(record, 2, || model.emit_nested(record));
            model.emit(record, 3);
        };
        with_one_owner(tally, Model::new(3, 4), 1, owner, |_, flusher, record| {
            flusher.check_rows(&[1, 2, 3]);
            assert_eq!(record.counts().1.reentrant, 2);
        });
    });
    assert_met(&tally, &[SEIZED]);
}

#[test]
fn loom_a_request_survives_a_note() {
    // An event with a note before it, which the flusher asks in the midst of, and one behind it, which must not go into a chunk that was
    // taken.
    let tally = explore("note", 3, |tally| {
        let shared = Arc::new((Model::new(3, 4), Record::new(0)));
        shared.0.emit_around(&shared.1, 1, || shared.0.emit_nested(&shared.1));
        let flushing = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (model, record) = &*shared;
                let mut flusher = Flusher::new(model, &[record]);
                flusher.round();
                flusher.sources.remove(0)
            })
        };
        let (model, record) = &*shared;
        (2..=3).for_each(|id| assert_eq!(model.emit(record, id), Outcome::Written));
        let source = flushing.join().unwrap();
        let mut flusher = Flusher::new(model, &[record]);
        flusher.sources = vec![source];
        (0..2).for_each(|_| flusher.round());
        flusher.check_rows(&[1, 2, 3]);
        tell(tally, &flusher);
    });
    assert_met(&tally, &[SEIZED]);
}

#[test]
fn loom_a_clock_that_goes_back_breaks_no_point() {
    let tally = explore("back", 2, |tally| {
        let owner = |model: &Model, record: &Record| {
            (1..=3).for_each(|id| assert_eq!(model.emit(record, id), Outcome::Written));
        };
        // Three ticks: some events of the past are behind the flusher's time, some are not.
        with_one_owner(tally, Model::new(3, 2).behind(3), 1, owner, |_, flusher, _| {
            flusher.check_rows(&[1, 2, 3]);
        });
    });
    assert_met(&tally, &[SEIZED]);
}

#[test]
fn loom_a_round_without_patience_loses_nothing() {
    let tally = explore("patience", 2, |tally| {
        let shared = Arc::new((Model::new(3, 1), Record::new(0)));
        let emitting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (model, record) = &*shared;
                (1..=2).for_each(|id| assert_eq!(model.emit(record, id), Outcome::Written));
            })
        };
        let (model, record) = &*shared;
        let mut flusher = Flusher::new(model, &[record]);
        tally.add(BUSY, flusher.impatient_round());
        flusher.round();
        emitting.join().unwrap();
        (0..2).for_each(|_| flusher.round());
        flusher.check_rows(&[1, 2]);
        tell(tally, &flusher);
    });
    assert_met(&tally, &[BUSY, SEIZED]);
}

#[test]
fn loom_a_handler_is_told_wherever_it_comes() {
    for moment in 0..Model::MOMENTS {
        let tally = explore("handler", 2, move |tally| {
            let shared = Arc::new((Model::new(3, 4), Record::new(0)));
            let emitting = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (model, record) = &*shared;
                    model.emit_around(record, 1, || model.emit_nested(record));
                    model.emit_with_handler(record, 2, moment);
                    model.emit(record, 3);
                })
            };
            let (model, record) = &*shared;
            let mut flusher = Flusher::new(model, &[record]);
            flusher.round();
            emitting.join().unwrap();
            (0..2).for_each(|_| flusher.round());
            flusher.check_rows(&[1, 2, 3]);
            tell(tally, &flusher);
        });
        assert_met(&tally, &[SEIZED]);
    }
}

#[test]
fn loom_a_thread_that_exits_leaves_everything() {
    let tally = explore("exit", 2, |tally| {
        let owner = |model: &Model, record: &Record| {
            model.emit(record, 1);
            model.emit_around(record, 2, || model.emit_nested(record));
            record.exit(&model.pool);
        };
        with_one_owner(tally, Model::new(3, 2), 1, owner, |_, flusher, _| {
            flusher.check_rows(&[1, 2]);
            assert!(flusher.sources[0].ended);
        });
    });
    assert_met(&tally, &[MOVED_ON, SEIZED]);
}

#[test]
fn loom_after_close_nothing_is_written() {
    let tally = explore("close", 3, |tally| {
        let shared = Arc::new((Model::new(3, 1), Record::new(0)));
        let emitting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let outcomes = [1, 2, 3].map(|id| shared.0.emit(&shared.1, id));
                outcomes.iter().filter(|outcome| **outcome == Outcome::Written).count()
            })
        };
        let (model, record) = &*shared;
        let mut flusher = Flusher::new(model, &[record]);
        record.close();
        (0..2).for_each(|_| flusher.round());
        let rows = flusher.rows();
        assert_eq!(emitting.join().unwrap(), rows);
        flusher.round();
        flusher.check_counts();
        assert_eq!(flusher.rows(), rows);
        tally.add(ROWS, rows);
        tell(tally, &flusher);
    });
    assert_met(&tally, &[ROWS]);
}

#[test]
fn loom_two_threads_keep_to_the_point() {
    let tally = explore("two threads", 1, |tally| {
        let shared = Arc::new((Model::new(4, 1), [Record::new(0), Record::new(0)]));
        let emitting = [0, 1].map(|at| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                (1..=2).for_each(|id| {
                    shared.0.emit(&shared.1[at], id);
                });
            })
        });
        let (model, [one, other]) = &*shared;
        let mut flusher = Flusher::new(model, &[one, other]);
        flusher.round();
        emitting.into_iter().for_each(|thread| thread.join().unwrap());
        (0..2).for_each(|_| flusher.round());
        flusher.check_counts();
        assert_eq!(flusher.rows(), 4);
        tell(tally, &flusher);
    });
    assert_met(&tally, &[SEIZED]);
}

#[test]
fn loom_no_chunk_is_taken_twice() {
    explore("pool", 3, |_| {
        let model = Arc::new(Model::new(2, 1));
        let chunks = [0, 1].map(|_| model.pool.take(0).unwrap());
        chunks.iter().for_each(|&chunk| model.pool.give(chunk));
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                if let Some(chunk) = model.pool.take(0) {
                    model.touch(chunk);
                    model.pool.give(chunk);
                }
            })
        };
        let first = model.pool.take(0);
        let second = model.pool.take(0);
        if let Some(chunk) = first {
            model.touch(chunk);
            model.pool.give(chunk);
        }
        let third = model.pool.take(0);
        for chunk in [second, third].into_iter().flatten() {
            model.touch(chunk);
        }
        assert!(second.is_none() || second != third);
        other.join().unwrap();
        [second, third].into_iter().flatten().for_each(|chunk| model.pool.give(chunk));
        assert_eq!(model.pool.use_of_chunks(), (0, 2));
        let again = [0, 1].map(|_| model.pool.take(0));
        assert!(again[0].is_some() && again[1].is_some() && again[0] != again[1]);
    });
}
