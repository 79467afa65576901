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
    assert!(init().file("no such folder/trace.nettrace").install_or_warn().is_none());
    let health = nettrace_writer::health();
    assert!(health.problems[0].starts_with("nothing is recorded: "), "{health}");

    // The file of the run before is there, and stays under another name.
    std::fs::write(&path, "the run before").unwrap();
    let refused = init().file(&path).session(|session| session.overwrite(false)).install();
    assert!(matches!(refused, Err(InitError::Session(_))), "{refused:?}");

    // The variable is not set.
    let trace = init().directives_from_env("NETTRACE_TEST_UNSET").file(&path).install().unwrap();
    tracing::info!(number = 2);
    tracing::debug!(number = 3);
    std::thread::spawn(|| tracing::warn!(number = 4)).join().unwrap();
    let caught = std::panic::catch_unwind(|| {
        tracing::info_span!("job").in_scope(|| panic!("on purpose"));
    });
    assert!(caught.is_err());
    let previous = std::fs::read(folder.path().join("trace.previous.nettrace")).unwrap();
    assert_eq!(previous, b"the run before");
    let other = folder.path().join("other.nettrace");
    let second = init().file(&other).install();
    assert!(matches!(second, Err(InitError::AlreadyInstalled)), "{second:?}");
    assert!(!other.exists());

    let stats = trace.finish().unwrap();
    // Two events, a Start, a panic and a Stop.
    assert_eq!((stats.written, stats.dropped()), (5, 0));
    tracing::info!(number = 5);
    let events = support::read_file(&path);
    let (job, panic) = (support::only(&events, "jobStop"), support::message(&events, "on purpose"));
    assert_eq!((panic.name(), panic.span), ("Panic", job.span));
    assert_eq!(job.field("outcome"), "panicked");
    let numbers = events.iter().filter(|event| event.has("number"));
    let numbers: Vec<_> = numbers.map(|event| event.number("number")).collect();
    assert_eq!(numbers, [2, 4]);
}

/// What a test records in a process with this value of `RUST_LOG`, and what is said.
fn recorded_with(test: &str, directives: &str) -> (String, String) {
    let output = testkit::process::this_program()
        .args([test, "--exact", "--nocapture"])
        .env("RUST_LOG", directives)
        .env("NETTRACE_TEST_CHILD", "1")
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{out} {err}");
    let recorded = out.lines().find_map(|line| line.strip_prefix("recorded ")).unwrap_or(&out);
    (recorded.to_owned(), err)
}

#[test]
fn a_layer_without_a_filter_obeys_the_variable() {
    use nettrace_writer::{Session, sink::MemorySink};
    use tracing_nettrace::{Options, layer};
    use tracing_subscriber::prelude::*;

    const NAME: &str = "a_layer_without_a_filter_obeys_the_variable";
    if std::env::var_os("NETTRACE_TEST_CHILD").is_some() {
        let emit = || {
            tracing::debug!(number = 1);
            tracing::info!(number = 2);
            tracing::debug!(target: "other", number = 3);
            tracing::error!(target: "other", number = 4);
        };
        let memory = MemorySink::new();
        let session = Session::builder().sink(memory.clone()).start().unwrap();
        let registry = tracing_subscriber::registry();
        subscriber::with_default(registry.with(layer()), emit);
        let all = Options::new().directives("trace").unwrap();
        let registry = tracing_subscriber::registry();
        subscriber::with_default(registry.with(all.layer()), emit);
        session.finish().unwrap();
        let events = support::read(&memory.bytes());
        let numbers: String = events.iter().map(|event| event.field("number")).collect();
        println!("\nrecorded {numbers}");
        return;
    }
    let recorded_with = |directives| recorded_with(NAME, directives);
    let obeyed = recorded_with("init=debug,other=error");
    assert_eq!(obeyed, ("1241234".to_owned(), String::new()));
    let not_set = recorded_with("");
    assert_eq!(not_set, ("12341234".to_owned(), String::new()));
    for (directives, why) in [("info,init[span]=debug", "brackets"), ("info=loud", "level")] {
        let (numbers, said) = recorded_with(directives);
        assert_eq!(numbers, "12341234", "{directives}");
        assert_eq!(said.matches("does not obey RUST_LOG").count(), 1, "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn the_one_line_says_which_directives_it_leaves_out() {
    const NAME: &str = "the_one_line_says_which_directives_it_leaves_out";
    if std::env::var_os("NETTRACE_TEST_CHILD").is_some() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.nettrace");
        let trace = init().file(&path).install_or_warn();
        tracing::debug!(number = 1);
        tracing::info!(number = 2);
        tracing::warn!(target: "other", number = 3);
        tracing::error!(target: "other", number = 4);
        // A health check tells the same.
        let problems = nettrace_writer::health().problems.len();
        let is_obeyed = std::env::var("RUST_LOG").unwrap() == "info,other=error";
        assert_eq!(problems, usize::from(!is_obeyed));
        println!();
        let Some(trace) = trace else { return println!("recorded nothing") };
        trace.finish().unwrap();
        let events = support::read_file(&path);
        let numbers: String = events.iter().map(|event| event.field("number")).collect();
        return println!("recorded {numbers}");
    }
    for (directives, recorded, words) in [
        ("info,other=error", "24", ""),
        (
            "info,init[parse]=debug,other=error",
            "24",
            "not obey `init[parse]=debug` of the directives `info,init[parse]=debug,other=error`",
        ),
        ("init[parse{a,b=\"1\"}]=trace,init=debug", "12", "`init[parse{a,b=\"1\"}]=trace` of"),
        // As if it were not set.
        ("[{number}]=trace", "234", "are for an `EnvFilter`"),
        ("info,sqlx=loud", "nothing", "nothing is recorded: cannot read the directives"),
    ] {
        let (numbers, said) = recorded_with(NAME, directives);
        assert_eq!(numbers, recorded, "{directives}: {said}");
        let lines = usize::from(!words.is_empty());
        assert_eq!(said.matches("nettrace: ").count(), lines, "{directives}: {said}");
        assert!(said.contains(words), "{directives}: {said}");
    }
}
