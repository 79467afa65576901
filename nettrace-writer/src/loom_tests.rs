//! Checks what `record` states, under every interleaving that loom finds with few preemptions.
//!
//! `RUSTFLAGS="--cfg nettrace_loom" cargo test -p nettrace-writer --lib --release loom` runs the
//! models; `cargo xtask loom` does the same, with the feature `metrics` for those of counters. Each
//! model prints how many executions it had. It fails if none of them met the situation that the
//! model is made for.
//!
//! The number of executions grows fast with the events and rounds that run at the same time. So in
//! most models the owner has emitted its first event before the flusher begins, and emits one or
//! two more while the flusher does a round.

#[cfg(feature = "metrics")]
mod cells;
mod explore;
mod model;
mod pool;

use loom::sync::Arc;

use self::{
    explore::{
        BUSY, DROPPED, EPOCHS, LABELS, MOVED_ON, ROWS, SEALING, SEIZED, STILL, Tally, UNPROVED,
        assert_met, explore,
    },
    model::{Flusher, Model, Outcome},
};
use crate::{
    protocol::{
        idle::Sleep,
        record::{Floor, MODE_FENCE, Record},
    },
    sync::thread,
};

fn tell(tally: &Tally, flusher: &Flusher<'_>) {
    for source in &flusher.sources {
        tally.add(MOVED_ON, source.moved_on);
        tally.add(SEIZED, source.seized);
        tally.add(SEALING, source.sealing);
    }
}

/// A model and a record.
type Shared = Arc<(Model, Record)>;

/// A record that has no chunk yet: no event has been emitted.
fn fresh(model: Model) -> Shared {
    Arc::new((model, Record::new(MODE_FENCE)))
}

/// A record whose owner has emitted event 1 and has the chunk with its row.
fn begun(model: Model) -> Shared {
    let shared = fresh(model);
    assert_eq!(shared.0.emit(&shared.1, 1), Outcome::Written);
    shared
}

/// Runs `owner` on a thread, with `rounds` rounds of a flusher meanwhile and two after it. Then
/// calls `check`.
fn with_one_owner(
    tally: &Tally,
    shared: &Shared,
    rounds: usize,
    owner: fn(&Model, &Record),
    check: fn(&Tally, &Flusher<'_>, &Record),
) {
    let emitting = {
        let shared = Arc::clone(shared);
        thread::spawn(move || owner(&shared.0, &shared.1))
    };
    let (model, record) = &**shared;
    let mut flusher = Flusher::new(model, &[record]);
    (0..rounds).for_each(|_| flusher.round());
    emitting.join().unwrap();
    (0..2).for_each(|_| flusher.round());
    tell(tally, &flusher);
    check(tally, &flusher, record);
}

#[test]
fn loom_a_round_has_every_row_that_is_older() {
    // The chunk has one place left: the next event fills it, the one after begins another.
    let tally = explore("older", 3, |tally| {
        let owner = |model: &Model, record: &Record| {
            (2..=3).for_each(|id| assert_eq!(model.emit(record, id), Outcome::Written));
        };
        with_one_owner(tally, &begun(Model::new(3, 2)), 1, owner, |_, flusher, _| {
            flusher.check_rows(&[1, 2, 3]);
        });
    });
    assert_met(&tally, &[MOVED_ON, SEIZED, SEALING]);
}

#[test]
fn loom_a_round_has_the_first_rows_of_a_thread() {
    let tally = explore("first rows", 3, |tally| {
        let owner = |model: &Model, record: &Record| {
            (1..=2).for_each(|id| assert_eq!(model.emit(record, id), Outcome::Written));
        };
        with_one_owner(tally, &fresh(Model::new(3, 1)), 1, owner, |_, flusher, _| {
            flusher.check_rows(&[1, 2]);
        });
    });
    assert_met(&tally, &[MOVED_ON, SEIZED, SEALING]);
}

#[test]
fn loom_chunks_come_back_between_rounds() {
    // Two chunks for one row each. The second round meets the chunk that the first gave back.
    let tally = explore("come back", 2, |tally| {
        let owner = |model: &Model, record: &Record| {
            (2..=3).for_each(|id| assert_ne!(model.emit(record, id), Outcome::Closed));
        };
        with_one_owner(tally, &begun(Model::new(2, 1)), 2, owner, |tally, flusher, record| {
            flusher.check_counts();
            tally.add(DROPPED, record.counts().1.no_room as usize);
        });
    });
    assert_met(&tally, &[SEIZED, DROPPED]);
}

#[test]
fn loom_dropped_events_are_counted() {
    let tally = explore("dropped", 3, |tally| {
        let owner = |model: &Model, record: &Record| {
            (2..=3).for_each(|id| assert_ne!(model.emit(record, id), Outcome::Closed));
        };
        with_one_owner(tally, &begun(Model::new(1, 1)), 1, owner, |tally, flusher, record| {
            flusher.check_counts();
            tally.add(DROPPED, record.counts().1.no_room as usize);
        });
    });
    assert_met(&tally, &[SEIZED, DROPPED]);
}

#[test]
fn loom_nested_events_are_counted() {
    let tally = explore("nested", 2, |tally| {
        let owner = |model: &Model, record: &Record| {
            model.emit_around(record, 1, || model.emit_nested(record));
            model.emit(record, 2);
        };
        with_one_owner(tally, &fresh(Model::new(3, 4)), 1, owner, |_, flusher, record| {
            flusher.check_rows(&[1, 2]);
            assert_eq!(record.counts().1.reentrant, 1);
        });
    });
    assert_met(&tally, &[SEIZED]);
}

/// One round, while the owner emits events 2 and 3. Then two more rounds, and all three events are
/// there.
fn with_one_round<'a>(
    tally: &Tally,
    shared: &'a Shared,
    emit: fn(&Model, &Record, u8) -> Outcome,
) -> Flusher<'a> {
    let flushing = {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let (model, record) = &*shared;
            let mut flusher = Flusher::new(model, &[record]);
            flusher.round();
            flusher.sources.remove(0)
        })
    };
    let (model, record) = &**shared;
    (2..=3).for_each(|id| assert_eq!(emit(model, record, id), Outcome::Written));
    let source = flushing.join().unwrap();
    let mut flusher = Flusher::new(model, &[record]);
    flusher.sources = vec![source];
    (0..2).for_each(|_| flusher.round());
    flusher.check_rows(&[1, 2, 3]);
    tell(tally, &flusher);
    flusher
}

#[test]
fn loom_a_request_survives_a_note() {
    // The flusher asks in the middle of an event that follows a note. The next event must not write
    // into the chunk that was taken.
    let tally = explore("note", 2, |tally| {
        let shared = fresh(Model::new(3, 4));
        shared.0.emit_around(&shared.1, 1, || shared.0.emit_nested(&shared.1));
        with_one_round(tally, &shared, Model::emit);
    });
    assert_met(&tally, &[SEIZED]);
}

#[test]
fn loom_a_request_survives_a_change_of_labels() {
    // As above, but labels changed before each event, which then goes on with the fast path.
    let tally = explore("labels", 2, |tally| {
        let shared = begun(Model::new(3, 4));
        let flusher = with_one_round(tally, &shared, Model::emit_after_change);
        let labels = shared.1.labels();
        assert_eq!(flusher.sources[0].labels, labels);
        tally.add(LABELS, labels as usize);
    });
    assert_met(&tally, &[SEIZED, LABELS]);
}

#[test]
fn loom_a_request_survives_the_ids_of_a_span() {
    // The flusher asks between a span's ids and its Start, which are two announcements.
    let tally = explore("span", 3, |tally| {
        let owner = |model: &Model, record: &Record| {
            assert_eq!(model.emit_after_span(record, 2), Outcome::Written);
        };
        with_one_owner(tally, &begun(Model::new(3, 4)), 1, owner, |tally, flusher, record| {
            flusher.check_rows(&[1, 2]);
            let labels = record.labels();
            assert_eq!(flusher.sources[0].labels, labels);
            tally.add(LABELS, labels as usize);
        });
    });
    assert_met(&tally, &[SEIZED, LABELS]);
}

#[test]
fn loom_a_clock_that_goes_back_breaks_no_sequence_point() {
    let tally = explore("back", 3, |tally| {
        let owner = |model: &Model, record: &Record| {
            (2..=3).for_each(|id| assert_eq!(model.emit(record, id), Outcome::Written));
        };
        // Three ticks, so that some events are before the flusher's time and some are not.
        with_one_owner(tally, &begun(Model::new(3, 2).behind(3)), 1, owner, |_, flusher, _| {
            flusher.check_rows(&[1, 2, 3]);
        });
    });
    assert_met(&tally, &[SEIZED]);
}

#[test]
fn loom_a_clock_that_jumps_breaks_no_sequence_point() {
    let tally = explore("jump", 2, |tally| {
        let shared = fresh(Model::new(3, 2).ahead(40));
        let (model, record) = &*shared;
        let mut flusher = Flusher::new(model, &[record]);
        // The flusher must have read the clock before it jumps, and the owner must have a chunk.
        flusher.round();
        assert_eq!(model.emit(record, 1), Outcome::Written);
        let emitting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (model, record) = &*shared;
                model.jump_to(1);
                (2..=3).for_each(|id| assert_eq!(model.emit(record, id), Outcome::Written));
            })
        };
        flusher.round();
        emitting.join().unwrap();
        (0..2).for_each(|_| flusher.round());
        flusher.check_rows(&[1, 2, 3]);
        tally.add(EPOCHS, flusher.epochs());
        tell(tally, &flusher);
    });
    assert_met(&tally, &[EPOCHS, SEIZED]);
}

#[test]
fn loom_a_clock_that_jumps_again_keeps_the_order_of_a_busy_thread() {
    // The first round begins an epoch, and does not wait for the thread. The next begins another.
    let tally = explore("jump again", 2, |tally| {
        let shared = fresh(Model::new(3, 1).ahead(40).asleep(5));
        let (model, record) = &*shared;
        let mut flusher = Flusher::new(model, &[record]);
        flusher.round();
        assert_eq!(model.emit(record, 1), Outcome::Written);
        model.jump_to(60);
        let emitting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (model, record) = &*shared;
                (2..=3).for_each(|id| assert_eq!(model.emit(record, id), Outcome::Written));
            })
        };
        model.jump_to(20);
        tally.add(BUSY, flusher.impatient_round());
        model.jump_to(1);
        emitting.join().unwrap();
        (0..2).for_each(|_| flusher.round());
        flusher.check_rows(&[1, 2, 3]);
        tally.add(EPOCHS, flusher.epochs());
        tell(tally, &flusher);
    });
    assert_met(&tally, &[BUSY, EPOCHS, SEIZED]);
}

#[test]
fn loom_a_thread_sees_all_terms_of_an_epoch() {
    let tally = explore("epochs", 3, |tally| {
        let floor = Arc::new(Floor::new());
        // Epoch n has the floor n, which nobody raises, and the offset -n.
        let begun = {
            let floor = Arc::clone(&floor);
            thread::spawn(move || {
                (1..=3).for_each(|n: u64| {
                    floor.begin_epoch(n + 1, n.wrapping_neg());
                });
            })
        };
        for _ in 0..2 {
            let current = floor.current();
            let epoch = u64::from(current.epoch);
            assert_eq!((current.floor, current.offset), (epoch, epoch.wrapping_neg()));
            tally.add(EPOCHS, current.epoch as usize);
        }
        begun.join().unwrap();
    });
    assert_met(&tally, &[EPOCHS]);
}

#[test]
fn loom_a_round_without_patience_loses_nothing() {
    let tally = explore("patience", 2, |tally| {
        let shared = fresh(Model::new(3, 1));
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
fn loom_a_handler_is_counted_at_every_moment() {
    for moment in 0..Model::MOMENTS {
        let tally = explore("handler", 2, move |tally| {
            let shared = fresh(Model::new(3, 4));
            shared.0.emit_around(&shared.1, 1, || shared.0.emit_nested(&shared.1));
            let emitting = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (model, record) = &*shared;
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
fn loom_a_thread_that_ends_hands_over_everything() {
    let tally = explore("exit", 2, |tally| {
        let owner = |model: &Model, record: &Record| {
            model.emit_around(record, 2, || model.emit_nested(record));
            record.exit(&model.pool);
        };
        with_one_owner(tally, &begun(Model::new(3, 2)), 1, owner, |_, flusher, _| {
            flusher.check_rows(&[1, 2]);
            assert!(flusher.sources[0].ended);
        });
    });
    assert_met(&tally, &[MOVED_ON, SEIZED]);
}

#[test]
fn loom_after_close_nothing_is_written() {
    let tally = explore("close", 3, |tally| {
        let shared = fresh(Model::new(3, 1));
        let emitting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let outcomes = [1, 2].map(|id| shared.0.emit(&shared.1, id));
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
fn loom_after_a_last_round_nobody_reaches_the_memory() {
    let tally = explore("free", 2, |tally| {
        let shared = fresh(Model::new(3, 1));
        let emitting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let outcomes = [1, 2].map(|id| shared.0.emit(&shared.1, id));
                shared.1.exit(&shared.0.pool);
                outcomes.iter().filter(|outcome| **outcome == Outcome::Written).count()
            })
        };
        let (model, record) = &*shared;
        let mut flusher = Flusher::new(model, &[record]);
        flusher.close();
        flusher.round();
        // If the owner touches the bytes from now on loom fails; if it asks for a chunk the pool
        // panics.
        model.free();
        assert_eq!(emitting.join().unwrap(), flusher.rows());
        tally.add(ROWS, flusher.rows());
        tell(tally, &flusher);
    });
    assert_met(&tally, &[ROWS, MOVED_ON, SEIZED, SEALING]);
}

#[test]
fn loom_an_event_that_waits_at_the_end_is_counted() {
    let tally = explore("waits", 2, |tally| {
        let shared = fresh(Model::new(1, 1));
        let emitting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let first = shared.0.emit(&shared.1, 1);
                let outcomes = [first, shared.0.emit_or_wait(&shared.1, 2)];
                outcomes.map(|outcome| u64::from(outcome != Outcome::Closed)).iter().sum::<u64>()
            })
        };
        let (model, record) = &*shared;
        let mut flusher = Flusher::new(model, &[record]);
        flusher.round();
        flusher.close();
        (0..2).for_each(|_| flusher.round());
        let attempted = record.counts().0;
        flusher.check_counts();
        assert_eq!(emitting.join().unwrap(), attempted);
        assert_eq!(record.counts().0, attempted);
        tally.add(DROPPED, record.counts().1.no_room as usize);
        tally.add(ROWS, flusher.rows());
    });
    assert_met(&tally, &[DROPPED, ROWS]);
}

#[test]
fn loom_an_owner_begins_to_execute_fences() {
    // The barrier has failed. The owner, which has a chunk with a row in it, does not know that.
    let tally = explore("pays", 2, |tally| {
        let shared = Arc::new((Model::new(3, 2), Record::new(0)));
        assert_eq!(shared.0.install(&shared.1, 1), Outcome::Written);
        let emitting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (model, record) = &*shared;
                (2..=3).for_each(|id| assert_eq!(model.emit(record, id), Outcome::Written));
            })
        };
        let (model, record) = &*shared;
        let mut flusher = Flusher::new(model, &[record]);
        (0..2).for_each(|_| flusher.round());
        tally.add(UNPROVED, flusher.unproved);
        emitting.join().unwrap();
        record.exit(&model.pool);
        (0..2).for_each(|_| flusher.round());
        flusher.check_rows(&[1, 2, 3]);
        tell(tally, &flusher);
    });
    assert_met(&tally, &[UNPROVED, SEIZED]);
}

#[test]
fn loom_two_threads_keep_to_sequence_points() {
    let tally = explore("two threads", 1, |tally| {
        let shared =
            Arc::new((Model::new(4, 1), [Record::new(MODE_FENCE), Record::new(MODE_FENCE)]));
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
fn loom_a_round_that_asks_nobody_keeps_its_promise() {
    let tally = explore("still", 3, |tally| {
        let shared = fresh(Model::new(3, 2));
        let (model, record) = &*shared;
        let mut flusher = Flusher::new(model, &[record]);
        // The flusher must have seen the thread once.
        flusher.round();
        let emitting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (model, record) = &*shared;
                model.emit(record, 1);
                model.emit_around(record, 2, || model.emit_nested(record));
            })
        };
        flusher.round();
        emitting.join().unwrap();
        (0..2).for_each(|_| flusher.round());
        flusher.check_rows(&[1, 2]);
        tally.add(STILL, flusher.still);
        tell(tally, &flusher);
    });
    assert_met(&tally, &[STILL, SEIZED]);
}

#[test]
fn loom_a_round_that_asks_nobody_may_come_after_drops() {
    let tally = explore("still, drops", 3, |tally| {
        let shared = fresh(Model::new(1, 1));
        let (model, record) = &*shared;
        let mut flusher = Flusher::new(model, &[record]);
        flusher.round();
        let emitting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                (1..=2).for_each(|id| {
                    shared.0.emit(&shared.1, id);
                });
            })
        };
        (0..2).for_each(|_| flusher.round());
        emitting.join().unwrap();
        (0..2).for_each(|_| flusher.round());
        flusher.check_counts();
        tally.add(STILL, flusher.still);
        tally.add(DROPPED, record.counts().1.no_room as usize);
    });
    assert_met(&tally, &[STILL, DROPPED]);
}

#[test]
fn loom_taking_a_chunk_ends_a_rest() {
    let tally = explore("sleep", 3, |tally| {
        let model = Arc::new(Model::new(1, 1));
        model.idle.set_flusher();
        let taking = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                assert!(model.pool.take(0, false).is_some());
                model.idle.wake(|| unreachable!("nobody watches"));
            })
        };
        // If nobody wakes the flusher it parks for ever, and the model fails.
        if model.idle.begin(Sleep::Rest, || model.pool.is_unused()) {
            tally.add(STILL, 1);
            thread::park();
        }
        assert!(model.idle.end() || !model.pool.is_unused());
        taking.join().unwrap();
    });
    assert_met(&tally, &[STILL]);
}

#[test]
fn loom_memory_that_runs_low_ends_a_watch() {
    let tally = explore("watch", 3, |tally| {
        let model = Arc::new(Model::new(2, 1));
        model.idle.set_flusher();
        // A model has no chunks for large events, so its pool always says that memory is low.
        let is_low = |model: &Model| model.pool.in_use() == 2;
        let taking = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                for _ in 0..2 {
                    assert!(model.pool.take(0, false).is_some());
                    model.idle.wake(|| is_low(&model));
                }
            })
        };
        // If nobody wakes the flusher it parks for ever, and the model fails.
        if model.idle.begin(Sleep::Watch, || !is_low(&model)) {
            tally.add(STILL, 1);
            thread::park();
        }
        assert!(model.idle.end() || is_low(&model));
        taking.join().unwrap();
    });
    assert_met(&tally, &[STILL]);
}
