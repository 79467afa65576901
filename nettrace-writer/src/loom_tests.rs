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
struct Tally(Shared<[atomic::AtomicUsize; 4]>);

impl Tally {
    fn add(&self, what: usize, by: usize) {
        self.0[what].fetch_add(by, atomic::Ordering::Relaxed);
    }

    fn of(&self, what: usize) -> usize {
        self.0[what].load(atomic::Ordering::Relaxed)
    }
}

/// Executions, second passes, seized chunks.
const EXECUTIONS: usize = 0;
const MOVED_ON: usize = 1;
const SEIZED: usize = 2;

fn explore(name: &str, model: impl Fn(&Tally) + Send + Sync + 'static) -> Tally {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.max_branches = 20_000;
    let tally = Tally::default();
    let counts = tally.clone();
    builder.check(move || {
        counts.add(EXECUTIONS, 1);
        model(&counts);
    });
    println!("{name}: {} executions", tally.of(EXECUTIONS));
    tally
}

fn note(tally: &Tally, flusher: &Flusher<'_>) {
    for source in &flusher.sources {
        tally.add(MOVED_ON, source.moved_on);
        tally.add(SEIZED, source.seized);
    }
}

/// Owner's thread over rounds.
#[test]
fn loom_rows_older_than_a_round_are_in_it() {
    let tally = explore("rows_older_than_a_round_are_in_it", |tally| {
        let shared = Arc::new((Model::new(3, 2), Record::new(0)));
        let owner = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (model, record) = &*shared;
                for id in 1..=3 {
                    assert_eq!(model.emit(record, id), Outcome::Written);
                }
            })
        };
        let (model, record) = &*shared;
        let mut flusher = Flusher::new(model, &[record]);
        flusher.round();
        owner.join().unwrap();
        flusher.round();
        flusher.round();
        flusher.check_all(&[1, 2, 3]);
        note(tally, &flusher);
    });
    assert!(tally.of(MOVED_ON) > 0 && tally.of(SEIZED) > 0);
}
