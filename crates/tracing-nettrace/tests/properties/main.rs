//! Random trees of spans, on several threads, against a reference.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests may name atomics and threads"
)]

mod model;
mod program;
mod registry;
mod trace;

use std::sync::Arc;

use nettrace_writer::{OnFull, Session, sink::MemorySink};
use parking_lot::Mutex;
use proptest::{prelude::*, test_runner::TestCaseError};
use testkit::effort::all_or;
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::{
    model::{Model, Notes, Until},
    program::{NAMES, Step, programs},
    registry::Noting,
};

/// What the reference notes.
fn reference(steps: &[Step], until: Until) -> (Notes, Vec<(u64, u64)>) {
    let model = Arc::new(Model::new(until));
    program::run(steps, &Dispatch::new(model.clone()));
    assert!(model.is_empty(), "a span that goes on");
    (model.notes(), model.follows())
}

/// Sessions hear all threads of the process, so one program is recorded at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Records a program, and compares.
fn check(
    steps: &[Step],
    until: Until,
    subscriber: impl FnOnce() -> Dispatch,
) -> Result<(), TestCaseError> {
    let _one = ONE.lock();
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("properties");
    let session = session.on_full(OnFull::Block).start().unwrap();
    program::run(steps, &subscriber());
    let stats = session.finish().unwrap();
    prop_assert_eq!(stats.dropped(), 0);
    let (expected, follows) = reference(steps, until);
    let found = trace::notes(&memory.bytes(), &NAMES);
    prop_assert_eq!(found.1, follows);
    assert_same(&found.0, &expected)
}

/// Fails with the first note of a thread that is not as expected.
fn assert_same(found: &Notes, expected: &Notes) -> Result<(), TestCaseError> {
    for (thread, expected) in expected {
        let found = found.get(thread).map_or(&[][..], |notes| notes);
        for (at, note) in expected.iter().enumerate() {
            prop_assert_eq!(found.get(at), Some(note), "note {} of {}", at, thread);
        }
        prop_assert_eq!(found.len(), expected.len(), "notes of {}", thread);
    }
    prop_assert_eq!(found.len(), expected.len(), "threads");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: all_or(64, 16),
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn the_reference_is_as_the_registry(steps in programs()) {
        let _one = ONE.lock();
        let noting = Noting::default();
        program::run(&steps, &Dispatch::new(tracing_subscriber::registry().with(noting.clone())));
        let notes = noting.0.lock().unwrap().clone();
        assert_same(&notes, &reference(&steps, Until::LastChild).0)?;
    }

    #[test]
    fn the_layer_is_as_the_reference(steps in programs()) {
        check(&steps, Until::LastChild, || {
            Dispatch::new(tracing_subscriber::registry().with(tracing_nettrace::layer()))
        })?;
    }

    #[test]
    fn the_subscriber_is_as_the_reference(steps in programs()) {
        check(&steps, Until::LastHandle, || Dispatch::new(tracing_nettrace::subscriber()))?;
    }
}
