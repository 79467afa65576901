//! Runs the shop of `examples/problems` with each of its problems, and asks the trace what
//! `docs/finding_it.md` asks.

mod program;

use std::{fs, path::Path, time::Duration};

use crate::program::{nettrace, stderr, stdout};
use problems::Problem;
use testkit::process::{is_rerun, rerun};

/// How long the shop is used.
const TIME: Duration = Duration::from_secs(1);

/// The trace of the shop with a problem, from a process of its own: the one that runs `test` again,
/// in which there is no trace.
fn trace(test: &str, problem: Problem) -> Option<Vec<u8>> {
    if let Some(path) = is_rerun() {
        problem.run(Path::new(&path), TIME).unwrap();
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.nettrace");
    let output = rerun(test, path.to_str().unwrap());
    assert!(output.status.success(), "{}", stderr(&output));
    Some(fs::read(path).unwrap())
}

/// What the command shows.
fn ask(arguments: &[&str], trace: &[u8]) -> String {
    let output = nettrace(arguments, trace);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).to_owned()
}

/// The first line that contains this.
#[track_caller]
fn line<'a>(shown: &'a str, part: &str) -> &'a str {
    shown.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {shown}"))
}

/// The number in a column of a table, which is called by its head.
#[track_caller]
fn number(shown: &str, row: &str, column: usize) -> u64 {
    let cells = line(shown, row).split_once(row).unwrap().1.split_whitespace();
    cells
        .clone()
        .nth(column)
        .and_then(|cell| cell.parse().ok())
        .unwrap_or_else(|| panic!("{shown}"))
}

#[test]
fn lock_across_await() {
    let Some(trace) = trace("lock_across_await", Problem::LockAcrossAwait) else { return };
    let shown = ask(&["tree", "-", "--slow", "1"], &trace);
    assert!(line(&shown, ", trace ").contains(" of it in Shop/reserve ["), "{shown}");
    assert!(line(&shown, "  Shop/reserve").contains(" -> polls="), "{shown}");
    assert!(line(&shown, "    Shop/charge_card").contains(" ok "), "{shown}");
}

#[test]
fn n_plus_one() {
    let Some(trace) = trace("n_plus_one", Problem::NPlusOne) else { return };
    let shown = ask(&["tree", "-", "--slow", "1"], &trace);
    assert!(line(&shown, ", trace ").contains(" of it in 60 × Shop/query_customer"), "{shown}");
    let queries = line(&shown, "60 × Shop/query_customer, ");
    assert!(queries.ends_with(", one after another"), "{shown}");
}

#[test]
fn retry_storm() {
    let Some(trace) = trace("retry_storm", Problem::RetryStorm) else { return };
    let shown = ask(&["errors", "-"], &trace);
    let failed = |row| number(&shown, row, 1);
    let calls = failed("Shop/ask_pricing: err: the pricing service is overloaded");
    let requests = failed("Shop/price: err: the pricing service is overloaded");
    assert!(calls >= 8 * requests && requests > 0, "{shown}");
    let shown = ask(&["tree", "-", "--where", "outcome=err", "--slow", "1"], &trace);
    assert!(shown.contains("8 × Shop/ask_pricing, ") || shown.matches("ask_pricing").count() >= 8);
    assert!(shown.contains("W Shop/Again: attempt 7 at the price failed, trying again"), "{shown}");
}

#[test]
fn blocking_call() {
    let Some(trace) = trace("blocking_call", Problem::BlockingCall) else { return };
    let shown = ask(&["tree", "-", "--span", "render_pdf", "--slow", "1"], &trace);
    let call = line(&shown, "Shop/render_pdf");
    assert!(call.contains(" pages=40 -> polls=1 busy="), "{shown}");
    assert!(!call.contains("µs"), "{shown}");
}

#[test]
fn task_leak() {
    let Some(trace) = trace("task_leak", Problem::TaskLeak) else { return };
    let shown = ask(&["tree", "-", "--open"], &trace);
    let leaked = line(&shown, " × Shop/watch_price, under way for ");
    assert!(number(leaked, "", 0) > 20, "{shown}");
    assert!(line(&shown, " no end ").contains("Shop/watch_price"), "{shown}");
}

#[test]
fn full_channel() {
    let Some(trace) = trace("full_channel", Problem::FullChannel) else { return };
    let shown = ask(&["tree", "-", "--slow", "1"], &trace);
    assert!(line(&shown, ", trace ").contains(" of it in Shop/enqueue ["), "{shown}");
    assert!(line(&shown, "    Shop/store_order").contains(" ok "), "{shown}");
}

#[test]
fn shutdown_deadlock() {
    let Some(trace) = trace("shutdown_deadlock", Problem::ShutdownDeadlock) else { return };
    let shown = ask(&["tree", "-", "--open"], &trace);
    for waits in ["Shop/shut_down", "Shop/await_mailer", "Shop/mailer"] {
        let line = line(&shown, waits);
        assert!(line.starts_with('*') && line.contains(" no end "), "{shown}");
    }
    assert!(
        shown.contains("I Shop/Waiting: waiting for mail: senders that are left: 1"),
        "{shown}"
    );
}

#[test]
fn open_request() {
    let Some(trace) = trace("open_request", Problem::OpenRequest) else { return };
    let shown = ask(&["tree", "-", "--open"], &trace);
    assert!(shown.starts_with("1 tree has a span without an end:\n"), "{shown}");
    assert!(line(&shown, "Shop/Request").ends_with(r#" route="/delivery" id=100"#), "{shown}");
    assert!(line(&shown, "Shop/ask_supplier").ends_with(r#" supplier="Fabrikam""#), "{shown}");
    assert!(shown.contains("I Shop/Asked: asked Fabrikam for a delivery date"), "{shown}");
}

#[test]
fn idle_leak() {
    let Some(trace) = trace("idle_leak", Problem::IdleLeak) else { return };
    let shown = ask(&["tree", "-", "--open"], &trace);
    let leaked = line(&shown, " × Shop/Connection, under way for ");
    assert!(number(leaked, "", 0) >= 5, "{shown}");
}
