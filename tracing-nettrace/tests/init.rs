//! The one line in `main`, in a process of its own.
#![allow(clippy::disallowed_methods, reason = "a test of threads")]

mod support;

use tracing::subscriber::{self, NoSubscriber};
use tracing_nettrace::{InitError, init};

#[test]
fn the_one_line_records_the_process() {
    // A subscriber for a scope, as tests have it, is none of the process.
    subscriber::with_default(NoSubscriber::default(), || tracing::info!(number = 1));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.nettrace");
    let misspelt = init().directives("a=loud").file(&path).install();
    assert!(matches!(misspelt, Err(InitError::Directives { .. })), "{misspelt:?}");
    let missing = init().file(folder.path().join("missing/trace.nettrace")).install();
    assert!(matches!(missing, Err(InitError::Session(_))), "{missing:?}");

    // The variable is not set.
    let trace = init().directives_from_env("NETTRACE_TEST_UNSET").file(&path).install().unwrap();
    tracing::info!(number = 2);
    tracing::debug!(number = 3);
    std::thread::spawn(|| tracing::warn!(number = 4)).join().unwrap();
    let other = folder.path().join("other.nettrace");
    let second = init().file(&other).install();
    assert!(matches!(second, Err(InitError::AlreadyInstalled)), "{second:?}");
    assert!(!other.exists());

    let stats = trace.finish().unwrap();
    assert_eq!((stats.written, stats.dropped()), (2, 0));
    tracing::info!(number = 5);
    let numbers: Vec<_> =
        support::read_file(&path).iter().map(|event| event.number("number")).collect();
    assert_eq!(numbers, [2, 4]);
}
